package pool

import (
	"fmt"
	"iter"
	"slices"

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
