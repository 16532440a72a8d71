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

// Reasons that are not made from an explanation.
const (
	SetAside  = "the devices that are free are set aside for pods which are nominated to the node"
	Undecided = "the search for devices was given up after as many steps as it may take"
	Timeout   = "the search for devices took too long"
	// Unexplained is a node without the devices, where finding out why failed.
	Unexplained = "the node does not have the devices"
	Error       = "the devices of the node cannot be judged"
	// Short is the prefix of reasons about resources such as CPU that devices take of their node.
	Short = "resources of the node that devices stand for: "
	Other = "the node does not have the devices, for one of many reasons"
)

// maxReasons is the largest number of different reasons for one pod.
const maxReasons = 16

// Refusal is one reason for nodes that are equivalent for the pod.
type Refusal struct {
	// Reason is short, and contains no name of a node, pool or device.
	Reason string
	// Example is the answer of one of the nodes, for the explanation in an Event. Nil if the reason needs
	// none.
	Example *allocator.Unsatisfiable
	Nodes   []string
}

// NodeRefusals collects for which reasons nodes are refused for one pod. It is safe for concurrent use.
type NodeRefusals struct {
	mu       sync.Mutex
	refusals map[key]*Refusal
	// reasons are the different reasons so far.
	reasons sets.Set[string]
}

// key identifies a refusal: by what was asked for, and the equivalence class of the answer or the reason.
type key struct{ asked, alike any }

// NewNodeRefusals returns an empty collection.
func NewNodeRefusals() *NodeRefusals {
	return &NodeRefusals{refusals: make(map[key]*Refusal), reasons: sets.New[string]()}
}

// Add records a node that is refused for a reason without an explanation. If there are too many reasons, it
// uses the general one. It returns the reason. Asked is what was asked for, the same pointer for all nodes
// with one variant. The node is empty in a what-if.
func (b *NodeRefusals) Add(asked any, reason, general, node string) string {
	reason = b.limitReasons(reason, general)
	return b.add(key{asked, reason}, &Refusal{Reason: reason}, node).Reason
}

// AddKnown records a node whose equivalence class was refused before, and returns the reason. Alike
// identifies the class.
func (b *NodeRefusals) AddKnown(asked, alike any, node string) (reason string, known bool) {
	if known := b.add(key{asked, alike}, nil, node); known != nil {
		return known.Reason, true
	}
	return "", false
}

// AddAnswer records the first node of an equivalence class with its answer. It returns the reason.
func (b *NodeRefusals) AddAnswer(asked any, none *allocator.Unsatisfiable, alike any, reason, node string) string {
	return b.add(key{asked, alike}, &Refusal{Reason: b.limitReasons(reason, Other), Example: none}, node).Reason
}

// add adds a node to a refusal, and adds the refusal if it is new. It returns nil if it is not known and
// found is nil.
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

// limitReasons returns the reason, or the general one if there are too many.
func (b *NodeRefusals) limitReasons(reason, general string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.reasons.Has(reason) && b.reasons.Len() >= maxReasons {
		return general
	}
	b.reasons.Insert(reason)
	return reason
}

// List returns the refusals in a stable order, each with its nodes in alphabetical order.
func (b *NodeRefusals) List() []*Refusal {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []*Refusal
	for _, r := range b.refusals {
		if len(r.Nodes) > 0 {
			slices.Sort(r.Nodes)
			r.Nodes = slices.Compact(r.Nodes) // Filter runs twice for the nominated node
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *Refusal) int { return cmp.Compare(a.Nodes[0], b.Nodes[0]) })
	return list
}
