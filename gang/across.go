// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"context"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
)

// across answers a question with constraints across its pods. It tries each combination of values of the
// attributes as a domain, and asks with requests that are limited to devices of that domain.
type across struct {
	Question
	context context.Context
	// nodes are positions of nodes by name.
	nodes map[string]int
	known map[resourceapi.FullyQualifiedName][]*value
	// shareNothing is set if no device can serve two pods, but for those that allow several allocations.
	shareNothing bool
	spent        int64
}

// trialCost is the cost of compiling the claims for another domain, in steps.
const trialCost = 200

// bestResult is the best result so far for some constraints.
type bestResult struct {
	*Result
	undecided bool
}

func askAcross(ctx context.Context, q Question) (*Result, error) {
	a := &across{Question: q, context: ctx, nodes: make(map[string]int), known: make(map[resourceapi.FullyQualifiedName][]*value), shareNothing: shareNothing(q.Pods)}
	for n, node := range q.Nodes {
		a.nodes[node.Name] = n
	}
	constraints, preferred := commonOf(q.Group)
	best, err := a.bestFor(constraints)
	if err != nil {
		return nil, err
	}
	for _, preference := range preferred {
		if best.Verdict != allocator.Satisfiable {
			break
		}
		longer := append(slices.Clip(constraints), preference)
		found, err := a.bestFor(longer)
		if err != nil {
			return nil, err
		}
		if found.Verdict == allocator.Satisfiable && found.Placed() >= best.Placed() {
			best, constraints = found, longer
		}
	}
	best.Steps = a.spent
	return best, nil
}

func commonOf(g extension.Group) (required, preferred []*common) {
	for _, c := range g.Constraints {
		required = append(required, &common{attribute: c.MatchAttribute, requests: c.Requests})
	}
	for _, c := range g.MaxDistinct {
		required = append(required, &common{attribute: c.Attribute, requests: c.Requests, most: int(c.Most)})
	}
	for _, c := range g.Preferred {
		preferred = append(preferred, &common{attribute: c.MatchAttribute, requests: c.Requests})
	}
	return required, preferred
}

// bestFor looks for the first domain in which all pods have a place, or else for the domain in which most pods
// have one.
func (a *across) bestFor(constraints []*common) (*Result, error) {
	places := make([]Place, len(a.Pods))
	for i := range places {
		places[i].Node = -1
	}
	t := &bestResult{Result: &Result{Verdict: allocator.NotSatisfiable, Exact: true, Places: places}}
	if _, err := a.chooseDomains(t, constraints, nil, nil); err != nil {
		return nil, err
	}
	if t.Verdict != allocator.Satisfiable && (t.undecided || a.spent > a.Budget) {
		t.Verdict = allocator.NotDecided
	}
	t.Exact = t.Exact && t.Verdict == allocator.NotSatisfiable
	return t.Result, nil
}

// chooseDomains chooses domains for the constraints that have none yet. on are the nodes with devices of the chosen
// domains; nil is all nodes. It returns false if no other choice is needed, or the budget is spent.
func (a *across) chooseDomains(t *bestResult, constraints []*common, chosen [][]*value, on []bool) (bool, error) {
	if len(chosen) == len(constraints) {
		return a.ask(t, constraints, chosen, on)
	}
	c, more := constraints[len(chosen)], true
	bound := !slices.ContainsFunc(a.Pods, func(pod Pod) bool { return !c.binds(&pod) })
	var err error
	a.domains(c, bound, func(values []*value) bool {
		if a.spent++; a.spent > a.Budget {
			more = false
			return false
		}
		left := on
		if bound && t.Domain != nil && a.maxPods(values) <= t.Placed() {
			return true // no more pods can have a place in this domain
		}
		if bound {
			left = a.nodesWith(on, values)
		}
		more, err = a.chooseDomains(t, constraints, append(slices.Clip(chosen), values), left)
		return more && err == nil
	})
	return more, err
}

// shareNothing reports whether pods share no claims, and none has admin access.
func shareNothing(pods []Pod) bool {
	of := make(map[claimKey]int)
	for i := range pods {
		for _, claims := range pods[i].Variants {
			for _, claim := range claims {
				if pod, known := of[keyOf(claim)]; known && pod != i {
					return false
				}
				of[keyOf(claim)] = i
				if claimAsksForAdmin(claim) {
					return false
				}
			}
		}
	}
	return true
}

// maxPods is an upper bound on the number of pods with a device of a domain.
func (a *across) maxPods(values []*value) int {
	if !a.shareNothing {
		return len(a.Pods)
	}
	total := 0
	for _, v := range values {
		total += v.devices
	}
	return min(total, len(a.Pods))
}

// nodesWith returns the nodes that have devices with one of some values.
func (a *across) nodesWith(on []bool, values []*value) []bool {
	if slices.ContainsFunc(values, func(v *value) bool { return v.everywhere }) {
		return on
	}
	left := make([]bool, len(a.Nodes))
	for _, v := range values {
		for _, n := range v.nodes {
			left[n] = on == nil || on[n]
		}
	}
	return left
}

// ask asks with the chosen domains, and keeps the result if it is better. It may spend half of the remaining
// budget.
func (a *across) ask(t *bestResult, constraints []*common, chosen [][]*value, on []bool) (bool, error) {
	q, at := a.Question, []int(nil)
	q.Group, q.Budget = extension.Group{}, max(1, (a.Budget-a.spent)/2)
	for n := range a.Nodes {
		if on == nil || on[n] {
			at = append(at, n)
		}
	}
	if len(at) == 0 {
		return true, nil
	}
	q = q.Within(at)
	domain := make([]Domain, len(chosen))
	for i, values := range chosen {
		domain[i].Attribute = constraints[i].attribute
		for _, v := range values {
			domain[i].Values = append(domain[i].Values, v.literal)
		}
	}
	q.Compile = func(claims []*resourceapi.ResourceClaim) (*allocator.Problem, error) {
		for i, c := range constraints {
			var err error
			if claims, err = c.narrow(claims, domain[i].Values); err != nil {
				return nil, err
			}
		}
		return a.Compile(claims)
	}
	r, err := ask(a.context, q)
	if err != nil {
		return false, err
	}
	a.spent += trialCost + r.Steps
	for i := range r.Places {
		if r.Places[i].Node >= 0 {
			r.Places[i].Node = at[r.Places[i].Node]
		}
	}
	t.undecided = t.undecided || r.Verdict == allocator.NotDecided
	exact := t.Exact && (r.Verdict == allocator.Satisfiable || r.Exact)
	if t.Domain == nil || r.Placed() > t.Placed() {
		r.Domain = domain
		t.Result = r
	}
	t.Exact = exact
	return t.Verdict != allocator.Satisfiable || r.Placed() < len(a.Pods), nil
}
