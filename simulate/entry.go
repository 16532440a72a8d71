// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/simulate/internal/onenode"
)

// podEntry is a pod on a node. The entries of a node are a list, newest first.
type podEntry struct {
	before *podEntry
	// origin is the entry of which this is a copy, in a list that was made anew. It is nil for the first.
	origin *podEntry
	pod    *corev1.Pod
	kind   *podKind // nil for pods that ran when the cluster was read, until somebody asks
	// taken is what claims of the pod alone hold, claims are the others.
	taken  *onenode.Taken
	claims []int32
	// joins is set if the pod shares a claim, or its claims may hold devices of other nodes.
	joins bool
}

// nothing is what pods have taken that have no claims of their own, or ran when the cluster was read.
var nothing = new(onenode.Taken)

// list returns the pods of a node in the order in which they came.
func (e *podEntry) list() []*podEntry {
	var list []*podEntry
	for ; e != nil; e = e.before {
		list = append(list, e)
	}
	slices.Reverse(list)
	return list
}

// identity is the same for all copies of an entry.
func (e *podEntry) identity() *podEntry { return cmp.Or(e.origin, e) }

// ahead returns a copy of the entry that comes next to others in a list.
func (e *podEntry) ahead(before *podEntry) *podEntry {
	again := *e
	again.before, again.origin = before, e.identity()
	return &again
}

// identities are those of the entries of a list.
func (e *podEntry) identities() map[*podEntry]bool {
	set := make(map[*podEntry]bool)
	for ; e != nil; e = e.before {
		set[e.identity()] = true
	}
	return set
}

// without returns the list without some entries, which are given by their identity.
func (e *podEntry) without(gone func(*podEntry) bool) *podEntry {
	var newer []*podEntry
	rest := e // what stays as it is
	for entry := e; entry != nil; entry = entry.before {
		if !gone(entry.identity()) {
			continue
		}
		for kept := rest; kept != entry; kept = kept.before {
			newer = append(newer, kept)
		}
		rest = entry.before
	}
	for _, entry := range slices.Backward(newer) {
		rest = entry.ahead(rest)
	}
	return rest
}
