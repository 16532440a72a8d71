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

// reason is why a workload cannot go to a node whatever devices the node has. It names no
// node, so that nodes which lack the same can be counted.
type reason struct {
	// lacks is a sentence on what is missing. It is equal for nodes that are summed up.
	lacks string
	// has is what the node has instead: empty if lacks says all.
	has string
	// alone is the sentence about one node, if it is not made of the two.
	alone string
	// short is set if it is an amount.
	short *shortage
}

// shortage is too little of a resource of a node.
type shortage struct {
	name               corev1.ResourceName
	asked, left, total resource.Quantity
}

// because is a reason without particulars of the node.
func because(lacks string) reason { return reason{lacks: lacks} }

// tooLittle is the reason if a node has too little of a resource.
func tooLittle(s shortage) reason {
	return reason{lacks: fmt.Sprintf("too little %s: the pod asks for %s", s.name, s.asked.String()), short: &s}
}

func (r reason) empty() bool { return r.lacks == "" }

// String is one sentence about one node.
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

// lack is nodes that lack the same.
type lack struct {
	nodes    []string
	refusals []*Refusal
}

func (l *lack) add(r *Refusal) {
	l.nodes, l.refusals = append(l.nodes, r.Node), append(l.refusals, r)
}

// uniform reports whether the same sentence is about each of the nodes.
func (l *lack) uniform() bool {
	first := l.refusals[0].Reason()
	return !slices.ContainsFunc(l.refusals, func(r *Refusal) bool { return r.Reason() != first })
}

// closest is the refusal of the node that has most of what is missing, or else of the first one.
func (l *lack) closest() *Refusal {
	return slices.MaxFunc(l.refusals, func(a, b *Refusal) int {
		if a.reason.short == nil || b.reason.short == nil {
			return 0
		}
		return a.reason.short.left.Cmp(b.reason.short.left)
	})
}

// String is one sentence about all of the nodes.
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

// amounts says between which amounts there is left of a resource.
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

// instead counts what the nodes have, that of most nodes first.
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
