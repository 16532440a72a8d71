// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/cmd/dray/internal/input"
	"github.com/dray-project/dray/cmd/dray/internal/prices"
	"github.com/dray-project/dray/cmd/dray/internal/render"
	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/mix"
)

const planLong = `Count how many nodes like an existing one the pending pods need. -n, -A, -l and
--field-selector choose pending pods. The others are left aside. Pods are placed in the
order of the scheduling queue, each on the first node that takes it. As many pods of a
PodGroup as it needs (minCount) are placed together, or none of them. Together, they may
need fewer nodes than one after the other: --most looks for that.

--prices chooses among kinds of nodes such that the new ones cost least together. Room
on the nodes there are is free of charge. The pods of a group are counted one by one. If
a group does not start on the nodes found, that is said. FILE says what nodes cost and
how many may be added:

  types:
  - {name: small, like: gpu-1, price: 10}   # like a node of the cluster
  - {name: large-a, like: hgx, price: 60, most: 4, labels: {zone: a}}
  - {name: large-b, like: hgx, price: 55, labels: {zone: b}}
  nodes: [hgx.yaml]                         # Nodes with ResourceSlices that do not exist yet
  limits:
  - {labels: {zone: b}, most: 2}            # of all types with these labels
  - {types: [small, large-a], most: 10}

Exit status: 0 if all pods have a place with some kind of node, or with the nodes that
cost least. 1 if not, 2 for wrong usage or input, 3 if that is not known.`

const planExample = `  # How many nodes like gpu-1, or how many like gpu-2?
  dray simulate plan --like gpu-1,gpu-2 -f cluster/

  # If each new node can be like either, and there are five at most
  dray simulate plan --like gpu-1,gpu-2 --any --most 5 -f cluster/

  # Which new nodes at least cost?
  dray simulate plan --prices prices.yaml -f cluster/`

// anyAnswer is a group of new nodes that can be like the same existing nodes.
type anyAnswer struct {
	// Like are the existing nodes that each new node can be like, in the order of --like. Nodes and
	// Pods count the new nodes and their pods.
	Like  []string `json:"like"`
	Nodes int      `json:"nodes"`
	Pods  int      `json:"pods"`
}

// planAny places the pending pods on existing nodes first, and then on new ones. Each new node can
// be like any of several existing nodes.
func (s *simulation) planAny(ctx context.Context, o *origin, f *output, parties []party, like []string, most int) error {
	var templates []*simulate.Template
	for i, name := range like {
		if slices.Contains(like[:i], name) {
			continue
		}
		template, err := s.state.TemplateOf(name, stays)
		if err != nil {
			return fmt.Errorf("--like: %w", err)
		}
		templates = append(templates, template)
	}
	undecided, err := s.state.Any("any", templates...)
	if err != nil {
		return fmt.Errorf("--any: %w", err)
	}
	sim := s.state.Sim()
	var nodes []simulate.Node
	pods := make(map[simulate.Node]int)
	unfit, open := 0, 0
	err = fill(ctx, sim, parties, undecided, most, func(result *simulate.Result) {
		unfit, open = unfit+result.Unfit, open+result.Undecided
		for placement := range result.Placements() {
			if n := placement.Node; n.Template() == undecided {
				if pods[n] == 0 {
					nodes = append(nodes, n)
				}
				pods[n]++
			}
		}
	})
	if err != nil {
		return err
	}
	if err := s.showAny(o, f, options(sim, nodes, pods)); err != nil || unfit+open == 0 {
		return err
	}
	o.streams.note("%s without a place, %d undecided", render.Count(unfit, "pod"), open)
	return notPlaced(unfit == 0)
}

// options groups new nodes by the existing nodes that they can be like.
func options(sim *simulate.Sim, nodes []simulate.Node, pods map[simulate.Node]int) []*anyAnswer {
	var answers []*anyAnswer
	for _, n := range nodes {
		var like []string
		for _, template := range sim.Options(n) {
			like = append(like, template.Node().Name)
		}
		at := slices.IndexFunc(answers, func(a *anyAnswer) bool { return slices.Equal(a.Like, like) })
		if at < 0 {
			at = len(answers)
			answers = append(answers, &anyAnswer{Like: like})
		}
		answers[at].Nodes, answers[at].Pods = answers[at].Nodes+1, answers[at].Pods+pods[n]
	}
	return answers
}

func (s *simulation) showAny(o *origin, f *output, answers []*anyAnswer) error {
	var rows [][]string
	var items []any
	for _, a := range answers {
		rows = append(rows, []string{strings.Join(a.Like, ","), fmt.Sprint(a.Nodes), fmt.Sprint(a.Pods)})
		items = append(items, a)
	}
	return s.show(o, f, "SimulatedAnyPlanList", []string{"LIKE ANY OF", "NODES", "PODS"}, rows, items)
}

// mixAnswer has the new nodes of one type.
type mixAnswer struct {
	Type string `json:"type"`
	// Price is the price of one node. Cost is the price of all.
	Price float64   `json:"price"`
	Cost  float64   `json:"cost"`
	Nodes []mixNode `json:"nodes"`
}

// mixNode is a new node with its pods, in the order of placement.
type mixNode struct {
	Name string   `json:"name"`
	Pods []string `json:"pods"`
}

// mixLeft is a group of pods without a place, with equal requests.
type mixLeft struct {
	Pods []string `json:"pods"`
	// Reason is FitsNowhere, Limited, Undecided or DependsOnOthers.
	Reason string `json:"reason"`
	// Why is one sentence. It is empty if Reason is DependsOnOthers.
	Why string `json:"why,omitempty"`
}

// mixPlan has the fields of a plan besides its nodes.
type mixPlan struct {
	// Cost is the price of all new nodes. Bound is a lower bound of the price of any plan that
	// leaves out as many pods.
	Cost  float64 `json:"cost"`
	Bound float64 `json:"bound"`
	// Exact says that no cheaper plan exists.
	Exact bool `json:"exact"`
	// Existing are the pods that are placed on existing nodes.
	Existing []drainAnswer `json:"existing"`
	Left     []mixLeft     `json:"left"`
	// NotStarted are groups of which some pods have a place, but not as the group needs them.
	NotStarted []mixGroup `json:"notStarted"`
}

// mixGroup is a group that does not start with a plan.
type mixGroup struct {
	Group string `json:"group"`
	Why   string `json:"why"`
}

// planMix chooses new nodes of minimal cost.
func (s *simulation) planMix(ctx context.Context, o *origin, f *output, path string, most int) error {
	list, err := prices.Read(path)
	if err != nil {
		return fmt.Errorf("--prices: %w", err)
	}
	further := &input.Objects{}
	if len(list.Nodes) > 0 {
		options, err := o.options()
		if err != nil {
			return err
		}
		options.Programs = s.Programs() // which has compiled the same expressions
		if further, err = input.Read(list.Nodes, nil, o.reading(options)); err != nil {
			return fmt.Errorf("--prices: nodes: %w", err)
		}
	}
	q := mix.Question{}
	if q.Types, q.Limits, err = list.Offers(s.state, further, stays); err != nil {
		return fmt.Errorf("--prices: %s: %w", path, err)
	}
	if most > 0 {
		q.Limits = append(q.Limits, mix.Limit{Types: q.Types, Nodes: most})
	}
	for _, shape := range s.shapes {
		q.Pods = append(q.Pods, shape.Pods...)
	}
	for _, node := range s.Nodes {
		q.Nodes = append(q.Nodes, node.Name)
	}
	plan, err := mix.Find(ctx, s.state, q)
	if err != nil {
		return err
	}
	groups, err := s.notStarted(ctx, o, plan, q.Types)
	if err != nil {
		return err
	}
	if err := s.showMix(o, f, plan, groups); err != nil {
		return err
	}
	if !plan.All() || len(groups) > 0 {
		return notPlaced(!someLeft(plan))
	}
	return nil
}

// notStarted lists the groups that do not start with a plan, as that counts their pods one by one.
func (s *simulation) notStarted(ctx context.Context, o *origin, plan *mix.Plan, types []*simulate.Template) ([]mixGroup, error) {
	queue, err := s.queue(nil, o)
	if err != nil {
		return nil, err
	}
	on := make(map[*corev1.Pod]simulate.Node)
	for placement := range placements(plan) {
		on[placement.Pod] = placement.Node
	}
	list := []mixGroup{}
	var together []*waiting // groups whose pods have places, and must have something in common
	for i := range queue {
		w, placed := &queue[i], 0
		for _, pod := range slices.Concat(w.pods, w.others) {
			if _, found := on[pod]; found {
				placed++
			}
		}
		switch {
		case placed == 0:
		case placed < len(w.pods): // never so for a single pod
			list = append(list, mixGroup{w.key.String(), fmt.Sprintf("%d of the %d pods that it needs have a place", placed, len(w.pods))})
		case len(w.topologies) > 0:
			together = append(together, w)
		}
	}
	apart, err := s.notTogether(ctx, plan, types, together)
	for _, w := range apart {
		list = append(list, mixGroup{w.key.String(), "its pods have places, but it is not known whether they have any with what they must have in common"})
	}
	return list, err
}

// notTogether places groups again, each together, where all other pods are as planned. It returns
// those for which that finds no place.
func (s *simulation) notTogether(ctx context.Context, plan *mix.Plan, types []*simulate.Template, groups []*waiting) (apart []*waiting, err error) {
	if len(groups) == 0 {
		return nil, nil
	}
	moves := make(map[*corev1.Pod]bool)
	for _, w := range groups {
		for _, pod := range w.pods {
			moves[pod] = true
		}
	}
	sim, nodes := s.state.Sim(), []simulate.Nodes{simulate.Real(nil)}
	for i := range plan.Nodes {
		if err := sim.Add(plan.Nodes[i].Template(), 1); err != nil {
			return nil, err
		}
	}
	for _, t := range types {
		nodes = append(nodes, simulate.Added(t))
	}
	for placement := range placements(plan) {
		if moves[placement.Pod] {
			continue
		}
		if result, err := sim.Put(ctx, placement.Pod, placement.Node); err != nil || !result.All() {
			return groups, err
		}
	}
	for _, w := range groups {
		demands, err := s.state.Demands(w.pods)
		if err != nil {
			return nil, err
		}
		result, err := sim.Gang(ctx, demands, w.topologies, simulate.Union(nodes...), simulate.FirstFit)
		if err != nil {
			return nil, err
		}
		if !result.All() {
			apart = append(apart, w)
		}
	}
	return apart, nil
}

// placements are those of a plan, on existing nodes first.
func placements(plan *mix.Plan) iter.Seq[simulate.Placement] {
	return func(yield func(simulate.Placement) bool) {
		for _, placement := range plan.Existing {
			if !yield(placement) {
				return
			}
		}
		for i := range plan.Nodes {
			for _, placement := range plan.Nodes[i].Pods {
				if !yield(placement) {
					return
				}
			}
		}
	}
}

func (s *simulation) showMix(o *origin, f *output, plan *mix.Plan, groups []mixGroup) error {
	var answers []*mixAnswer
	byType := make(map[*simulate.Template]*mixAnswer)
	for i := range plan.Nodes {
		node := &plan.Nodes[i]
		t := node.Template()
		if byType[t] == nil {
			byType[t] = &mixAnswer{Type: t.Node().Name, Price: t.Price()}
			answers = append(answers, byType[t])
		}
		made := mixNode{Name: node.Name()}
		for k := range node.Pods {
			made.Pods = append(made.Pods, podName(node.Pods[k].Pod))
		}
		byType[t].Nodes, byType[t].Cost = append(byType[t].Nodes, made), byType[t].Cost+t.Price()
	}
	var rows [][]string
	var items []any
	for _, a := range answers {
		pods := 0
		for i := range a.Nodes {
			pods += len(a.Nodes[i].Pods)
		}
		rows = append(rows, []string{a.Type, number(a.Price), fmt.Sprint(len(a.Nodes)), fmt.Sprint(pods), number(a.Cost)})
		items = append(items, *a)
	}
	said := mixPlan{Cost: plan.Cost, Bound: plan.Bound, Exact: plan.Exact() && len(groups) == 0, Existing: []drainAnswer{}, Left: []mixLeft{}, NotStarted: groups}
	for i := range plan.Existing {
		said.Existing = append(said.Existing, drainAnswer{podName(plan.Existing[i].Pod), plan.Existing[i].Node.Name()})
	}
	for i := range plan.Left {
		left := mixLeft{Pods: podNames(plan.Left[i].Pods), Reason: string(plan.Left[i].Reason)}
		if plan.Left[i].Why != nil {
			left.Why = plan.Left[i].Why.String()
		}
		said.Left = append(said.Left, left)
	}
	more := map[string]any{"cost": said.Cost, "bound": said.Bound, "exact": said.Exact, "existing": said.Existing, "left": said.Left, "notStarted": said.NotStarted}
	if err := s.showWith(o, f, "SimulatedMix", []string{"TYPE", "PRICE", "NODES", "PODS", "COST"}, rows, items, more); err != nil {
		return err
	}
	o.streams.note("%s", mixSummary(plan))
	for i := range plan.Left {
		o.streams.note("%s", leftSummary(&plan.Left[i]))
	}
	for _, g := range groups {
		o.streams.note("PodGroup %s does not start: %s", g.Group, g.Why)
	}
	return nil
}

// someLeft reports whether each plan certainly leaves out some pods.
func someLeft(plan *mix.Plan) bool {
	return plan.LeftBound > 0 || slices.ContainsFunc(plan.Left, func(l mix.Left) bool { return l.Reason == mix.FitsNowhere })
}

func podNames(pods []*corev1.Pod) []string {
	names := make([]string, len(pods))
	for i, pod := range pods {
		names[i] = podName(pod)
	}
	return names
}

// mixSummary returns a line about the cost of a plan, and how close it is to the optimum.
func mixSummary(plan *mix.Plan) string {
	text := fmt.Sprintf("%s cost %s", render.Count(len(plan.Nodes), "new node"), number(plan.Cost))
	if len(plan.Nodes) == 1 {
		text = "1 new node costs " + number(plan.Cost)
	}
	switch {
	case plan.Exact():
		text += ", and nothing less will do"
	case plan.Cost > plan.Bound:
		text += fmt.Sprintf("; no plan for as many pods costs less than %s", number(plan.Bound))
	default:
		text += "; it is not proven that no plan is better"
	}
	if n := len(plan.Existing); n > 0 {
		text += fmt.Sprintf("; %s on the nodes there are", render.Count(n, "pod"))
	}
	return text
}

// leftSummary returns a line about why pods have no place.
func leftSummary(left *mix.Left) string {
	switch left.Reason {
	case mix.DependsOnOthers:
		return fmt.Sprintf("left aside, as they share claims or several nodes reach their devices: %s", strings.Join(podNames(left.Pods), ", "))
	case mix.Limited:
		return "no more nodes are permitted: " + left.Why.String()
	}
	return left.Why.String()
}
