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

// View is what a node can reach of one pool. It is immutable, and several nodes may share it.
type View struct {
	Pool *Pool
	// Incomplete and Invalid say why nothing may be allocated from the pool. If either is set, Devices is
	// empty.
	Incomplete, Invalid string
	// Binding is set if a device of a slice that reaches the node lists binding conditions. It is never set for
	// incomplete and invalid pools.
	Binding bool
	// Devices are those of all slices that reach the node, in first-fit order. Here are those of them that are
	// on the node: with perDeviceNodeSelection, devices select nodes themselves.
	Devices, Here []DeviceIndex
	// Uncertain are errors by device, where the node selector of a device does not parse. They only matter to
	// requests that look at the device.
	Uncertain map[DeviceIndex]error
	// Serial is unique among the views of this process.
	Serial uint64

	shape.Attachment
}

// Usable reports whether devices may be allocated from the pool.
func (v *View) Usable() bool { return v.Incomplete == "" && v.Invalid == "" }

// Whole reports whether all devices of the pool are on the node.
func (v *View) Whole() bool { return len(v.Here) == len(v.Pool.Devices) }

// Common reports whether the view is that of all nodes that the pool does not name.
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

// viewSerials is the last Serial.
var viewSerials atomic.Uint64

// CompareViews orders views as first fit does: by driver, then name. Pools with binding conditions come last,
// in the same order.
func CompareViews(a, b *View) int {
	if a.Binding != b.Binding {
		if b.Binding {
			return -1
		}
		return 1
	}
	return a.Pool.ID.Compare(b.Pool.ID)
}

// MayReachOthers reports whether nodes that the slices do not name must be evaluated: a selector may match
// them, or fail. It is false for a nil pool.
func (p *Pool) MayReachOthers() bool {
	return p != nil && (p.Elsewhere != nil || p.SelectsNodes || p.CanFail())
}

// CanFail reports whether CheckSelectors returns an error for some node.
func (p *Pool) CanFail() bool { return len(p.faulty) > 0 }

// CheckSelectors returns the error of the first slice whose node selection fails, also of old generations.
func (p *Pool) CheckSelectors(node *corev1.Node) error {
	for _, reach := range p.faulty {
		if _, err := reach.reaches(node); err != nil {
			return err
		}
	}
	return nil
}

// view returns the view of a node that the slices at some positions reach.
func (p *Pool) view(node *corev1.Node, reaching []int32) *View {
	view := &View{Pool: p, Incomplete: p.Incomplete, Serial: viewSerials.Add(1)}
	if view.Incomplete != "" {
		return view
	}
	// A repeated name is reported before an error of the counters.
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
			// Kubernetes sorts pools by whether this list is nil, even if it is empty.
			view.Binding = view.Binding || p.Devices[index].Object.BindingConditions != nil
		}
	}
	return view
}

// repeatedName returns a reason if two devices that reach the node have the same name.
func (p *Pool) repeatedName(reaching []int32) string {
	if !p.hasRepeatedNames {
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
