// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"reflect"
	"slices"
)

// Delta is the difference between two pictures of one source. Removed entries are null.
type Delta struct {
	From     int64             `json:"from"`
	Revision int64             `json:"revision"`
	Time     string            `json:"time"`
	Nodes    map[string]*Node  `json:"nodes,omitempty"` // by name
	Pools    map[string]*Pool  `json:"pools,omitempty"` // by driver/name
	Claims   map[string]*Claim `json:"claims,omitempty"`
	// Shapes are appended to the earlier ones.
	Shapes []Shape `json:"shapes,omitempty"`
	// Waiting and Notes are complete lists, if they differ.
	Waiting *[]Waiting `json:"waiting,omitempty"`
	Notes   *[]string  `json:"notes,omitempty"`
}

// Compare returns the difference between two pictures. It returns nil if they cannot be compared,
// so that the later one must be sent completely.
func Compare(before, after *Picture) *Delta {
	shared := len(before.Shapes)
	if len(after.Shapes) < shared || !reflect.DeepEqual(before.Shapes, after.Shapes[:shared]) {
		return nil
	}
	d := &Delta{
		From: before.Revision, Revision: after.Revision, Time: after.Time, Shapes: after.Shapes[shared:],
		Nodes: changed(byName(before.Nodes, nodeName), byName(after.Nodes, nodeName)),
		Pools: changed(byName(before.Pools, poolName), byName(after.Pools, poolName)),
	}
	d.Claims = changed(pointers(before.Claims), pointers(after.Claims))
	if !reflect.DeepEqual(before.Waiting, after.Waiting) {
		d.Waiting = &after.Waiting
	}
	if !slices.Equal(before.Notes, after.Notes) {
		d.Notes = &after.Notes
	}
	return d
}

// Empty reports whether the page shows no difference.
func (d *Delta) Empty() bool {
	return len(d.Nodes)+len(d.Pools)+len(d.Claims)+len(d.Shapes) == 0 && d.Waiting == nil && d.Notes == nil
}

func nodeName(n *Node) string { return n.Name }

func poolName(p *Pool) string { return p.Driver + "/" + p.Name }

func byName[T any](list []T, name func(*T) string) map[string]*T {
	index := make(map[string]*T, len(list))
	for i := range list {
		index[name(&list[i])] = &list[i]
	}
	return index
}

func pointers(claims map[string]Claim) map[string]*Claim {
	index := make(map[string]*Claim, len(claims))
	for key, claim := range claims {
		index[key] = &claim
	}
	return index
}

// shown returns a part without what the page does not show.
func shown(part any) any {
	if node, isNode := part.(*Node); isNode {
		seen := *node
		seen.pools = nil // indexes are valid for one picture only
		return &seen
	}
	return part
}

func changed[T any](before, after map[string]*T) map[string]*T {
	parts := make(map[string]*T)
	for name, now := range after {
		if then := before[name]; then == nil || !reflect.DeepEqual(shown(then), shown(now)) {
			parts[name] = now
		}
	}
	for name := range before {
		if after[name] == nil {
			parts[name] = nil
		}
	}
	return parts
}
