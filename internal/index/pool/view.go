// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"cmp"
	"fmt"
	"iter"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/dray-project/dray/internal/index/shape"
)

// View is what one node can reach of one pool. It is immutable and may stand for
// several nodes.
type View struct {
	Pool *Pool
	// Incomplete and Invalid say in words why nothing may be allocated from the
	// pool. If either is set, Devices is empty.
	Incomplete, Invalid string
	// Binding is set if a device of a slice that reaches the node lists binding
	// conditions. Never set for incomplete and invalid pools.
	Binding bool
	// Devices are those of all slices that reach the node, in first-fit order. Here are those of them
	// that are on the node: a slice may leave the choice of nodes to its devices.
	Devices, Here []DeviceIndex
	// Uncertain has the devices of which that cannot be said because their node selectors do not
	// parse. It is an error only for who looks at the device.
	Uncertain map[DeviceIndex]error
	// Serial is a number that no other view has, in this process.
	Serial uint64

	shape.Attachment
}

// Usable reports whether devices may be allocated from the pool.
func (v *View) Usable() bool { return v.Incomplete == "" && v.Invalid == "" }

// Whole reports whether Devices are all devices of the pool, and all on the node.
func (v *View) Whole() bool { return len(v.Here) == len(v.Pool.Devices) }

// Common reports whether the view is that of all nodes which the pool does not name.
func (v *View) Common() bool { return v == v.Pool.Elsewhere }

// All lists Devices, and whether each is on the node.
func (v *View) All() iter.Seq2[DeviceIndex, bool] {
	return func(yield func(DeviceIndex, bool) bool) {
		here := v.Here
		for _, i := range v.Devices {
			onNode := len(here) > 0 && here[0] == i
			if onNode {
				here = here[1:]
			}
			if !yield(i, onNode) {
				return
			}
		}
	}
}

// viewSerials counts the views ever made.
var viewSerials atomic.Uint64

// CompareViews compares by first-fit order: by driver, then name, except that pools with binding
// conditions come after all others, in the same order.
func CompareViews(a, b *View) int {
	if a.Binding != b.Binding {
		if b.Binding {
			return -1
		}
		return 1
	}
	return a.Pool.ID.Compare(b.Pool.ID)
}

// MayReachOthers reports whether nodes that the slices do not name have to be asked about: a selector may match them, or fail on
// them. A nil pool has no such nodes.
func (p *Pool) MayReachOthers() bool {
	return p != nil && (p.Elsewhere != nil || p.SelectsNodes || p.CanFail())
}

// CanFail reports whether CheckSelectors returns an error for some node.
func (p *Pool) CanFail() bool { return len(p.faulty) > 0 }

// CheckSelectors evaluates the slices of which the node selection may fail, also those of
// old generations.
func (p *Pool) CheckSelectors(node *corev1.Node) error {
	for _, reach := range p.faulty {
		if _, err := reach.reaches(node); err != nil {
			return err
		}
	}
	return nil
}

// view is that of a node which the slices at these positions reach.
func (p *Pool) view(node *corev1.Node, reaching []int32) *View {
	view := &View{Pool: p, Incomplete: p.Incomplete, Serial: viewSerials.Add(1)}
	if view.Incomplete != "" {
		return view
	}
	// A repeated name is reported before what may be wrong with the counters.
	view.Invalid = cmp.Or(p.repeatedName(reaching), p.Invalid)
	if view.Invalid != "" {
		return view
	}
	var count int
	for _, position := range reaching {
		count += int(p.Slices[position].Count)
	}
	view.Devices, view.Here = make([]DeviceIndex, 0, count), make([]DeviceIndex, 0, count)
	for _, position := range reaching {
		slice := p.Slices[position]
		for i := range slice.Count {
			index := slice.First + DeviceIndex(i)
			view.Devices = append(view.Devices, index)
			switch onNode, err := slice.reach.device(int(i), node); {
			case err != nil && view.Uncertain == nil:
				view.Uncertain = map[DeviceIndex]error{index: err}
			case err != nil:
				view.Uncertain[index] = err
			case onNode:
				view.Here = append(view.Here, index)
			}
			// The API distinguishes nil from empty nowhere else, but the order of
			// pools in Kubernetes does.
			view.Binding = view.Binding || p.Devices[index].Object.BindingConditions != nil
		}
	}
	return view
}

// repeatedName returns a reason if two devices that reach the node have one name.
func (p *Pool) repeatedName(reaching []int32) string {
	if !p.repeats {
		return ""
	}
	seen := sets.New[string]()
	for _, position := range reaching {
		slice := p.Slices[position]
		for _, device := range p.Devices[slice.First : slice.First+DeviceIndex(slice.Count)] {
			if seen.Has(device.Object.Name) {
				return fmt.Sprintf("duplicate device name %q", device.Object.Name)
			}
			seen.Insert(device.Object.Name)
		}
	}
	return ""
}
