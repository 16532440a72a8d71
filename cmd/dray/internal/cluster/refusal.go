package cluster

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/dray-project/dray/allocator"
)

// Refusal says why a workload cannot go to a node.
type Refusal struct {
	Node string
	// Reason is not about devices. Empty if it is, and then there is an explanation.
	Reason string
	// Undecided is set if the search ended without an answer, as Reason says.
	Undecided bool

	unsatisfiable *allocator.Unsatisfiable
}

// RefusalGroup is nodes that are refused alike.
type RefusalGroup struct {
	// Nodes are in the order in which they were asked.
	Nodes []string
	// Summary is one sentence. If not Uniform it is about the node Closest.
	Summary string
	// Uniform is set if the nodes agree in all figures of the summary, too.
	Uniform bool
	// Closest is the node that lacks least.
	Closest string
	// Explanation is that of Closest; nil if devices are not the reason.
	Explanation *allocator.Explanation
}

// GroupRefusals sums up refusals: first those which devices are the reason for, the
// ones that lack least and then those of most nodes first. Nodes belong together if the same
// requests and constraints are in conflict and the same selectors, taints and so on
// reject devices for them, however many devices on each node.
func GroupRefusals(refusals []Refusal) []RefusalGroup {
	var groups []*RefusalGroup
	byConflict := make(map[string]*RefusalGroup)
	for i := range refusals {
		single := refusals[i].group()
		signature := single.conflict()
		if known := byConflict[signature]; known != nil {
			known.join(single)
			continue
		}
		byConflict[signature] = single
		groups = append(groups, single)
	}
	slices.SortStableFunc(groups, func(a, b *RefusalGroup) int {
		return cmp.Or(cmp.Compare(a.lacking(), b.lacking()), cmp.Compare(len(b.Nodes), len(a.Nodes)))
	})
	sorted := make([]RefusalGroup, len(groups))
	for i, group := range groups {
		sorted[i] = *group
	}
	return sorted
}

// group starts a group of this refusal alone.
func (r Refusal) group() *RefusalGroup {
	group := &RefusalGroup{Nodes: []string{r.Node}, Summary: r.Reason, Uniform: true, Closest: r.Node}
	if r.unsatisfiable != nil {
		group.Explanation = r.unsatisfiable.Explain()
		group.Summary = strings.TrimPrefix(group.Explanation.Summary, "node "+r.Node+": ")
	}
	return group
}

// join adds a group of one node.
func (g *RefusalGroup) join(single *RefusalGroup) {
	g.Nodes = append(g.Nodes, single.Nodes...)
	if g.Explanation == nil {
		return
	}
	g.Uniform = g.Uniform && g.Summary == single.Summary
	if closer(single.Explanation, g.Explanation) {
		g.Summary, g.Closest, g.Explanation = single.Summary, single.Closest, single.Explanation
	}
}

// lacking is how many devices are missing where the group comes closest.
func (g *RefusalGroup) lacking() int {
	if g.Explanation == nil {
		return math.MaxInt
	}
	lacking, _ := supply(g.Explanation)
	return lacking
}

// conflict is equal for refusals of the same kind: the figures are left out.
func (g *RefusalGroup) conflict() string {
	if g.Explanation == nil {
		return "reason " + g.Summary
	}
	parts := []string{"devices"}
	for _, item := range g.Explanation.Core {
		parts = append(parts, item.Claim, item.Request, item.Constraint)
		for _, request := range g.Explanation.Requests {
			if Concerns(item, request) {
				parts = append(parts, lasting(request)...)
			}
		}
	}
	for _, pool := range g.Explanation.Pools {
		parts = append(parts, pool.Incomplete, pool.Invalid)
	}
	return strings.Join(parts, "\x00")
}

// Concerns reports whether the item is the request, or the prioritized list that the
// request is an alternative of.
func Concerns(item allocator.CoreItem, request allocator.RequestReport) bool {
	listed, _, _ := strings.Cut(request.Request, "/")
	return item.Claim == request.Claim && item.Request == listed
}

// lasting lists what rejects devices whoever uses them at the moment.
func lasting(request allocator.RequestReport) []string {
	if request.Reachable == 0 {
		return []string{"out of reach"}
	}
	var reasons []string
	for _, rejection := range request.Rejections {
		if rejection.Reason != allocator.RejectedByUse {
			reasons = append(reasons, string(rejection.Reason)+rejection.Detail)
		}
	}
	slices.Sort(reasons)
	return reasons
}

// closer reports whether a lacks fewer devices than b, or has more to choose from.
func closer(a, b *allocator.Explanation) bool {
	lackingA, candidatesA := supply(a)
	lackingB, candidatesB := supply(b)
	return lackingA < lackingB || lackingA == lackingB && candidatesA > candidatesB
}

// supply is how many devices the requests lack together, and have to choose from. Of a
// prioritized list the alternative counts that lacks least.
func supply(e *allocator.Explanation) (lacking, candidates int) {
	type listed struct{ claim, request string }
	least := make(map[listed]int)
	for _, request := range e.Requests {
		candidates += request.Candidates
		name, _, _ := strings.Cut(request.Request, "/")
		key, missing := listed{request.Claim, name}, max(0, request.Needed-request.Candidates)
		if known, seen := least[key]; !seen || missing < known {
			least[key] = missing
		}
	}
	for _, missing := range least {
		lacking += missing
	}
	return lacking, candidates
}
