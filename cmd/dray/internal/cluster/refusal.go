// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/explain"
)

// Refusal says why a workload cannot go to a node.
type Refusal struct {
	Node string
	// Undecided is set if the search ended without an answer.
	Undecided bool

	reason        *reason                  // nil if devices are the reason
	unsatisfiable *allocator.Unsatisfiable // nil if they are not
}

// Reason is one sentence. It is empty if devices are the reason.
func (r *Refusal) Reason() string {
	if r.reason == nil {
		return ""
	}
	return r.reason.String()
}

// RefusalGroup is nodes that are refused alike.
type RefusalGroup struct {
	// Nodes are in the order in which they were asked.
	Nodes []string
	// Summary is one sentence. If not Uniform and devices are the reason, it is about the
	// node Closest.
	Summary string
	// Lacks is the Summary without amounts and what nodes have instead; empty if devices are the reason.
	Lacks string
	// Statement introduces the explanation.
	Statement string
	// Uniform is set if the nodes agree in all figures of the summary, too.
	Uniform bool
	// Closest is the node that lacks least.
	Closest string
	// Explanation is that of Closest; nil if devices are not the reason.
	Explanation *explain.Explanation
	// Members are the nodes with the explanations that they have; empty if devices are not the
	// reason. Closest is the first of its member.
	Members []Member
}

// Member is nodes that have the same explanation but for names. It is that of the first one.
type Member struct {
	Explanation *explain.Explanation
	Nodes       []string
}

// Kind is equal for groups of the same nodes, which refuse pods that ask for the same, for the same reasons:
// figures are left out.
func (g *RefusalGroup) Kind() string {
	parts := append([]string{strconv.Itoa(len(g.Nodes))}, g.Nodes...)
	if g.Explanation == nil {
		return strings.Join(append(parts, g.Lacks), "\x00")
	}
	for _, item := range g.Explanation.Core {
		parts = append(parts, item.Request, item.Constraint)
		for i := range g.Explanation.Requests {
			report := &g.Explanation.Requests[i]
			if !item.Concerns(report) {
				continue
			}
			for _, rejection := range report.Rejections {
				parts = append(parts, string(rejection.Reason), rejection.Detail)
			}
		}
	}
	for _, pool := range g.Explanation.Pools {
		parts = append(parts, pool.Pool.String(), pool.Incomplete, pool.Invalid)
	}
	return strings.Join(parts, "\x00")
}

// GroupRefusals sums up refusals, those that come closest first: nodes with devices that a
// request could have, as an explain.Grouping sorts them; nodes where devices are not the
// reason, those of most nodes first; nodes without a device of a class that is asked for;
// and nodes that have no device at all.
func GroupRefusals(refusals []Refusal) []RefusalGroup {
	var devices explain.Grouping
	members := membersOf(refusals)
	for _, m := range members {
		devices.Add(m.Explanation, m.Nodes...)
	}
	var ranks [nodesWithoutDevices + 1][]RefusalGroup
	ranks[otherReasons] = groupReasons(refusals)
	byNode := make(map[string]*Member, len(members))
	for _, m := range members {
		byNode[m.Nodes[0]] = m
	}
	for _, g := range devices.Groups() {
		at := rank(g.Closest)
		group := RefusalGroup{
			Nodes: g.Nodes, Summary: g.Summary(), Statement: g.Statement(), Uniform: g.Uniform, Closest: g.Closest.Node, Explanation: g.Closest,
		}
		for _, node := range g.Nodes {
			if m := byNode[node]; m != nil {
				group.Members = append(group.Members, *m)
			}
		}
		group.Nodes = inOrder(refusals, group.Nodes)
		ranks[at] = append(ranks[at], group)
	}
	return slices.Concat(ranks[:]...)
}

// inOrder lists nodes in the order in which they were asked.
func inOrder(refusals []Refusal, nodes []string) []string {
	among := make(map[string]bool, len(nodes))
	for _, node := range nodes {
		among[node] = true
	}
	ordered := make([]string, 0, len(nodes))
	for i := range refusals {
		if among[refusals[i].Node] {
			ordered = append(ordered, refusals[i].Node)
		}
	}
	return ordered
}

// membersOf explains refusals, once for nodes that the allocator cannot tell apart. Pools that cannot be
// used are called by their names, so that nodes with such pools are explained each.
func membersOf(refusals []Refusal) []*Member {
	var members []*Member
	known := make(map[allocator.Equivalence]*Member)
	for i := range refusals {
		r := &refusals[i]
		if r.unsatisfiable == nil {
			continue
		}
		if m := known[r.unsatisfiable.Alike()]; m != nil {
			m.Nodes = append(m.Nodes, r.Node)
			continue
		}
		m := &Member{r.unsatisfiable.Explain(), []string{r.Node}}
		if len(m.Explanation.Pools) == 0 {
			known[r.unsatisfiable.Alike()] = m
		}
		members = append(members, m)
	}
	return members
}

// groupReasons sums up refusals for which devices are not the reason.
func groupReasons(refusals []Refusal) []RefusalGroup {
	var order []*lack
	known := make(map[string]*lack)
	for i := range refusals {
		r := &refusals[i]
		if r.unsatisfiable != nil {
			continue
		}
		of := known[r.reason.lacks]
		if of == nil {
			of = &lack{}
			known[r.reason.lacks] = of
			order = append(order, of)
		}
		of.add(r)
	}
	groups := make([]RefusalGroup, len(order))
	for i, of := range order {
		groups[i] = RefusalGroup{Nodes: of.nodes, Summary: of.String(), Lacks: of.refusals[0].reason.lacks, Uniform: of.uniform(), Closest: of.closest().Node}
	}
	slices.SortStableFunc(groups, func(a, b RefusalGroup) int { return cmp.Compare(len(b.Nodes), len(a.Nodes)) })
	return groups
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
