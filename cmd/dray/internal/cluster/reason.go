// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// reason is why a workload cannot run on a node, regardless of devices. It does not name the node,
// so that nodes with the same reason can be counted.
type reason struct {
	// lacks is a sentence about what is missing. Nodes with an equal one are aggregated.
	lacks string
	// has is what the node has instead. It is empty if lacks is enough.
	has string
	// alone is the sentence about a single node, if it differs from lacks with has.
	alone string
	// short is set if an amount is insufficient.
	short *shortage
}

// shortage is an insufficient resource of a node.
type shortage struct {
	name               corev1.ResourceName
	asked, left, total resource.Quantity
}

// because returns a reason without details of the node.
func because(lacks string) reason { return reason{lacks: lacks} }

// tooLittle returns the reason for an insufficient resource.
func tooLittle(s shortage) reason {
	return reason{lacks: fmt.Sprintf("too little %s: the pod asks for %s", s.name, s.asked.String()), short: &s}
}

func (r reason) empty() bool { return r.lacks == "" }

// String returns one sentence about a single node.
func (r reason) String() string {
	switch {
	case r.alone != "":
		return r.alone
	case r.short != nil:
		return fmt.Sprintf("%s, and %s of %s is left", r.lacks, r.short.left.String(), r.short.total.String())
	case r.has != "":
		return r.lacks + "; the node has " + r.has
	}
	return r.lacks
}

// lack is a group of nodes with the same reason.
type lack struct {
	nodes    []string
	refusals []*Refusal
}

func (l *lack) add(r *Refusal) {
	l.nodes, l.refusals = append(l.nodes, r.Node), append(l.refusals, r)
}

// uniform reports whether the same sentence applies to each of the nodes.
func (l *lack) uniform() bool {
	first := l.refusals[0].Reason()
	return !slices.ContainsFunc(l.refusals, func(r *Refusal) bool { return r.Reason() != first })
}

// closest returns the refusal of the node that has most of what is missing, or else the first one.
func (l *lack) closest() *Refusal {
	return slices.MaxFunc(l.refusals, func(a, b *Refusal) int {
		if a.reason.short == nil || b.reason.short == nil {
			return 0
		}
		return a.reason.short.left.Cmp(b.reason.short.left)
	})
}

// String returns one sentence about all of the nodes.
func (l *lack) String() string {
	first := l.refusals[0].reason
	switch {
	case l.uniform():
		return first.String()
	case first.short != nil:
		return l.amounts()
	case first.has == "":
		return first.lacks
	}
	return first.lacks + "; " + l.instead()
}

// amounts returns a phrase with the range of what is free.
func (l *lack) amounts() string {
	least := slices.MinFunc(l.refusals, func(a, b *Refusal) int { return a.reason.short.left.Cmp(b.reason.short.left) }).reason.short
	most := l.closest().reason.short
	smallest := slices.MinFunc(l.refusals, func(a, b *Refusal) int { return a.reason.short.total.Cmp(b.reason.short.total) }).reason.short
	largest := slices.MaxFunc(l.refusals, func(a, b *Refusal) int { return a.reason.short.total.Cmp(b.reason.short.total) }).reason.short
	left := between(least.left, most.left)
	if smallest.total.Cmp(largest.total) == 0 {
		left += " of " + smallest.total.String()
	}
	return fmt.Sprintf("%s, and %s is left", l.refusals[0].reason.lacks, left)
}

func between(least, most resource.Quantity) string {
	if least.Cmp(most) == 0 {
		return least.String()
	}
	return least.String() + " to " + most.String()
}

// instead returns a phrase with what the nodes have, the most frequent first.
func (l *lack) instead() string {
	const most = 4
	count := make(map[string]int)
	var order []string
	for _, r := range l.refusals {
		if count[r.reason.has] == 0 {
			order = append(order, r.reason.has)
		}
		count[r.reason.has]++
	}
	slices.SortStableFunc(order, func(a, b string) int { return count[b] - count[a] })
	var parts []string
	others := 0
	for i, has := range order {
		if i >= most {
			others += count[has]
			continue
		}
		parts = append(parts, fmt.Sprintf("%s (%d)", has, count[has]))
	}
	if others > 0 {
		parts = append(parts, fmt.Sprintf("something else (%d)", others))
	}
	return "the nodes have " + strings.Join(parts, ", ")
}
