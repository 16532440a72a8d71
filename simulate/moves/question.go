// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/internal/subsets"
)

// Question is which pods to move.
type Question struct {
	// Wanted are pods without a node. All of them are to have a place in the end. They are placed one after the other, on any
	// of the nodes, in the order given.
	Wanted []*corev1.Pod
	// Gang is set if they are a gang: then they are placed together, as by simulate.Sim.Gang. Topologies are what the pods of a
	// gang must have in common.
	Gang       bool
	Topologies []simulate.Topology
	// Nodes are the names of the real nodes from which and to which pods are moved, and on which the wanted ones run.
	Nodes []string
	// Cost is what it costs to move a pod. Pods for which it is infinite, negative or not a number stay. Nil is 1 for each.
	Cost func(*corev1.Pod) float64
	// Limits are on pods that have no place at the same time.
	Limits []Limit
	// GoesWithNode is true for pods that do not keep a node in use, such as those of a DaemonSet. Only Free asks it; nil is
	// true for none.
	GoesWithNode func(*corev1.Pod) bool
	// Sets is how many sets of pods are looked at, at most; 0 is 20,000.
	Sets int
	// Attempts is how often a pod is put on a node to find an order for one set, at most, and for all sets together 10
	// times as often; 0 is 20,000.
	Attempts int
}

// defaultSets and defaultAttempts are what Question.Sets and Question.Attempts are if they are 0.
const (
	defaultSets     = 20_000
	defaultAttempts = 20_000
	// manyTimes is how many sets may need all their attempts.
	manyTimes = 10
	// nodesCounted is how many nodes are looked at in the time of an attempt, where those are counted on which pods fit.
	nodesCounted = 16
)

// Limit says that of some pods at most so many may have no place at the same time, as a PodDisruptionBudget does. A pod
// has none while it moves.
type Limit struct {
	Pods []*corev1.Pod
	Out  int
}

// Step is a pod that goes from one node to another. A pod may leave in one step, without To, and come back in a later
// one, without From. Both are the same node if the pod gets other devices there.
type Step struct {
	Pod      *corev1.Pod
	From, To simulate.Node
	// Claims are those of the pod, with the devices that it gets on To.
	Claims []*resourceapi.ResourceClaim

	placement *simulate.Placement
}

// Leaves reports whether the pod has no place after the step.
func (s *Step) Leaves() bool { return s.To == simulate.Node{} }

// Returns reports whether the pod had no place before the step.
func (s *Step) Returns() bool { return s.From == simulate.Node{} }

// Plan is an answer.
type Plan struct {
	// Possible says that there are Steps, maybe none, after which all wanted pods fit.
	Possible bool
	// Steps come in an order in which each is possible. Places are those of the wanted pods, after all steps.
	Steps  []Step
	Places []simulate.Placement
	// Pods are those that move, each once. Cost is what they cost together.
	Pods []*corev1.Pod
	Cost float64
	// Room is how many pods have no place at the same time between two steps. It is least for a plan that costs as little
	// as Bound, if Question.Sets and Question.Attempts suffice for all sets that cost as much.
	Room int
	// Bound is what each plan costs at least. It is Cost for the cheapest plan, and infinite if it is proven that there is
	// none.
	Bound float64
}

// Exact reports whether there is no cheaper plan for sure, or no plan.
func (p *Plan) Exact() bool { return p.Bound >= p.Cost && (p.Possible || math.IsInf(p.Bound, 1)) }

// Find finds the cheapest pods to move, and among the plans that cost the same one that needs the least room. Each step is tried
// on a simulate.Sim: the pod gets the devices that kube-scheduler would give it on that node, then. The pods that move have their
// places before the wanted ones come.
//
// First plans are chains: a pod takes the place of others, these that of others again. They take time in proportion to the nodes. If one
// costs more than the bound, sets of pods are looked at if Question.Sets suffices for those that cost as little as the bound, and as far as
// Question.Attempts does: for few pods and nodes. The plan is exact then. Nothing changes in the State.
//
// The error names a node that does not exist, or a pod that cannot be understood; or it is the context's.
func Find(ctx context.Context, state *simulate.State, q Question) (*Plan, error) {
	f, err := newFinder(state, q)
	if err != nil {
		return nil, err
	}
	if err := f.find(ctx); err != nil {
		return nil, err
	}
	return &f.best, nil
}

func newFinder(state *simulate.State, q Question) (*finder, error) {
	if q.Sets <= 0 {
		q.Sets = defaultSets
	}
	if q.Attempts <= 0 {
		q.Attempts = defaultAttempts
	}
	f := &finder{Question: q, state: state, scratch: state.Sim(), alone: make(map[*corev1.Pod]*simulate.Shape)}
	return f, f.read()
}

// finder looks for the cheapest plan.
type finder struct {
	Question
	state *simulate.State
	// scratch is as the State between two uses.
	scratch *simulate.Sim
	names   sets.Set[string] // of the nodes
	on      simulate.Nodes
	nodes   []simulate.Node
	pods    []movable // the cheapest first
	index   map[*corev1.Pod]int
	movable map[simulate.Node][]int // positions in pods
	shapes  []*simulate.Shape       // of the wanted
	demands []simulate.Demand       // of the wanted as a gang
	// kinds are the shapes of all pods, wantedKinds the positions of those of the wanted ones.
	kinds       []*simulate.Shape
	wantedKinds []int
	before      []simulate.Fit                  // by shape: how many of the wanted pods fit without moves
	monotone    []bool                          // by shape: see readMonotone
	alone       map[*corev1.Pod]*simulate.Shape // of one pod: see put
	best        Plan
	spent       int // attempts
}

// put is Sim.Put. A pod is read once, however often it is put somewhere.
func (f *finder) put(ctx context.Context, sim *simulate.Sim, pod *corev1.Pod, node simulate.Node) (simulate.Result, error) {
	shape := f.alone[pod]
	if shape == nil {
		shapes, err := f.state.Shapes([]*corev1.Pod{pod})
		if err != nil {
			return simulate.Result{}, err
		}
		shape = shapes[0]
		f.alone[pod] = shape
	}
	return sim.PutShape(ctx, shape, node)
}

// movable is a pod that may be moved.
type movable struct {
	*corev1.Pod
	from   simulate.Node
	cost   float64
	limits []int
	kind   int // position in finder.kinds
}

func (f *finder) read() error {
	if slices.Contains(f.Wanted, nil) {
		return errors.New("a wanted pod is nil")
	}
	f.names = sets.New(f.Nodes...)
	f.on = simulate.Real(func(node *corev1.Node) bool { return f.names.Has(node.Name) })
	limits := make(map[*corev1.Pod][]int)
	for i, limit := range f.Limits {
		for _, pod := range limit.Pods {
			limits[pod] = append(limits[pod], i)
		}
	}
	seen := make(map[string]bool)
	for _, name := range f.Nodes {
		if seen[name] {
			continue
		}
		seen[name] = true
		node, err := f.state.Node(name)
		if err != nil {
			return err
		}
		f.nodes = append(f.nodes, node)
		for pod := range f.state.Pods(node) {
			m := movable{Pod: pod, from: node, cost: f.cost(pod), limits: limits[pod]}
			if m.cost >= 0 && !math.IsInf(m.cost, 1) && !f.stays(&m) {
				f.pods = append(f.pods, m)
			}
		}
	}
	slices.SortStableFunc(f.pods, func(a, b movable) int { return cmp.Compare(a.cost, b.cost) })
	f.index, f.movable = make(map[*corev1.Pod]int), make(map[simulate.Node][]int)
	for i := range f.pods {
		f.index[f.pods[i].Pod] = i
		f.movable[f.pods[i].from] = append(f.movable[f.pods[i].from], i)
	}
	var err error
	if f.shapes, err = f.state.Shapes(f.Wanted); err != nil {
		return fmt.Errorf("wanted: %w", err)
	}
	if f.demands, err = f.state.Demands(f.Wanted); err != nil {
		return fmt.Errorf("wanted: %w", err)
	}
	return f.readKinds()
}

// stays reports whether a pod never goes: a limit keeps it, or it cannot be understood.
func (f *finder) stays(pod *movable) bool {
	_, err := f.state.Shapes([]*corev1.Pod{pod.Pod})
	return err != nil || slices.ContainsFunc(pod.limits, func(limit int) bool { return f.Limits[limit].Out < 1 })
}

// readKinds finds out which pods ask for the same.
func (f *finder) readKinds() (err error) {
	pods := make([]*corev1.Pod, len(f.pods), len(f.pods)+len(f.Wanted))
	for i := range f.pods {
		pods[i] = f.pods[i].Pod
	}
	if f.kinds, err = f.state.Shapes(append(pods, f.Wanted...)); err != nil {
		return err
	}
	of := make(map[*corev1.Pod]int)
	for kind, shape := range f.kinds {
		for _, pod := range shape.Pods {
			of[pod] = kind
		}
	}
	for i := range f.pods {
		f.pods[i].kind = of[f.pods[i].Pod]
	}
	for _, pod := range f.Wanted {
		f.wantedKinds = append(f.wantedKinds, of[pod])
	}
	return nil
}

// costOf is what it costs to move a pod, infinite if it stays.
func (f *finder) costOf(pod *corev1.Pod) float64 {
	if i, found := f.index[pod]; found {
		return f.pods[i].cost
	}
	return math.Inf(1)
}

func (f *finder) cost(pod *corev1.Pod) float64 {
	if f.Cost == nil {
		return 1
	}
	return f.Cost(pod)
}

// find looks for plans with chains of moves, then at sets of pods, the cheapest first, until one of them will do.
func (f *finder) find(ctx context.Context) error {
	f.best.Bound = math.Inf(1)
	if done, err := f.attempt(ctx, nil); done || err != nil {
		f.best.Bound = f.best.Cost // no move is needed
		return err
	}
	domains := f.domains()
	least, prices, err := f.least(ctx, domains)
	if err != nil || math.IsInf(least, 1) {
		return err
	}
	c := &chains{finder: f, prices: prices, byKind: make(map[int]*offers), least: least}
	if err := c.run(ctx, domains); err != nil {
		return err
	}
	if err := f.search(ctx, least); err != nil {
		return err
	}
	f.best.Bound = max(f.best.Bound, least)
	if f.best.Possible {
		f.best.Bound = min(f.best.Bound, f.best.Cost)
	}
	return nil
}

// search looks at sets of pods, the cheapest first, until one of them will do. Those that cost less than each plan does are passed over.
func (f *finder) search(ctx context.Context, least float64) error {
	costs := make([]float64, len(f.pods))
	for i := range f.pods {
		costs[i] = f.pods[i].cost
	}
	if f.best.Possible && !f.passes(costs, least) {
		f.best.Bound = min(f.best.Bound, least)
		return nil
	}
	tried := 0
	for members, cost := range subsets.ByCost(costs) {
		if f.best.Possible && (cost > f.best.Cost || max(cost, least) == f.best.Cost && f.best.Room == 0) {
			break
		}
		if tried++; tried > f.Sets || f.spent/manyTimes >= f.Attempts {
			f.best.Bound = min(f.best.Bound, cost)
			break
		}
		if cost < least-slack {
			continue
		}
		set := make([]movable, len(members))
		for i, at := range members {
			set[i] = f.pods[at]
		}
		if hopeless, err := f.hopeless(ctx, set); hopeless || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		if _, err := f.attempt(ctx, set); err != nil {
			return err
		}
	}
	return nil
}

// passes reports whether all sets can be looked at that cost so much. If not, the bound stays as it is.
func (f *finder) passes(costs []float64, least float64) bool {
	sets := 0
	for _, cost := range subsets.ByCost(costs) {
		if sets++; cost > least || sets > f.Sets {
			return cost > least
		}
	}
	return true
}

// hopeless reports whether the wanted pods of one kind do not fit even if the pods of a set vanish.
func (f *finder) hopeless(ctx context.Context, set []movable) (bool, error) {
	f.scratch.Fork()
	defer f.scratch.Revert()
	var left []simulate.Node
	for i := range set {
		if err := f.scratch.Evict(set[i].Pod); err != nil {
			return false, err
		}
		if !slices.Contains(left, set[i].from) {
			left = append(left, set[i].from)
		}
	}
	after := f.scratch.State()
	f.spent += len(set)
	for i, shape := range f.shapes {
		lacks, err := f.lacksDevices(ctx, after, left, i)
		if lacks || err != nil {
			return lacks, err
		}
		fit, err := after.FitsMany(ctx, shape, f.on)
		if err != nil {
			return false, err
		}
		f.spent += len(f.nodes) / nodesCounted
		if fit.Pods < f.provable(i) && fit.Undecided == 0 {
			return true, nil
		}
	}
	return false, nil
}

// provable is how many wanted pods of a shape fit after all if they do not fit one after the other where the pods that leave vanish. Where
// fewer free devices may take more pods, that only is certain of the first one.
func (f *finder) provable(shape int) int {
	if f.monotone[shape] {
		return len(f.shapes[shape].Pods)
	}
	return 1
}

// lacksDevices reports whether too few wanted pods of a shape get devices where pods have left, beside those that fit before. It takes no time
// in proportion to all nodes.
func (f *finder) lacksDevices(ctx context.Context, after *simulate.State, left []simulate.Node, shape int) (bool, error) {
	if f.before == nil {
		for _, shape := range f.shapes {
			fit, err := f.state.FitsMany(ctx, shape, f.on)
			if err != nil {
				return false, err
			}
			f.before = append(f.before, fit)
		}
	}
	if f.before[shape].Undecided > 0 {
		return false, nil
	}
	wanted := f.provable(shape)
	pods := f.before[shape].Pods
	for _, node := range left {
		if pods >= wanted {
			return false, nil
		}
		more, sure, err := take(ctx, after, f.shapes[shape], node, wanted)
		if err != nil || !sure {
			return false, err
		}
		pods += more
	}
	return pods < wanted, nil
}

// attempt looks for an order for a set, with as little room as possible, and keeps the plan if it is better. Done says that there is one.
// If it was given up, plans cost at least as much as the set, for all that is known.
func (f *finder) attempt(ctx context.Context, set []movable) (done bool, err error) {
	o := f.order(set)
	o.end = o.placeWanted
	for room := 0; room <= len(set); room++ {
		if f.best.Possible && o.cost == f.best.Cost && room >= f.best.Room {
			break
		}
		o.room = room
		if done, err = o.all(ctx); err != nil {
			return false, err
		}
		if done {
			if err := f.keep(ctx, o, set); err != nil {
				return false, err
			}
			break
		}
	}
	f.spent += f.Attempts - o.left
	if o.doubts && !done {
		f.best.Bound = min(f.best.Bound, o.cost)
	}
	return done, nil
}

// keep takes the steps of an order as the plan, if it is better than the one there is.
func (f *finder) keep(ctx context.Context, o *order, set []movable) error {
	if f.best.Possible && (o.cost > f.best.Cost || o.cost == f.best.Cost && o.room >= f.best.Room) {
		return nil
	}
	if err := o.readClaims(ctx); err != nil {
		return err
	}
	f.best = Plan{Possible: true, Steps: slices.Clone(o.steps), Places: slices.Clone(o.places), Cost: o.cost, Room: o.room, Bound: f.best.Bound}
	for i := range set {
		f.best.Pods = append(f.best.Pods, set[i].Pod)
	}
	return nil
}
