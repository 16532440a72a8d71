package pools

import (
	"errors"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// NodeView is what one node can reach.
type NodeView struct {
	Node *corev1.Node
	// Pools are in first-fit order: by driver, then name, except that pools with
	// binding conditions come after all others, in the same order. The list and the
	// views are shared with other callers and must not be modified.
	Pools []*PoolView

	// place is set if the name of the node alone decides what it reaches.
	place *Place
}

// Attach returns what one user keeps with all that a node reaches, for as long as nothing
// changes there. If more than the name of the node decides what it reaches, nothing is kept,
// and the result is that of build.
func (v *NodeView) Attach(build func() any) any {
	if v.place == nil {
		return build()
	}
	return v.place.Attach(build)
}

// PoolView is what one node can reach of one pool. It is immutable and may stand for
// several nodes.
type PoolView struct {
	Pool *Pool
	// Incomplete and Invalid say in words why nothing may be allocated from the
	// pool. If either is set, Devices is empty.
	Incomplete, Invalid string
	// Binding is set if a device of a slice that reaches the node lists binding
	// conditions. Never set for incomplete and invalid pools.
	Binding bool
	// Devices are those of all slices that reach the node, in first-fit order.
	Devices []NodeDevice
	// Common is set if the view is that of all nodes which the pool does not name.
	Common bool
	// Uncertain is set if there is a device with SelectorErr.
	Uncertain bool

	// here are the devices with OnNode, nil if all are.
	here   []DeviceIndex
	serial uint64
	attachment
}

// NodeDevice is a device of a slice that reaches the node.
type NodeDevice struct {
	Index DeviceIndex
	// OnNode is false if the slice leaves the choice of nodes to its devices and
	// this device is not available on the node.
	OnNode bool
	// SelectorErr is set if that cannot be said because the device's node
	// selector does not parse. It is an error only for who looks at the device.
	SelectorErr error
}

// Usable reports whether devices may be allocated from the pool.
func (v *PoolView) Usable() bool { return v.Incomplete == "" && v.Invalid == "" }

// Whole reports whether Devices are all devices of the pool, and all on the node.
func (v *PoolView) Whole() bool { return v.here == nil && len(v.Devices) == len(v.Pool.Devices) }

// Here is how many of Devices are on the node, At the index of the n-th of these.
func (v *PoolView) Here() int {
	if v.here == nil {
		return len(v.Devices)
	}
	return len(v.here)
}

// At returns the index of the n-th device that is on the node.
func (v *PoolView) At(n int) DeviceIndex {
	if v.here == nil {
		return v.Devices[n].Index
	}
	return v.here[n]
}

// Serial is a number that no other view has, in this process.
func (v *PoolView) Serial() uint64 { return v.serial }

// viewSerials counts the views ever made.
var viewSerials atomic.Uint64

// GatherPools returns the pools which the node can reach, as an allocation for the
// node sees them. A pool is there if a slice of its highest generation, wherever
// the other slices of that generation are, reaches the node. What depends on the name of
// the node alone is remembered; beyond that, the time it takes depends on the pools with
// node selectors.
//
// The error says that node is nil, or names a slice (and device) whose node
// selector has to be evaluated and does not parse.
func (s *Snapshot) GatherPools(node *corev1.Node) (NodeView, error) {
	if node == nil {
		return NodeView{}, errors.New("node is nil")
	}
	if err := s.common.checkSelectors(node); err != nil {
		return NodeView{}, err
	}
	named := s.place(node.Name)
	if len(s.common.choosy) == 0 {
		return named.NodeView(node), nil
	}
	chosen, err := s.common.chosen(node)
	if err != nil {
		return NodeView{}, err
	}
	if len(chosen) == 0 {
		return named.NodeView(node), nil
	}
	return NodeView{Node: node, Pools: join(named.views, chosen)}, nil
}

func (p *Pool) view(node *corev1.Node, reaching []*Slice) *PoolView {
	view := &PoolView{Pool: p, Incomplete: p.Incomplete, serial: viewSerials.Add(1)}
	if view.Incomplete != "" {
		return view
	}
	// A repeated name is reported before what may be wrong with the counters.
	view.Invalid = p.repeatedName(reaching)
	if view.Invalid == "" {
		view.Invalid = p.Invalid
	}
	if view.Invalid != "" {
		return view
	}
	var count int
	for _, slice := range reaching {
		count += int(slice.Count)
	}
	view.Devices = make([]NodeDevice, 0, count)
	for _, slice := range reaching {
		view.add(node, slice)
	}
	view.settle()
	return view
}

func (v *PoolView) add(node *corev1.Node, slice *Slice) {
	for i := range slice.Count {
		device := NodeDevice{Index: slice.First + DeviceIndex(i)}
		device.OnNode, device.SelectorErr = slice.reach.device(int(i), node)
		v.Devices = append(v.Devices, device)
		// The API distinguishes nil from empty nowhere else, but the order of
		// pools in Kubernetes does.
		v.Binding = v.Binding || v.Pool.Devices[device.Index].Object.BindingConditions != nil
	}
}

// settle notes which devices are on the node.
func (v *PoolView) settle() {
	here := make([]DeviceIndex, 0, len(v.Devices))
	for _, d := range v.Devices {
		if d.OnNode {
			here = append(here, d.Index)
		}
		v.Uncertain = v.Uncertain || d.SelectorErr != nil
	}
	if len(here) < len(v.Devices) {
		v.here = here
	}
}

// repeatedName returns a reason if two devices that reach the node have one name.
func (p *Pool) repeatedName(reaching []*Slice) string {
	if !p.repeats {
		return ""
	}
	seen := sets.New[string]()
	for _, slice := range reaching {
		for _, device := range p.Devices[slice.First : slice.First+DeviceIndex(slice.Count)] {
			if seen.Has(device.Object.Name) {
				return fmt.Sprintf("duplicate device name %q", device.Object.Name)
			}
			seen.Insert(device.Object.Name)
		}
	}
	return ""
}
