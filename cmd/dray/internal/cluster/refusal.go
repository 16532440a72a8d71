package cluster

import (
	"cmp"
	"slices"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/explain"
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
	Explanation *explain.Explanation
	// Each has the explanation of each node; empty if devices are not the reason.
	Each []*explain.Explanation
}

// GroupRefusals sums up refusals, those that come closest first: nodes with devices that a
// request could have, as an explain.Grouping sorts them; nodes where devices are not the
// reason, those of most nodes first; nodes without a device of a class that is asked for;
// and nodes that have no device at all.
func GroupRefusals(refusals []Refusal) []RefusalGroup {
	var devices explain.Grouping
	explanations := make(map[string]*explain.Explanation)
	var others []RefusalGroup
	at := make(map[string]int)
	for _, r := range refusals {
		if r.unsatisfiable != nil {
			explanations[r.Node] = r.unsatisfiable.Explain()
			devices.Add(explanations[r.Node], r.Node)
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
	var ranks [nodesWithoutDevices + 1][]RefusalGroup
	ranks[otherReasons] = others
	for _, g := range devices.Groups() {
		at := rank(g.Closest)
		group := RefusalGroup{
			Nodes: g.Nodes, Summary: g.Summary(), Statement: g.Statement(), Uniform: g.Uniform, Closest: g.Closest.Node, Explanation: g.Closest,
		}
		for _, node := range g.Nodes {
			group.Each = append(group.Each, explanations[node])
		}
		ranks[at] = append(ranks[at], group)
	}
	return slices.Concat(ranks[:]...)
}

// The ranks of groups, from what comes closest.
const (
	nodesWithDevices = iota
	otherReasons
	nodesOfOtherClasses
	nodesWithoutDevices
)

func rank(e *explain.Explanation) int {
	switch {
	case len(e.Pools) > 0:
		return nodesWithDevices // which cannot be used yet
	case !slices.ContainsFunc(e.Requests, func(r explain.RequestReport) bool { return r.Reachable > 0 }):
		return nodesWithoutDevices
	}
	for _, item := range e.Core {
		if item.Constraint == "" && nothingOfClass(e, item) {
			return nodesOfOtherClasses
		}
	}
	return nodesWithDevices
}

// nothingOfClass reports whether the node has no device of the class of a request, or of
// any alternative of a prioritized list.
func nothingOfClass(e *explain.Explanation, item explain.CoreItem) bool {
	for _, report := range e.Requests {
		if !item.Concerns(&report) {
			continue
		}
		ofOthers := 0
		for _, rejection := range report.Rejections {
			if rejection.OfClass() {
				ofOthers += rejection.Devices
			}
		}
		if ofOthers < report.Reachable {
			return false
		}
	}
	return true
}
