package simulate

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/podclaims"
)

// Result of a call that places pods.
type Result struct {
	// Placed is how many pods have a node. Undecided and Unfit are the others: Undecided if there
	// is a node on which the search was given up or failed, so that the pods may fit.
	Placed, Unfit, Undecided int
	// Err is the first error about a node, nil if there was none. Nodes with errors take no pods.
	Err error

	segments []segment
	unplaced []unplaced
	world    *world
}

// All reports whether every pod is placed.
func (r *Result) All() bool { return r.Unfit+r.Undecided == 0 }

func (b *batch) result(n int) Result {
	r := Result{Placed: b.count(), Err: b.call.err, segments: b.placed, world: b.sim.world}
	switch rest := max(0, n) - r.Placed; {
	case b.asked != nil && b.asked.refused != nil && rest > 0:
		r.Unfit, r.Err = rest, b.asked.refused
	case b.doubtful:
		r.Undecided = rest
	default:
		r.Unfit = rest
	}
	if rest := r.Unfit + r.Undecided; rest > 0 {
		r.unplaced = []unplaced{{state: b.sim.State(), shape: b.shape, on: b.on, pods: rest}}
	}
	return r
}

// merge adds another result.
func (r *Result) merge(other Result) {
	r.Placed, r.Unfit, r.Undecided = r.Placed+other.Placed, r.Unfit+other.Unfit, r.Undecided+other.Undecided
	if r.Err == nil {
		r.Err = other.Err
	}
	r.segments, r.world = append(r.segments, other.segments...), other.world
	r.unplaced = append(r.unplaced, other.unplaced...)
}

// Placement is a pod on a node.
type Placement struct {
	// Pod is one of those that were given. Pods beyond those of a Shape are given as one like them.
	Pod  *corev1.Pod
	Node Node

	world   *world
	segment segment
	before  int // pods of the segment on the node before this one
	as      *Template
}

// Placements lists the pods that were placed, in order.
func (r *Result) Placements() iter.Seq[Placement] {
	return func(yield func(Placement) bool) {
		for _, s := range r.segments {
			for k := range s.nodes * s.each {
				node := s.node
				node.index += k / s.each
				if !yield(Placement{Pod: s.shape.pod(s.first + k), Node: node, world: r.world, segment: s, before: k % s.each}) {
					return
				}
			}
		}
	}
}

// Claims returns the claims that were allocated for the pod as the API server would hold them, in the
// order of the pod's spec; the one for extended resources, which has no name yet, comes last. Claims
// that were allocated before are not among them. It allocates again, with the names of the node, so
// it takes as long as that. The error is ErrUndecidedNode if more than one template remained for the
// node before the pod was placed, and As does not say which is meant; else it is the context's.
func (p *Placement) Claims(ctx context.Context) ([]*resourceapi.ResourceClaim, error) {
	s := &p.segment
	before, err := p.decided()
	if err != nil {
		return nil, err
	}
	r, inv := p.world.named(p.Node, before.inventory, s.around.shared)
	c, err := p.world.newCall(ctx)
	if err != nil {
		return nil, err
	}
	number := p.world.on(s.asked.kind, inv)
	problem, err := s.asked.problemOn(number, p.Node, inv)
	if err != nil {
		return nil, err
	}
	state := before.state.uses
	for pod := 0; ; pod++ {
		outcome, err := r.allocate(c.ctx, problem, r.inUse(s.around.taken(inv, state)))
		if err != nil {
			return nil, err
		}
		assignment, ok := outcome.(*allocator.Assignment)
		if !ok && p.as != nil {
			return nil, fmt.Errorf("node %s cannot be of the template %s", p.Node.Name(), p.as.name())
		}
		if !ok {
			panic("node " + p.Node.Name() + " had room for the pod, and now it has not") // allocation repeats exactly
		}
		if pod == p.before {
			return p.claims(assignment.Results(), number), nil
		}
		a, err := newAnswer(assignment.Results(), inv, &crossing{shared: s.around.shared}, p.world.gates.ConsumableCapacity)
		if err != nil {
			return nil, err
		}
		state = state.change(a.own, true)
	}
}

// named returns a node with everything that reaches it, under the names that it has or would have.
func (w *world) named(n Node, inv *inventory, shared *sharedPools) (*room, *inventory) {
	if n.template != nil {
		node, published := inv.template.object(n.index), inv.template.slices(inv.template.published, n.index)
		if inv.template != n.template { // the node was undecided
			rename(node, published, n)
		}
		named := newInventory(node, published, readPools(w.gates, published))
		named.template, named.index, named.allocatable = inv.template, inv.index, inv.allocatable
		inv = named
	}
	return newRoom(w.gates, inv.node, slices.Concat(inv.slices(), shared.published)), inv
}

// taken lists what is in use of a node and of shared pools.
func (d *surroundings) taken(inv *inventory, own uses) []taken {
	inUse := inv.taken(own)
	for position := range d.sharedUses {
		inUse = append(inUse, d.shared.taken(position, d.sharedUses[position])...)
	}
	return inUse
}

// claims puts results into copies of the claims.
func (p *Placement) claims(results []resourceapi.AllocationResult, number int16) []*resourceapi.ResourceClaim {
	var list []*resourceapi.ResourceClaim
	open := slices.Clone(p.segment.asked.open)
	for i := range results {
		claim := &resourceapi.ResourceClaim{}
		claim.Namespace = p.Pod.Namespace
		if i < len(open) {
			claim = p.object(open[i], i)
		} else {
			kind := cmp.Or(p.segment.asked.kind.whole, p.segment.asked.kind)
			claim.Spec.Devices = kind.variantAt(number).spec.devices
		}
		claim = claim.DeepCopy()
		claim.Status.Allocation = results[i].DeepCopy()
		list = append(list, claim)
	}
	return list
}

// object is the claim behind an open entry.
func (p *Placement) object(e claimEntry, position int) *resourceapi.ResourceClaim {
	if e.claim >= 0 {
		return p.world.claimNumbered(e.claim).object
	}
	made := 0
	for _, podClaim := range p.Pod.Spec.ResourceClaims {
		claim, err := p.world.resolver.Resolve(p.Pod, podClaim)
		if err != nil || claim == nil || p.shared(podClaim) {
			continue
		}
		if made == p.ownBefore(position) {
			return claim
		}
		made++
	}
	return &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: e.spec.devices}}
}

// ownBefore counts the entries before a position that are made for the pod.
func (p *Placement) ownBefore(position int) int {
	n := 0
	for _, e := range p.segment.asked.open[:position] {
		if e.claim < 0 {
			n++
		}
	}
	return n
}

// shared reports whether an entry of the pod's spec is a claim that others may use.
func (p *Placement) shared(podClaim corev1.PodResourceClaim) bool {
	entry, found, err := p.world.entry(p.Pod, podClaim)
	return err != nil || !found || entry.claim >= 0
}

// Refusal is why pods of a shape were not placed, on the nodes as they were when the next of the pods
// had no place. Of nodes of a template that are equal, the first stands for all.
type Refusal struct {
	Shape *Shape
	// Pods is how many of the shape were not placed.
	Pods int
	// Err is set if no node can do, because of a claim that the pods share. All else is empty then.
	Err error
	// Devices are the nodes on which devices are in the way, those that lack least first.
	Devices []explain.Group
	// Others are the nodes on which something else is in the way, in the order of their first node.
	Others []Obstacle
	// Undecided are the names of nodes that may take the next pod: the search was given up or failed.
	Undecided []string
}

// Obstacle is what keeps pods away from nodes, whatever devices they have.
type Obstacle struct {
	// Reason is a phrase such as "too little cpu".
	Reason string
	// Nodes are in the order of the call.
	Nodes []string
}

// String is one sentence.
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

func (s *Shape) name() string {
	pod := s.pod(0)
	return pod.Namespace + "/" + pod.Name
}

// unplaced is what a Refusal is made of when somebody asks.
type unplaced struct {
	state *State
	shape *Shape
	on    Nodes
	pods  int
	// because is what keeps pods away from all nodes of the set; empty if the nodes have to be asked.
	because string
}

// Why tells, for each shape of which pods were not placed, what was in the way on each of the nodes of
// the call. An undecided node is listed once for each template that it can be of, as "NODE as
// TEMPLATE". It takes time in proportion to the nodes, and explains once for nodes in the same state:
// that is a search for each request and constraint. The error is the context's.
func (r *Result) Why(ctx context.Context) ([]Refusal, error) {
	list := make([]Refusal, 0, len(r.unplaced))
	for i := range r.unplaced {
		f := &r.unplaced[i]
		c, err := r.world.newCall(ctx)
		if err != nil {
			return nil, err
		}
		e := &explainer{unplaced: f, state: f.state.seen(), call: &c, problems: make(map[int16]*allocator.Problem), known: make(map[string]*explain.Explanation)}
		e.found = Refusal{Shape: f.shape, Pods: f.pods}
		if err := e.run(); err != nil {
			return nil, err
		}
		list = append(list, e.found)
	}
	return list, nil
}

// explainer works out one Refusal.
type explainer struct {
	*unplaced
	state    *State
	call     *call
	asked    *asked
	problems map[int16]*allocator.Problem // by variant, with the names of the pod's claims
	known    map[string]*explain.Explanation
	devices  explain.Grouping
	found    Refusal
}

func (e *explainer) run() error {
	d := &e.state.data
	e.asked = d.asked(e.state.world, e.shape.kind)
	if e.asked.refused != nil {
		e.found.Err = e.asked.refused
		return nil //nolint:nilerr // it is what was asked for
	}
	for _, part := range e.on.fixed(d).list() {
		if _, err := d.visit(part, e.node); err != nil {
			return err
		}
	}
	e.found.Devices = e.devices.Groups()
	return nil
}

// node finds out about one node.
func (e *explainer) node(n Node, rec *nodeRecord) (more bool, err error) {
	o := rec.state.options
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

// decided finds out about a node of which it is known what it is like.
func (e *explainer) decided(n Node, rec *nodeRecord, name string) error {
	reason := e.because
	if reason == "" {
		reason = e.obstacle(n, rec)
	}
	if reason != "" {
		e.obstruct(reason, name)
		return nil
	}
	a, number, err := e.asked.on(e.call, &e.state.data, n, rec)
	if err != nil {
		return err
	}
	if a.verdict == unfit {
		found, err := e.explanation(n, rec, a, number)
		if err != nil {
			return err
		}
		if found != nil {
			e.devices.Add(found, name)
			return nil
		}
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

// obstacle is what keeps the pods away from a node before devices are looked at. It is empty if
// nothing does.
func (e *explainer) obstacle(n Node, rec *nodeRecord) string {
	w, kind := e.state.world, e.shape.kind
	number := w.on(kind, rec.inventory)
	if number < 0 {
		return w.keptAway(kind.example, rec.inventory.node)
	}
	for i := range e.asked.used {
		if !e.asked.used[i].admits(n, rec.inventory.node) {
			return "a claim of the pod is allocated on other nodes"
		}
	}
	for _, d := range kind.variantAt(number).demands {
		if fitsResources(rec, []amount{d}, 1) == 0 {
			return "too little " + string(w.resourceNumbered(d.resource))
		}
	}
	return ""
}

// keptAway is why a node is out of the question for a pod.
func (w *world) keptAway(pod *corev1.Pod, node *corev1.Node) string {
	if ok, err := w.nodeFit(pod, node); err != nil || !ok {
		switch taint := nodefit.Untolerated(pod, node); {
		case w.options.NodeFit != nil:
			return "Options.NodeFit does not admit the pod"
		case taint != nil && nodefit.IsCordon(taint):
			return "the node is cordoned"
		case taint != nil:
			return "the pod does not tolerate the taint " + taint.ToString()
		}
		return "the labels of the node do not match the pod's node selector or affinity"
	}
	for _, name := range podclaims.ExtendedResources(pod) {
		if _, missing := w.fromDevices([]corev1.ResourceName{name}, node); missing {
			return "the node does not have " + string(name)
		}
	}
	return "the node does not admit the pod"
}

// explanation asks again, with the names of the node and of the claims. It is nil if that is not
// decided. Nodes with the same answer, which the same pools reach, have the same explanation.
func (e *explainer) explanation(n Node, rec *nodeRecord, a *answer, number int16) (*explain.Explanation, error) {
	d := &e.state.data
	around := d.shared.of(rec.inventory)
	key := fmt.Appendf(nil, "%p", a)
	for position := range d.shared.pools {
		if reached, ok := around.number[position]; ok {
			key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(position)), reached)
		}
	}
	if known, found := e.known[string(key)]; found {
		return known, nil
	}
	r, inv := e.state.world.named(n, rec.inventory, d.shared)
	problem, err := e.problem(number, n, inv)
	if err != nil {
		return nil, err
	}
	outcome, err := r.allocate(e.call.ctx, problem, r.inUse(d.taken(inv, rec.state.uses)))
	if e.call.ctx.Err() != nil {
		return nil, context.Cause(e.call.ctx)
	}
	var found *explain.Explanation
	if none, ok := outcome.(*allocator.Unsatisfiable); ok && err == nil {
		found = none.Explain()
	}
	e.known[string(key)] = found
	return found, nil
}

// problem compiles what the next pod asks for, under the names of its claims.
func (e *explainer) problem(number int16, n Node, inv *inventory) (*allocator.Problem, error) {
	linked := e.asked.linked()
	if known := e.problems[number]; known != nil && !linked {
		return known, nil
	}
	w, q := e.state.world, e.asked.question(number)
	p := Placement{Pod: e.shape.pod(max(0, len(e.shape.Pods)-e.pods)), world: w, segment: segment{asked: e.asked}}
	claims, extensions := q.claims()
	for i, s := range q.specs {
		claim := &resourceapi.ResourceClaim{}
		claim.Namespace, claim.Name = p.Pod.Namespace, p.Pod.Name+"-extended-resources"
		if i < len(e.asked.open) {
			claim = p.object(e.asked.open[i], i).DeepCopy()
		}
		claim.Spec.Devices = s.devices
		claims[i] = claim
	}
	compile := func() (*allocator.Problem, error) { return w.allocator.CompileExtended(claims, extensions, w.classes) }
	if linked {
		compile = func() (*allocator.Problem, error) { return e.asked.linkedProblem(claims, extensions, n, inv) }
	}
	problem, err := compile()
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", e.shape.name(), err)
	}
	e.problems[number] = problem
	return problem, nil
}
