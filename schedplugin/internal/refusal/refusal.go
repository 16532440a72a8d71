// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/dray-project/dray/allocator"
)

// Reasons that are not in an explanation.
const (
	SetAside  = "the devices that are free are set aside for pods which are nominated to the node"
	Undecided = "the search for devices was given up after as many steps as it may take"
	Timeout   = "the search for devices took too long"
	// Unexplained is known, but not why: finding out takes a search of its own.
	Unexplained = "the node does not have the devices"
	Error       = "the devices of the node cannot be judged"
	// Short begins what is said of resources such as CPU that devices take of their node.
	Short = "resources of the node that devices stand for: "
	Other = "the node does not have the devices, for one of many reasons"
)

// maxReasons is how many different reasons are given for the nodes of a cluster.
const maxReasons = 16

// Refusal is why nodes do not have the devices that nothing tells apart for the pod.
type Refusal struct {
	// Reason is short and names no node, pool or device.
	Reason string
	// Example of the nodes has this answer. It is explained when no node has the devices. Nil if
	// the reason says it all.
	Example *allocator.Unsatisfiable
	Nodes   []string
}

// NodeRefusals collects why nodes are refused for one pod. It is safe for concurrent use.
type NodeRefusals struct {
	mu       sync.Mutex
	refusals map[key]*Refusal
	// reasons are what was said so far.
	reasons sets.Set[string]
}

// key tells refusals apart: what was asked for, and what is equal for nodes that are alike.
type key struct{ asked, alike any }

// NewNodeRefusals has no refusals.
func NewNodeRefusals() *NodeRefusals {
	return &NodeRefusals{refusals: make(map[key]*Refusal), reasons: sets.New[string]()}
}

// Add records a node that is refused for a reason which says it all, or for a more general
// one if there are too many already. It returns the reason. Asked is what was asked for, the
// same for all nodes of a kind. The node is empty if the question was what would be.
func (b *NodeRefusals) Add(asked any, reason, general, node string) string {
	reason = b.limitReasons(reason, general)
	return b.add(key{asked, reason}, &Refusal{Reason: reason}, node).Reason
}

// AddKnown counts a node that is like one that was refused before, and returns the reason. Alike is
// what the answers of such nodes have in common.
func (b *NodeRefusals) AddKnown(asked, alike any, node string) (reason string, known bool) {
	if known := b.add(key{asked, alike}, nil, node); known != nil {
		return known.Reason, true
	}
	return "", false
}

// AddAnswer records a node, and all that are alike, for the answer that it has. It returns the
// reason.
func (b *NodeRefusals) AddAnswer(asked any, none *allocator.Unsatisfiable, alike any, reason, node string) string {
	return b.add(key{asked, alike}, &Refusal{Reason: b.limitReasons(reason, Other), Example: none}, node).Reason
}

// add adds a node to those that were refused alike, for what was found about it unless somebody found that out before. It
// returns nil if nothing was found out.
func (b *NodeRefusals) add(at key, found *Refusal, node string) *Refusal {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.refusals[at]
	if known == nil && found != nil {
		known, b.refusals[at] = found, found
	}
	if known != nil && node != "" {
		known.Nodes = append(known.Nodes, node)
	}
	return known
}

// limitReasons returns a reason, or the general one if there are too many already.
func (b *NodeRefusals) limitReasons(reason, general string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.reasons.Has(reason) && b.reasons.Len() >= maxReasons {
		return general
	}
	b.reasons.Insert(reason)
	return reason
}

// List returns the refusals so far, in an order that is the same each time, each with its nodes
// in the order of their names.
func (b *NodeRefusals) List() []*Refusal {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []*Refusal
	for _, r := range b.refusals {
		if len(r.Nodes) > 0 {
			slices.Sort(r.Nodes)
			r.Nodes = slices.Compact(r.Nodes) // the nominated node is looked at twice
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *Refusal) int { return cmp.Compare(a.Nodes[0], b.Nodes[0]) })
	return list
}
