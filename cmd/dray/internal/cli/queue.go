// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/podclaims"
	"github.com/dray-project/dray/simulate"
)

// waiting is a pod or a group in the scheduling queue.
type waiting struct {
	kind string
	key  types.NamespacedName
	pods []*corev1.Pod
	// others are the pods that were asked about and that the group does not need.
	others []*corev1.Pod
	// topologies are what the pods of a group must have in common. notLookedAt has what the
	// simulation ignores of that.
	topologies  []simulate.Topology
	notLookedAt []string
	// err is why a group cannot be asked about.
	err error
}

// queue returns the pods and groups that wait, in the order of the scheduling queue: the named
// ones, or all.
func (s *simulation) queue(names []string, o *origin) ([]waiting, error) {
	asked := make(map[*corev1.Pod]bool)
	for _, shape := range s.shapes {
		for _, pod := range shape.Pods {
			asked[pod] = true
		}
	}
	groups := make(map[*corev1.Pod]*cluster.Gang)
	for _, g := range s.Gangs() {
		for _, w := range g.Workloads {
			groups[w.Pod] = &g
		}
	}
	var all []waiting
	seen := make(map[*cluster.Gang]bool)
	for _, pod := range s.PendingPods() {
		g := groups[pod]
		switch {
		case !asked[pod] || seen[g]:
		case g == nil:
			key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
			all = append(all, waiting{kind: "Pod", key: key, pods: []*corev1.Pod{pod}})
		default:
			seen[g] = true
			w := waiting{kind: "PodGroup", key: g.Key}
			w.topologies, w.notLookedAt, w.err = s.Topologies(*g)
			for i, member := range g.Workloads {
				if i < g.Needs {
					w.pods = append(w.pods, member.Pod)
				} else if asked[member.Pod] {
					w.others = append(w.others, member.Pod)
				}
			}
			if _, err := s.state.Shapes(w.pods); err != nil && w.err == nil {
				w.err = fmt.Errorf("PodGroup %s: %w", w.key, err)
			}
			all = append(all, w)
		}
	}
	if len(names) > 0 {
		return named(all, names, o)
	}
	return slices.DeleteFunc(all, func(w waiting) bool {
		if w.err != nil {
			o.streams.note("warning: left out: %v", w.err)
		}
		return w.err != nil
	}), nil
}

// named returns the entries of a queue with these names.
func named(all []waiting, names []string, o *origin) ([]waiting, error) {
	var keys [2][]types.NamespacedName // pods and groups
	for _, w := range all {
		if w.kind == "Pod" {
			keys[0] = append(keys[0], w.key)
		} else {
			keys[1] = append(keys[1], w.key)
		}
	}
	wanted := make(map[string]bool)
	for _, name := range names {
		kind, known := "Pod", keys[0]
		if group, found := groupArgument(name); found {
			name, kind, known = group, "PodGroup", keys[1]
		}
		key, err := resolve(kind, "does not wait for devices", name, known, o)
		if err != nil {
			return nil, err
		}
		wanted[kind+" "+key.String()] = true
	}
	list := slices.DeleteFunc(all, func(w waiting) bool { return !wanted[w.kind+" "+w.key.String()] })
	for i := range list {
		if list[i].err != nil {
			return nil, list[i].err
		}
	}
	return list, nil
}

// party is pods that are placed in one go: a group, or pods that ask for the same.
type party struct {
	demands    []simulate.Demand
	kind       *simulate.Shape // one of simulation.shapes, nil for a group and for pods that may share claims
	gang       bool
	topologies []simulate.Topology // of a gang
}

// parties are the pending pods in the order of the queue. Of a group, as many as it needs come
// together, and then the others.
func (s *simulation) parties(o *origin) ([]party, error) {
	queue, err := s.queue(nil, o)
	if err != nil {
		return nil, err
	}
	of := make(map[*corev1.Pod]*simulate.Shape)
	for _, shape := range s.shapes {
		for _, pod := range shape.Pods {
			of[pod] = shape
		}
	}
	var list []party
	var alone []*corev1.Pod // those in the queue since the last group
	flush := func() error {
		runs, err := s.runs(alone, of)
		list, alone = append(list, runs...), nil
		return err
	}
	for i := range queue {
		w := &queue[i]
		if w.kind == "PodGroup" {
			if err := flush(); err != nil {
				return nil, err
			}
			group, err := s.groupParty(w)
			if err != nil {
				return nil, err
			}
			s.addNotLookedAt(w.pods[0], w.notLookedAt)
			if len(w.topologies) > 0 && len(w.others) > 0 {
				s.addNotLookedAt(w.others[0], []string{"what it must have in common with the pods that its PodGroup needs"})
			}
			list = append(list, group)
			alone = append(alone, w.others...)
		} else {
			alone = append(alone, w.pods...)
		}
	}
	return list, flush()
}

// runs splits pods where one asks for something else than the one before it.
func (s *simulation) runs(pods []*corev1.Pod, of map[*corev1.Pod]*simulate.Shape) ([]party, error) {
	var list []party
	for len(pods) > 0 {
		end := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return of[pod] != of[pods[0]] })
		if end < 0 {
			end = len(pods)
		}
		run, err := s.state.Demands(pods[:end])
		if err != nil {
			return nil, err
		}
		next := party{demands: run}
		if podclaims.OnlyOwn(pods[0]) {
			next.kind = of[pods[0]]
		}
		list, pods = append(list, next), pods[end:]
	}
	return list, nil
}

func (s *simulation) groupParty(group *waiting) (party, error) {
	demands, err := s.state.Demands(group.pods)
	return party{demands: demands, gang: true, topologies: group.topologies}, err
}

// fill places parties one after the other on existing nodes, and on at most most new ones. It calls
// visit with each result. Where a pod has no place, later ones that ask for the same have none: what
// is placed in between leaves less. That is not certain where pods share a claim. Another pod may have
// had it allocated where this one has no room, for nodes where this one has.
func fill(ctx context.Context, sim *simulate.Sim, parties []party, template *simulate.Template, most int, visit func(*simulate.Result)) error {
	full := make(map[*simulate.Shape]bool)
	for i := range parties {
		p := &parties[i]
		result := simulate.Result{Unfit: p.demands[0].Count}
		if !full[p.kind] {
			var err error
			if result, err = p.placeOn(ctx, sim, template, most); err != nil {
				return err
			}
			full[p.kind] = p.kind != nil && result.Unfit > 0 && result.Undecided == 0
		}
		visit(&result)
	}
	return nil
}

// placeOn places the pods on existing nodes first, and then on at most most new ones. 0 stands for
// no limit. A gang goes to new nodes only if it does not fit on the existing ones. It is undecided if
// it is not known which domain new nodes are in, or if that it does not fit has no proof.
func (p *party) placeOn(ctx context.Context, sim *simulate.Sim, template *simulate.Template, most int) (simulate.Result, error) {
	more := simulate.New(template, 0)
	if all, _ := sim.Added(template); most > 0 && all < most {
		more = simulate.New(template, most-all)
	} else if most > 0 {
		more = simulate.Added(template)
	}
	existing := simulate.Real(nil)
	if p.gang {
		if result, err := p.place(ctx, sim, existing); err != nil || result.All() {
			return result, err
		}
	}
	result, err := p.place(ctx, sim, simulate.Union(existing, more))
	if errors.Is(err, simulate.ErrUndecidedNode) {
		result, err = simulate.Result{}, nil
		for i := range p.demands {
			result.Undecided += p.demands[i].Count
		}
	}
	if result.NoProof {
		result.Unfit, result.Undecided = 0, result.Undecided+result.Unfit
	}
	return result, err
}

// place places the pods on some nodes: of a gang all or none.
func (p *party) place(ctx context.Context, sim *simulate.Sim, on simulate.Nodes) (simulate.Result, error) {
	if !p.gang {
		return sim.PlaceMany(ctx, p.demands[0].Shape, p.demands[0].Count, on, simulate.FirstFit)
	}
	return sim.Gang(ctx, p.demands, p.topologies, on, simulate.FirstFit)
}
