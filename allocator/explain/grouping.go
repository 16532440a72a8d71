// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"slices"
	"strings"
)

// Group is nodes on which claims cannot be allocated for the same reasons.
type Group struct {
	// Nodes are in the order in which they were added.
	Nodes []string
	// Closest is the explanation of the node that lacks least.
	Closest *Explanation
	// Uniform is set if all nodes agree in the figures of the summary.
	Uniform bool

	summary string
}

// Grouping sums up the explanations of many nodes. Nodes belong together if the same requests
// and constraints are in conflict and the same selectors, taints and so on reject devices for
// them, however many devices on each node. The zero value is ready to use, by one goroutine.
type Grouping struct {
	groups     []*Group
	byConflict map[string]*Group
}

// Add adds nodes that have the same explanation but for names. It is that of one of them.
func (g *Grouping) Add(e *Explanation, nodes ...string) {
	summary := strings.TrimPrefix(e.Summary, "node "+e.Node+": ")
	key := e.conflict()
	known := g.byConflict[key]
	if known == nil {
		known = &Group{Closest: e, Uniform: true, summary: summary}
		if g.byConflict == nil {
			g.byConflict = make(map[string]*Group)
		}
		g.byConflict[key] = known
		g.groups = append(g.groups, known)
	}
	known.Nodes = append(known.Nodes, nodes...)
	known.Uniform = known.Uniform && known.summary == summary
	if e.closer(known.Closest) {
		known.Closest, known.summary = e, summary
	}
}

// Groups returns what was added so far: first the groups that lack least, and of these the
// ones of most nodes.
func (g *Grouping) Groups() []Group {
	sorted := make([]Group, len(g.groups))
	for i, group := range g.groups {
		sorted[i] = *group
	}
	slices.SortStableFunc(sorted, func(a, b Group) int {
		lackingA, _ := a.Closest.supply()
		lackingB, _ := b.Closest.supply()
		return cmp.Or(cmp.Compare(lackingA, lackingB), cmp.Compare(len(b.Nodes), len(a.Nodes)))
	})
	return sorted
}

// Summary is one sentence. If not Uniform, it is about the node that lacks least.
func (g *Group) Summary() string { return g.summary }

// Statement introduces what is in conflict.
func (g *Group) Statement() string {
	what := "this cannot be met"
	if len(g.Closest.Core) > 1 {
		what = "these cannot hold together"
	}
	if !g.Uniform {
		what += ", with the figures of " + g.Closest.Node + ", which comes closest"
	}
	return what
}

// conflict is equal for explanations of the same kind: the figures are left out.
func (e *Explanation) conflict() string {
	var parts []string
	for _, item := range e.Core {
		parts = append(parts, item.Claim, item.Request, item.Constraint)
		for i := range e.Requests {
			if item.Concerns(&e.Requests[i]) {
				parts = append(parts, e.Requests[i].lasting()...)
			}
		}
	}
	for _, pool := range e.Pools {
		parts = append(parts, pool.Incomplete, pool.Invalid)
	}
	return strings.Join(parts, "\x00")
}

// Concerns reports whether the item is the request, or the prioritized list that the request
// is an alternative of.
func (i *CoreItem) Concerns(request *RequestReport) bool {
	listed, _, _ := strings.Cut(request.Request, "/")
	return i.Claim == request.Claim && i.Request == listed
}

// lasting lists what rejects devices whoever uses them at the moment.
func (r *RequestReport) lasting() []string {
	if r.Reachable == 0 {
		return []string{"out of reach"}
	}
	var reasons []string
	for _, rejection := range r.Rejections {
		if rejection.Reason != RejectedByUse {
			reasons = append(reasons, string(rejection.Reason)+rejection.Detail)
		}
	}
	slices.Sort(reasons)
	return reasons
}

// closer reports whether a node lacks fewer devices than another, or has more to choose from.
func (e *Explanation) closer(than *Explanation) bool {
	lacking, candidates := e.supply()
	lackingThere, candidatesThere := than.supply()
	return lacking < lackingThere || lacking == lackingThere && candidates > candidatesThere
}

// supply is how many devices the requests lack together, and have to choose from. Of a
// prioritized list the alternative counts that lacks least.
func (e *Explanation) supply() (lacking, candidates int) {
	least := make(map[[2]string]int) // by claim and request
	for _, request := range e.Requests {
		candidates += request.Candidates
		name, _, _ := strings.Cut(request.Request, "/")
		key, missing := [2]string{request.Claim, name}, max(0, request.Needed-request.Candidates)
		if known, seen := least[key]; !seen || missing < known {
			least[key] = missing
		}
	}
	for _, missing := range least {
		lacking += missing
	}
	return lacking, candidates
}
