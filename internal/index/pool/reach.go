package pool

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"
)

// selection is the choice of nodes that slices and devices have in common. The
// first that is set of node, all, and selector or err holds.
type selection struct {
	node     string
	all      bool
	selector *nodeaffinity.NodeSelector
	source   *corev1.NodeSelector // of selector or err
	err      error                // the node selector does not parse
}

func newSelection(node *string, all *bool, selector *corev1.NodeSelector) selection {
	s := selection{node: ptr.Deref(node, ""), all: ptr.Deref(all, false)}
	if s.node == "" && !s.all && selector != nil {
		s.source = selector
		if s.selector, s.err = nodeaffinity.NewNodeSelector(selector); s.err != nil {
			s.err = fmt.Errorf("nodeSelector: %w", s.err)
		}
	}
	return s
}

func (s *selection) isSet() bool { return s.node != "" || s.all || s.source != nil }

func (s *selection) matches(node *corev1.Node) (bool, error) {
	switch {
	case s.node != "":
		return s.node == node.Name, nil
	case s.all:
		return true, nil
	case s.selector != nil:
		return s.selector.Match(node), nil
	}
	return false, s.err
}

// reach is where a ResourceSlice is available, its selectors parsed.
type reach struct {
	slice *resourceapi.ResourceSlice
	own   selection
	// devices has a selection per device if the slice asks for that, else it is nil.
	devices []selection
}

func newReach(slice *resourceapi.ResourceSlice) *reach {
	r := &reach{slice: slice, own: newSelection(slice.Spec.NodeName, slice.Spec.AllNodes, slice.Spec.NodeSelector)}
	if ptr.Deref(slice.Spec.PerDeviceNodeSelection, false) {
		r.devices = make([]selection, len(slice.Spec.Devices))
		for i := range r.devices {
			device := &slice.Spec.Devices[i]
			r.devices[i] = newSelection(device.NodeName, device.AllNodes, device.NodeSelector)
		}
	}
	return r
}

// selections lists that of the slice and those of its devices.
func (r *reach) selections() iter.Seq[*selection] {
	return func(yield func(*selection) bool) {
		if !yield(&r.own) {
			return
		}
		for i := range r.devices {
			if !yield(&r.devices[i]) {
				return
			}
		}
	}
}

// reaches reports whether the slice or, if it leaves the choice to its devices,
// any device is available on the node. Devices after the first available one are
// not looked at. A slice that chooses in no known way reaches no node.
func (r *reach) reaches(node *corev1.Node) (bool, error) {
	if r.own.isSet() {
		match, err := r.own.matches(node)
		if err != nil {
			return false, fmt.Errorf("resource slice %s: %w", r.slice.Name, err)
		}
		return match, nil
	}
	for i := range r.devices {
		if match, err := r.device(i, node); match || err != nil {
			return match, err
		}
	}
	return false, nil
}

// device reports whether one device of a reaching slice is available on the node.
func (r *reach) device(i int, node *corev1.Node) (bool, error) {
	if r.devices == nil {
		return true, nil
	}
	match, err := r.devices[i].matches(node)
	if err != nil {
		return false, fmt.Errorf("resource slice %s: device %s: %w", r.slice.Name, r.slice.Spec.Devices[i].Name, err)
	}
	return match, nil
}

// canFail reports whether reaches returns an error for some node.
func (r *reach) canFail() bool {
	if r.own.isSet() {
		return r.own.err != nil
	}
	return slices.ContainsFunc(r.devices, func(s selection) bool { return s.err != nil })
}

// choosy reports whether more than the name of a node decides whether the slice reaches it, and
// which of its devices do.
func (r *reach) choosy() bool {
	for s := range r.selections() {
		if s.source != nil {
			return true
		}
	}
	return false
}

// routes find the slices that reach a node of a name without looking at the others, if names are
// all that decides.
type routes struct {
	// named has the slices that reach nodes by name, sorted by node, then slice.
	named []namedSlice
	// roaming are the slices that reach all nodes, or have devices that do, ascending.
	roaming []int32
}

// namedSlice says that a node can reach the slice with that position in Pool.Slices.
type namedSlice struct {
	node  string
	slice int32
}

func newRoutes(all []*Slice) routes {
	var r routes
	for i, slice := range all {
		position, roams := int32(i), false
		for s := range slice.reach.selections() {
			if s.node != "" {
				r.named = append(r.named, namedSlice{node: s.node, slice: position})
			}
			roams = roams || s.all
			if s == &slice.reach.own && s.isSet() {
				break // devices choose only among the nodes that the slice reaches
			}
		}
		if roams {
			r.roaming = append(r.roaming, position)
		}
	}
	slices.SortFunc(r.named, func(a, b namedSlice) int {
		return cmp.Or(strings.Compare(a.node, b.node), cmp.Compare(a.slice, b.slice))
	})
	r.named = slices.Clip(slices.Compact(r.named))
	return r
}

// Nodes lists the names of the nodes that are reached by name, once each. There are none if the
// pool is Choosy.
func (p *Pool) Nodes() iter.Seq[string] {
	named := p.routes.named
	return func(yield func(string) bool) {
		for i := range named {
			if (i == 0 || named[i-1].node != named[i].node) && !yield(named[i].node) {
				return
			}
		}
	}
}

// to returns the positions of the slices that reach a node of that name, ascending.
func (r *routes) to(node string) []int32 {
	first, _ := slices.BinarySearchFunc(r.named, node, func(n namedSlice, node string) int {
		return strings.Compare(n.node, node)
	})
	positions := slices.Clone(r.roaming)
	for _, n := range r.named[first:] {
		if n.node != node {
			break
		}
		positions = append(positions, n.slice)
	}
	slices.Sort(positions)
	return slices.Compact(positions)
}
