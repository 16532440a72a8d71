package pools

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// NodeView is what one node can reach.
type NodeView struct {
	Node *corev1.Node
	// Pools are in first-fit order: by driver, then name, except that pools with
	// binding conditions come after all others, in the same order.
	Pools []PoolView
	// ByName is set if the view depends on nothing but the name of the node, and each
	// of its pools is whole: all slices of it that have devices reach the node.
	ByName bool
}

// PoolView is what one node can reach of one pool.
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

// GatherPools returns the pools which the node can reach, as an allocation for the
// node sees them. A pool is there if a slice of its highest generation, wherever
// the other slices of that generation are, reaches the node. The time it takes
// depends on the pools which may reach the node, not on the others.
//
// The error says that node is nil, or names a slice (and device) whose node
// selector has to be evaluated and does not parse.
func (s *Snapshot) GatherPools(node *corev1.Node) (*NodeView, error) {
	if node == nil {
		return nil, errors.New("node is nil")
	}
	if err := s.checkSelectors(node); err != nil {
		return nil, err
	}
	candidates := s.candidates(node.Name)
	view := &NodeView{Node: node, Pools: make([]PoolView, 0, len(candidates)), ByName: len(s.faulty) == 0}
	var binding []PoolView
	for _, pool := range candidates {
		if whole := pool.wholeView(node.Name); whole != nil && !whole.Binding {
			view.Pools = append(view.Pools, *whole)
			continue
		}
		view.ByName = false
		reaching, err := pool.reaching(node)
		if err != nil {
			return nil, err
		}
		if len(reaching) == 0 {
			continue
		}
		if seen := pool.view(node, reaching); seen.Binding {
			binding = append(binding, seen)
		} else {
			view.Pools = append(view.Pools, seen)
		}
	}
	view.Pools = append(view.Pools, binding...)
	return view, nil
}

// checkSelectors evaluates the slices of which the node selection may fail, also
// those of old generations.
func (s *Snapshot) checkSelectors(node *corev1.Node) error {
	for _, pool := range s.faulty {
		for _, reach := range pool.faulty {
			if _, err := reach.reaches(node); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Pool) view(node *corev1.Node, reaching []*Slice) PoolView {
	view := PoolView{Pool: p, Incomplete: p.Incomplete}
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

// candidates returns the pools that may reach the node, sorted.
func (s *Snapshot) candidates(node string) []*Pool {
	fixed, _ := s.byNode.Get(node)
	if len(s.roaming) == 0 {
		return fixed
	}
	candidates := slices.Concat(fixed, s.roaming)
	slices.SortFunc(candidates, func(a, b *Pool) int { return comparePools(a.ID, b.ID) })
	return slices.Compact(candidates)
}
