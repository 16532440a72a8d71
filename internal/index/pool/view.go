package pool

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// Devices are those of all slices that reach the node, in first-fit order.
	Devices []NodeDevice
	// Common is set if the view is that of all nodes which the pool does not name.
	Common bool
	// Uncertain is set if there is a device with SelectorErr.
	Uncertain bool

	// here are the devices with OnNode, nil if all are. If in addition they follow each other in the
	// pool, consecutive is set: then the first one tells the others.
	here        []DeviceIndex
	consecutive bool
	first       DeviceIndex
	serial      uint64
	shape.Attachment
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
func (v *View) Usable() bool { return v.Incomplete == "" && v.Invalid == "" }

// Whole reports whether Devices are all devices of the pool, and all on the node.
func (v *View) Whole() bool { return v.here == nil && len(v.Devices) == len(v.Pool.Devices) }

// Here is how many of Devices are on the node, At the index of the n-th of these.
func (v *View) Here() int {
	if v.here == nil {
		return len(v.Devices)
	}
	return len(v.here)
}

// At returns the index of the n-th device that is on the node.
func (v *View) At(n int) DeviceIndex {
	if v.consecutive {
		return v.first + DeviceIndex(n)
	}
	if v.here == nil {
		return v.Devices[n].Index
	}
	return v.here[n]
}

// Serial is a number that no other view has, in this process.
func (v *View) Serial() uint64 { return v.serial }

// viewSerials counts the views ever made.
var viewSerials atomic.Uint64

// Named is the view of a node of that name, of which nothing else matters: the pool must
// not be Choosy.
func (p *Pool) Named(node string) *View {
	return p.view(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, p.routes.to(node))
}

// Elsewhere is the view of nodes which the pool does not name, if it is Everywhere.
func (p *Pool) Elsewhere() *View { return p.elsewhere }

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

// Choosy reports whether more than the name of a node decides whether it reaches the
// pool, and what of it.
func (p *Pool) Choosy() bool { return p.choice != nil }

// Everywhere reports whether nodes reach the pool that it does not name, whatever they are.
func (p *Pool) Everywhere() bool { return p.elsewhere != nil }

// CanFail reports whether CheckSelectors returns an error for some node.
func (p *Pool) CanFail() bool { return len(p.faulty) > 0 }

// Roams reports whether the pool concerns nodes that it does not name. A nil pool does not.
func (p *Pool) Roams() bool { return p != nil && (p.Everywhere() || p.Choosy() || p.CanFail()) }

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
	view := &View{Pool: p, Incomplete: p.Incomplete, serial: viewSerials.Add(1)}
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
	view.Devices = make([]NodeDevice, 0, count)
	here := make([]DeviceIndex, 0, count)
	for _, position := range reaching {
		slice := p.Slices[position]
		for i := range slice.Count {
			device := NodeDevice{Index: slice.First + DeviceIndex(i)}
			device.OnNode, device.SelectorErr = slice.reach.device(int(i), node)
			view.Devices = append(view.Devices, device)
			if device.OnNode {
				here = append(here, device.Index)
			}
			view.Uncertain = view.Uncertain || device.SelectorErr != nil
			// The API distinguishes nil from empty nowhere else, but the order of
			// pools in Kubernetes does.
			view.Binding = view.Binding || p.Devices[device.Index].Object.BindingConditions != nil
		}
	}
	if len(here) < len(view.Devices) {
		view.here = here
	} else if count > 0 {
		view.first = here[0]
		view.consecutive = here[count-1]-here[0] == DeviceIndex(count-1)
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

// Helpful reports whether what is in use of a device may make something obtainable: further
// shares of it do not pay what it draws on counters, or it gives back more than it takes.
func (v *View) Helpful() bool {
	for _, d := range v.Devices {
		device := &v.Pool.Devices[d.Index]
		if device.Multiple && len(device.Uses) > 0 || slices.ContainsFunc(device.Uses, func(u CounterUse) bool { return u.Amount.Sign() < 0 }) {
			return true
		}
	}
	return false
}

// Optional reports whether something depends on which features the node declares.
func (v *View) Optional() bool {
	for _, d := range v.Devices {
		if len(v.Pool.Devices[d.Index].Slice.Object.Spec.SkipNodeOperations) > 0 {
			return true
		}
	}
	return false
}
