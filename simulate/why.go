// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/podclaims"
	"github.com/dray-project/dray/simulate/internal/amounts"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

// Refusal says why pods of a shape were not placed. The nodes are in the state in which the next pod did not
// fit. Of equal nodes of a template, only the first is listed.
type Refusal struct {
	Shape *Shape
	// Pods is the number of pods of the shape that were not placed.
	Pods int
	// Err is set if a shared claim excludes all nodes. All other fields are empty then.
	Err error
	// Devices groups the nodes that lack devices, those that lack least first.
	Devices []explain.Group
	// Others are the nodes that are excluded for another reason, ordered by their first node.
	Others []Obstacle
	// Undecided are the names of nodes that may take the next pod: the search failed or ran out of budget.
	Undecided []string
}

// Obstacle is a reason other than devices that excludes nodes.
type Obstacle struct {
	// Reason is a phrase such as "too little cpu".
	Reason string
	// Nodes are the names of nodes, in the order of the call's set.
	Nodes []string
}

// String returns one sentence.
func (r *Refusal) String() string {
	var parts []string
	if r.Err != nil {
		parts = append(parts, r.Err.Error())
	}
	for i := range r.Devices {
		parts = append(parts, explain.Count(len(r.Devices[i].Nodes), "node")+": "+strings.TrimSuffix(r.Devices[i].Summary(), "."))
	}
	for _, o := range r.Others {
		parts = append(parts, explain.Count(len(o.Nodes), "node")+": "+o.Reason)
	}
	if n := len(r.Undecided); n > 0 {
		parts = append(parts, explain.Count(n, "node")+": undecided")
	}
	if len(parts) == 0 {
		parts = append(parts, "there is no node")
	}
	return explain.Count(r.Pods, "pod") + " like " + r.Shape.name() + " not placed: " + strings.Join(parts, "; ")
}

// Why says, for each shape with pods that were not placed, why each node of the call did not take them. An
// undecided node is listed once for each of its templates, as "NODE as TEMPLATE". It takes time in proportion
// to the nodes. Nodes in the same state are explained once, by a search for each request and constraint. The
// error is the context's.
func (r *Result) Why(ctx context.Context) ([]Refusal, error) {
	list := make([]Refusal, 0, len(r.unplaced))
	for i := range r.unplaced {
		f := &r.unplaced[i]
		c, err := r.world.NewCall(ctx)
		if err != nil {
			return nil, err
		}
		e := &explainer{unplaced: f, state: f.state.withReadSet(), call: &c, problems: make(map[int16]*allocator.Problem), known: make(map[explained]*explain.Explanation)}
		e.found = Refusal{Shape: f.shape, Pods: f.pods}
		if err := e.run(); err != nil {
			return nil, err
		}
		list = append(list, e.found)
	}
	return list, nil
}

// explainer makes one Refusal.
type explainer struct {
	*unplaced
	state    *State
	call     *onenode.Call
	needs    *podNeeds
	problems map[int16]*allocator.Problem // by variant, with the names of the pod's claims
	known    map[explained]*explain.Explanation
	devices  explain.Grouping
	found    Refusal
}

// explained is a key for nodes whose explanations differ in names only. It holds the pointer of the answer, so
// that the address is not reused.
type explained struct {
	answer *onenode.Answer
	// sharedKey encodes which pools of several nodes reach the node, where these come among its own pools, and which
	// of its own are unusable and why.
	sharedKey string
}

func (e *explainer) run() error {
	d := &e.state.data
	e.needs = d.needsOf(e.state.world, e.shape.kind)
	if e.needs.refused != nil {
		e.found.Err = e.needs.refused
		return nil //nolint:nilerr // it is what was asked for
	}
	for _, part := range e.on.limited(d).list() {
		if _, err := d.visit(part, e.node); err != nil {
			return err
		}
	}
	e.found.Devices = e.devices.Groups()
	return nil
}

// node explains one node.
func (e *explainer) node(n Node, rec *nodeRecord) (more bool, err error) {
	o := rec.options
	if o == nil || e.because != "" {
		return true, e.decided(n, rec, n.Name())
	}
	for _, member := range o.members() {
		t := o.choice.members[member]
		one, _ := rec.as(t)
		if err := e.decided(n, &one, n.Name()+" as "+t.name()); err != nil {
			return false, err
		}
	}
	if o.doubt != nil {
		e.found.Undecided = append(e.found.Undecided, n.Name())
	}
	return true, nil
}

// decided explains a node whose template is decided, or a real node.
func (e *explainer) decided(n Node, rec *nodeRecord, name string) error {
	reason := e.because
	if reason == "" {
		reason = e.obstacle(n, rec)
	}
	if reason != "" {
		e.obstruct(reason, name)
		return nil
	}
	a, number, err := e.needs.on(e.call, &e.state.data, n, rec)
	if err != nil {
		return err
	}
	if a.Fit == onenode.Unfit {
		found, err := e.explanation(n, rec, a.Answer, number)
		if err != nil {
			return err
		}
		if found != nil {
			e.devices.Add(found, name)
			return nil
		}
	}
	if a.Fit == onenode.Fits && e.perNode > 0 {
		e.obstruct(explain.Count(e.perNode, "pod")+" of the gang already, and no more may be there", name)
		return nil
	}
	e.found.Undecided = append(e.found.Undecided, name)
	return nil
}

func (e *explainer) obstruct(reason, node string) {
	at := slices.IndexFunc(e.found.Others, func(o Obstacle) bool { return o.Reason == reason })
	if at < 0 {
		at = len(e.found.Others)
		e.found.Others = append(e.found.Others, Obstacle{Reason: reason})
	}
	e.found.Others[at].Nodes = append(e.found.Others[at].Nodes, node)
}

// obstacle returns the reason other than devices that excludes a node, empty if there is none.
func (e *explainer) obstacle(n Node, rec *nodeRecord) string {
	w, kind := e.state.world, e.shape.kind
	number := w.admittedVariant(kind, rec.facts)
	if number < 0 {
		return w.keptAway(kind.example, rec.facts.Node)
	}
	for i := range e.needs.used {
		if !e.needs.used[i].admits(n, rec.facts.Node) {
			return "a claim of the pod is allocated on other nodes"
		}
	}
	short := "" // the first by name, as numbers of resources are given in any order
	for _, d := range kind.variantAt(number).demands {
		if amounts.Room(rec.facts.allocatable, rec.used, []amounts.Demand{d}, 1) > 0 {
			continue
		}
		if name := string(w.resources.Name(d.Resource)); short == "" || name < short {
			short = name
		}
	}
	if short == "" {
		return ""
	}
	return "too little " + short
}

// keptAway returns the reason why a pod may not run on a node.
func (w *world) keptAway(pod *corev1.Pod, node *corev1.Node) string {
	if ok, err := w.fits(pod, node); err != nil || !ok {
		switch taint := nodefit.Untolerated(pod, node); {
		case w.options.NodeFit.Fits != nil:
			return "Options.NodeFit does not admit the pod"
		case taint != nil && nodefit.IsCordon(taint):
			return "the node is cordoned"
		case taint != nil:
			return "the pod does not tolerate the taint " + taint.ToString()
		}
		return "the labels of the node do not match the pod's node selector or affinity"
	}
	for _, name := range podclaims.ExtendedResources(pod) {
		if _, missing := w.fromDevices([]corev1.ResourceName{name}, node); missing != "" {
			return "the node does not have " + string(name)
		}
	}
	return "the node does not admit the pod"
}

// explanation asks again, with the names of the node and of the claims. It is nil if that is not
// decided. Nodes with the same answer, which the same pools reach in the same place among those of the node, and of which pools
// cannot be used for the same reasons, have the same explanation.
func (e *explainer) explanation(n Node, rec *nodeRecord, a *onenode.Answer, number int16) (*explain.Explanation, error) {
	d := &e.state.data
	var around memo.Key
	for position, reached := range d.surroundings.Shared.Reaching(rec.facts.Inventory) {
		around.Number(position)
		around.Number(int(reached))
		around.Number(rec.facts.Before(d.surroundings.Shared.Pools[position].ID)) // pools are listed by name
	}
	for i := range rec.facts.Pools {
		around.Text(rec.facts.Pools[i].Unusable)
	}
	key := explained{a, string(around.Bytes)}
	if known, found := e.known[key]; found {
		return known, nil
	}
	inv := e.state.world.withRealNames(n, rec.facts)
	problem, err := e.problem(number, n, inv)
	if err != nil {
		return nil, err
	}
	outcome, err := e.state.world.Repeat(e.call.Context, inv.Inventory, rec.state.Uses, d.surroundings, problem, 1)
	if e.call.Context.Err() != nil {
		return nil, context.Cause(e.call.Context)
	}
	var found *explain.Explanation
	if none, ok := outcome.(*allocator.Unsatisfiable); ok && err == nil {
		found = none.Explain()
	}
	e.known[key] = found
	return found, nil
}

// problem compiles what the next pod asks for, with the names of its claims.
func (e *explainer) problem(number int16, n Node, inv *nodeFacts) (*allocator.Problem, error) {
	linked := e.needs.linked()
	if known := e.problems[number]; known != nil && !linked {
		return known, nil
	}
	w, q := e.state.world, e.needs.question(number)
	pod := e.shape.pod(max(0, len(e.shape.Pods)-e.pods))
	_, extensions := q.Claims()
	claims := w.objects(pod, e.needs.open, q.Specs)
	for i, s := range q.Specs {
		claims[i].Spec.Devices = s.Devices
		if claims[i].Name == "" {
			claims[i].Name = pod.Name + "-extended-resources"
		}
	}
	compile := func() (*allocator.Problem, error) { return w.Compile(claims, extensions) }
	if linked {
		compile = func() (*allocator.Problem, error) { return e.needs.linkedProblem(claims, extensions, n, inv) }
	}
	problem, err := compile()
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", e.shape.name(), err)
	}
	e.problems[number] = problem
	return problem, nil
}
