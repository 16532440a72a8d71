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

// Refusal says why a workload cannot be placed on a node.
type Refusal struct {
	Node string
	// Undecided says that the search ended without a result.
	Undecided bool

	reason        *reason                  // nil if devices are the reason
	unsatisfiable *allocator.Unsatisfiable // nil if devices are not the reason
}

// Reason returns one sentence. It is empty if devices are the reason.
func (r *Refusal) Reason() string {
	if r.reason == nil {
		return ""
	}
	return r.reason.String()
}

// RefusalGroup is a group of nodes that are refused for the same reason.
type RefusalGroup struct {
	// Nodes are in the order in which they were asked.
	Nodes []string
	// Summary is one sentence. If devices are the reason and the group is not Uniform, it is about
	// the node Closest.
	Summary string
	// Lacks is Summary without amounts, and without what nodes have instead. It is empty if devices
	// are the reason.
	Lacks string
	// Statement introduces the explanation.
	Statement string
	// Uniform says that all figures of Summary are equal on all nodes.
	Uniform bool
	// Closest is the node that comes closest to fitting.
	Closest string
	// Explanation is the explanation for Closest. It is nil if devices are not the reason.
	Explanation *explain.Explanation
	// Members are groups of nodes by explanation. They are empty if devices are not the reason.
	// Closest is the first node of its member.
	Members []Member
}

// Member is a group of nodes whose explanations differ only in names. Explanation is that of the
// first node.
type Member struct {
	Explanation *explain.Explanation
	Nodes       []string
}

// Kind is equal for groups of the same nodes that refuse pods with equal requests for the same
// reasons. It does not include figures.
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

// GroupRefusals aggregates refusals, the closest first. First come nodes with devices that a
// request could have, in the order of an explain.Grouping. Then come nodes refused for other
// reasons than devices, the largest group first. Then come nodes without a device of a requested
// class, and last nodes without devices.
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

// inOrder returns the nodes in the order in which they were asked.
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

// membersOf returns the explanations of refusals, once for nodes that are equal to the allocator.
// Nodes with unusable pools get one each, because the explanation names the pools.
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

// groupReasons aggregates refusals for other reasons than devices.
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

// Ranks of groups, the closest first.
const (
	nodesWithDevices = iota
	otherReasons
	nodesOfOtherClasses
	nodesWithoutDevices
)

func rank(e *explain.Explanation) int {
	switch {
	case len(e.Pools) > 0:
		return nodesWithDevices // the devices cannot be used yet
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

// nothingOfClass reports whether the node has no device of a request's class, or of the class of
// any of its alternatives.
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
