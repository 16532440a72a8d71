package cluster

import (
	"cmp"
	"slices"

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
	// Statement introduces the explanation.
	Statement string
	// Uniform is set if the nodes agree in all figures of the summary, too.
	Uniform bool
	// Closest is the node that lacks least.
	Closest string
	// Explanation is that of Closest; nil if devices are not the reason.
	Explanation *allocator.Explanation
}

// GroupRefusals sums up refusals: first those which devices are the reason for, as an
// allocator.Grouping does, and then the others, those of most nodes first.
func GroupRefusals(refusals []Refusal) []RefusalGroup {
	var devices allocator.Grouping
	var others []RefusalGroup
	at := make(map[string]int)
	for _, r := range refusals {
		if r.unsatisfiable != nil {
			devices.Add(r.unsatisfiable.Explain(), r.Node)
			continue
		}
		i, known := at[r.Reason]
		if !known {
			i, at[r.Reason] = len(others), len(others)
			others = append(others, RefusalGroup{Summary: r.Reason, Uniform: true, Closest: r.Node})
		}
		others[i].Nodes = append(others[i].Nodes, r.Node)
	}
	slices.SortStableFunc(others, func(a, b RefusalGroup) int { return cmp.Compare(len(b.Nodes), len(a.Nodes)) })
	var groups []RefusalGroup
	for _, g := range devices.Groups() {
		groups = append(groups, RefusalGroup{
			Nodes: g.Nodes, Summary: g.Summary(), Statement: g.Statement(), Uniform: g.Uniform, Closest: g.Closest.Node, Explanation: g.Closest,
		})
	}
	return append(groups, others...)
}
