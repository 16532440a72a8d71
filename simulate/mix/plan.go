// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"cmp"
	"context"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/dray-project/dray/simulate"
)

// Plan is the result of Find.
type Plan struct {
	// Nodes are the new nodes, in the order of Question.Types.
	Nodes []Node
	// Existing are the pods that are placed on real nodes.
	Existing []simulate.Placement
	// Left are the pods that do not fit.
	Left []Left
	// Cost is the total price of the new nodes.
	Cost float64
	// Bound is a lower bound of the cost of any plan that leaves out as many pods. It equals Cost if no cheaper
	// plan exists.
	Bound float64
	// LeftBound is a lower bound of the number of pods that any plan leaves out because of limits.
	LeftBound int
	// After is the cluster with the new nodes, and all pods that were placed.
	After *simulate.State
}

// Node is a new node with its pods, in the order in which they are placed. Its type is Node.Template().
type Node struct {
	simulate.Node
	Pods []simulate.Placement
}

// Left are pods of one shape that do not fit.
type Left struct {
	Pods   []*corev1.Pod
	Reason Reason
	// Why says why each node does not take the pods, including a new one of each type. It is nil for
	// DependsOnOthers.
	Why *simulate.Refusal
}

// Reason is why pods do not fit.
type Reason string

// The reasons.
const (
	// FitsNowhere: neither a real node nor a new node of any type fits one of the pods.
	FitsNowhere Reason = "FitsNowhere"
	// Limited: the pods fit on nodes of some types, but limits allow no more of these.
	Limited Reason = "Limited"
	// Undecided: a search for devices failed or ran out of budget. The pods may fit.
	Undecided Reason = "Undecided"
	// DependsOnOthers: the pods share claims, or pools of several nodes can serve them. What they get depends
	// on where other pods are.
	DependsOnOthers Reason = "DependsOnOthers"
)

// All reports whether all pods fit.
func (p *Plan) All() bool { return len(p.Left) == 0 }

// Exact reports whether the plan is proved optimal: no plan leaves out fewer pods, and no plan with as few is
// cheaper. Pods with the reason DependsOnOthers are ignored.
func (p *Plan) Exact() bool {
	limited := 0
	for i := range p.Left {
		switch p.Left[i].Reason {
		case Undecided:
			return false
		case Limited:
			limited += len(p.Left[i].Pods)
		}
	}
	return limited == p.LeftBound && p.Bound >= p.Cost
}

// Gap is the relative gap between Cost and Bound: 0.02 means that Cost is 2 % above Bound. It is infinite if
// Bound is 0 and Cost is not.
func (p *Plan) Gap() float64 {
	switch {
	case p.Cost <= p.Bound:
		return 0
	case p.Bound <= 0:
		return math.Inf(1)
	}
	return p.Cost/p.Bound - 1
}

// setAside removes the kinds that fit into no bin, and explains them in problem.left.
func (p *problem) setAside(ctx context.Context) error {
	fits, undecided, apart := sets.New[int](), sets.New[int](), sets.New[int]()
	for _, b := range p.bins {
		fits.Insert(b.kinds...)
		undecided.Insert(b.undecided...)
		apart.Insert(b.apart...)
	}
	number := make(map[int]int)
	var kinds []*simulate.Shape
	var demand []int
	for k, shape := range p.kinds {
		if fits.Has(k) {
			number[k] = len(kinds)
			kinds, demand = append(kinds, shape), append(demand, p.demand[k])
			continue
		}
		left := Left{Pods: shape.Pods, Reason: FitsNowhere}
		switch {
		case apart.Has(k):
			left.Reason = DependsOnOthers
		case undecided.Has(k):
			left.Reason = Undecided
		}
		if left.Reason != DependsOnOthers {
			result, err := p.sim.PlaceMany(ctx, shape, len(shape.Pods), p.everywhere(), simulate.FirstFit)
			if err != nil {
				return err
			}
			if left.Why, err = why(ctx, &result); err != nil {
				return err
			}
		}
		p.left = append(p.left, left)
	}
	renumber := func(list []int) []int {
		var kept []int
		for _, k := range list {
			if n, found := number[k]; found {
				kept = append(kept, n)
			}
		}
		return kept
	}
	for _, b := range p.bins {
		b.kinds, b.undecided = renumber(b.kinds), renumber(b.undecided)
	}
	p.kinds, p.demand = kinds, demand
	return nil
}

// everywhere returns the real nodes of the question and the added nodes of its types.
func (p *problem) everywhere() simulate.Nodes {
	names := sets.New(p.Nodes...)
	all := []simulate.Nodes{simulate.Real(func(n *corev1.Node) bool { return names.Has(n.Name) })}
	for _, t := range p.Types {
		all = append(all, simulate.Added(t))
	}
	return simulate.Union(all...)
}

// why returns the first refusal of a result.
func why(ctx context.Context, result *simulate.Result) (*simulate.Refusal, error) {
	refusals, err := result.Why(ctx)
	if err != nil || len(refusals) == 0 {
		return nil, err
	}
	return &refusals[0], nil
}

// load is a node with the number of pods of each kind on it.
type load struct {
	*bin
	node   simulate.Node
	counts []int
}

// loads assigns pods to the nodes of a choice, real ones first, which take as many as fit. Nodes without pods
// are left out.
func (p *problem) loads(ctx context.Context, c *choice) (list []load, left []int, err error) {
	chosen := make(map[*bin][][]int)
	for i := range c.patterns {
		chosen[c.patterns[i].bin] = append(chosen[c.patterns[i].bin], c.patterns[i].counts)
	}
	left = slices.Clone(p.demand)
	bins := slices.Clone(p.bins)
	slices.SortStableFunc(bins, func(a, b *bin) int { return cmp.Compare(len(b.nodes), len(a.nodes)) })
	for _, b := range bins {
		count := max(len(b.nodes), len(chosen[b]))
		for i := range count {
			one := load{bin: b, counts: make([]int, len(p.kinds))}
			if i < len(chosen[b]) {
				one.counts = slices.Clone(chosen[b][i])
			}
			if b.template == nil {
				one.node = b.nodes[i]
			}
			if err := one.fit(ctx, left, b.template == nil); err != nil {
				return nil, nil, err
			}
			if slices.ContainsFunc(one.counts, func(n int) bool { return n > 0 }) {
				list = append(list, one)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b load) int {
		return cmp.Compare(slices.Index(p.bins, a.bin), slices.Index(p.bins, b.bin))
	})
	return list, left, nil
}

// fit reduces the counts to what is left and fits, and subtracts them from left. With more set, it then adds
// pods as long as they fit.
func (l *load) fit(ctx context.Context, left []int, more bool) error {
	for k := range l.counts {
		l.counts[k] = min(l.counts[k], left[k])
	}
	for k := len(l.counts) - 1; k >= 0; {
		// With fewer pods than in the pattern, some may get other devices, so that the rest no longer fits.
		fits, err := l.holds(ctx, l.counts)
		if err != nil {
			return err
		}
		if fits {
			break
		}
		if l.counts[k] == 0 {
			k--
			continue
		}
		l.counts[k]--
	}
	for _, k := range l.kinds {
		for more && l.counts[k] < left[k] {
			l.counts[k]++
			fits, err := l.holds(ctx, l.counts)
			if err != nil {
				return err
			}
			if !fits {
				l.counts[k]--
				break
			}
		}
	}
	for k, n := range l.counts {
		left[k] -= n
	}
	return nil
}

// realize puts the pods on their nodes.
func (p *problem) realize(ctx context.Context, c *choice) (*Plan, error) {
	loads, _, err := p.loads(ctx, c)
	if err != nil {
		return nil, err
	}
	p.sim = p.state.Sim()
	plan := &Plan{}
	waiting := make([][]*corev1.Pod, len(p.kinds))
	for k, shape := range p.kinds {
		waiting[k] = shape.Pods
	}
	added := make(map[*simulate.Template]int)
	for i := range loads {
		l := &loads[i]
		if l.template != nil {
			l.node = l.template.At(added[l.template])
			added[l.template]++
			if err := p.sim.Add(l.template, 1); err != nil {
				return nil, err
			}
			plan.Nodes = append(plan.Nodes, Node{Node: l.node})
			plan.Cost += l.price
		}
		for k, n := range l.counts {
			for range n {
				result, err := p.sim.Put(ctx, waiting[k][0], l.node)
				if err != nil {
					return nil, err
				}
				if !result.All() {
					break // the cached answer was dropped, and the budget ran out
				}
				waiting[k] = waiting[k][1:]
				plan.add(&result)
			}
		}
	}
	if err := p.rest(ctx, plan, waiting); err != nil {
		return nil, err
	}
	plan.After = p.sim.State()
	plan.judge(p, c)
	return plan, nil
}

// add records the placements of a result.
func (p *Plan) add(result *simulate.Result) {
	for placement := range result.Placements() {
		if placement.Node.Template() == nil {
			p.Existing = append(p.Existing, placement)
			continue
		}
		at := slices.IndexFunc(p.Nodes, func(n Node) bool { return n.Node == placement.Node })
		p.Nodes[at].Pods = append(p.Nodes[at].Pods, placement)
	}
}

// rest tries again to place the remaining pods on the nodes that exist now, and explains those that do not fit.
func (p *problem) rest(ctx context.Context, plan *Plan, waiting [][]*corev1.Pod) error {
	plan.Left = p.left
	for k, pods := range waiting {
		if len(pods) == 0 {
			continue
		}
		shapes, err := p.state.Shapes(pods)
		if err != nil {
			return err
		}
		result, err := p.sim.PlaceMany(ctx, shapes[0], len(pods), p.everywhere(), simulate.FirstFit)
		if err != nil {
			return err
		}
		plan.add(&result)
		if result.All() {
			continue
		}
		left := Left{Pods: pods[result.Placed:], Reason: Limited}
		if result.Undecided > 0 || slices.ContainsFunc(p.bins, func(b *bin) bool { return slices.Contains(b.undecided, k) }) {
			left.Reason = Undecided
		}
		if left.Why, err = why(ctx, &result); err != nil {
			return err
		}
		plan.Left = append(plan.Left, left)
	}
	return nil
}

// judge computes the bounds of the plan.
func (p *Plan) judge(problem *problem, c *choice) {
	limited := 0
	for i := range p.Left {
		if p.Left[i].Reason == Limited {
			limited += len(p.Left[i].Pods)
		}
	}
	penalty := problem.penalty
	// The total price of all nodes is less than a hundredth of the penalty.
	p.LeftBound = max(0, int(math.Ceil(c.bound/penalty-0.01-1e-9)))
	if p.LeftBound = min(p.LeftBound, limited); c.bound >= c.cost-problem.tolerance && float64(limited)*penalty <= c.cost {
		p.LeftBound = limited
	}
	p.Bound = max(0, problem.roundUp(c.bound-penalty*float64(limited)))
	if p.Bound = min(p.Bound, p.Cost); p.Cost-p.Bound <= problem.tolerance {
		p.Bound = p.Cost
	}
}
