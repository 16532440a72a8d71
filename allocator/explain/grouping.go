// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"slices"
	"strings"
)

// Group is a set of nodes on which claims cannot be allocated for the same reasons.
type Group struct {
	// Nodes are in the order in which they were added.
	Nodes []string
	// Closest is the explanation of the node that lacks the fewest devices.
	Closest *Explanation
	// Uniform is set if the summaries of all nodes are equal, figures included.
	Uniform bool

	summary string
}

// Grouping sums up the explanations of many nodes. Nodes are in one group if the same requests and constraints
// are in conflict, and devices are rejected for the same reasons. The number of
// devices does not matter. The zero value is ready to use, by one goroutine.
type Grouping struct {
	groups     []*Group
	byConflict map[string]*Group
}

// Add adds nodes whose explanations differ in names only. The explanation is that of one of them.
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

// Groups returns the groups so far. Groups that lack the fewest devices come first, and among these the ones
// with the most nodes.
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

// Summary is one sentence. If not Uniform, it is that of the node in Closest.
func (g *Group) Summary() string { return g.summary }

// Statement is the phrase that introduces the list of the conflict.
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

// conflict is the key of a group. Figures are left out.
func (e *Explanation) conflict() string {
	var parts []string
	for _, item := range e.Core {
		parts = append(parts, item.Claim, item.Request, item.Constraint)
		for i := range e.Requests {
			if item.Concerns(&e.Requests[i]) {
				parts = append(parts, e.Requests[i].lastingReasons()...)
			}
		}
	}
	for _, pool := range e.Pools {
		parts = append(parts, pool.Incomplete, pool.Invalid)
	}
	return strings.Join(parts, "\x00")
}

// Concerns reports whether the item is the request, or the prioritized list of which the request is an
// alternative.
func (i *CoreItem) Concerns(request *RequestReport) bool {
	listed, _, _ := strings.Cut(request.Request, "/")
	return i.Claim == request.Claim && i.Request == listed
}

// lastingReasons lists the reasons that do not depend on current use.
func (r *RequestReport) lastingReasons() []string {
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

// closer reports whether a node lacks fewer devices than another, or as many and has more candidates.
func (e *Explanation) closer(than *Explanation) bool {
	lacking, candidates := e.supply()
	lackingThere, candidatesThere := than.supply()
	return lacking < lackingThere || lacking == lackingThere && candidates > candidatesThere
}

// supply returns how many devices the requests lack in total, and how many candidates they have. Of a
// prioritized list only the alternative that lacks the fewest counts.
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
