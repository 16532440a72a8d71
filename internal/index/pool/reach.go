// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"
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
	// selections are its own and, if it asks for that, one per device.
	selections []selection
}

func newReach(slice *resourceapi.ResourceSlice) *reach {
	spec := &slice.Spec
	r := &reach{slice, []selection{newSelection(spec.NodeName, spec.AllNodes, spec.NodeSelector)}}
	if ptr.Deref(spec.PerDeviceNodeSelection, false) {
		r.selections = slices.Grow(r.selections, len(spec.Devices))
		for i := range spec.Devices {
			device := &spec.Devices[i]
			r.selections = append(r.selections, newSelection(device.NodeName, device.AllNodes, device.NodeSelector))
		}
	}
	return r
}

// reaches reports whether the slice or, if it leaves the choice to its devices,
// any device is available on the node. Devices after the first available one are
// not looked at. A slice that chooses in no known way reaches no node.
func (r *reach) reaches(node *corev1.Node) (bool, error) {
	if own := &r.selections[0]; own.isSet() {
		match, err := own.matches(node)
		if err != nil {
			return false, &NamedError{Text: fmt.Sprintf("ResourceSlice %s: %v", r.slice.Name, err), General: fmt.Sprintf("a ResourceSlice: %v", err), Err: err}
		}
		return match, nil
	}
	for i := range r.selections[1:] {
		if match, err := r.device(i, node); match || err != nil {
			return match, err
		}
	}
	return false, nil
}

// device reports whether one device of a reaching slice is available on the node.
func (r *reach) device(i int, node *corev1.Node) (bool, error) {
	if len(r.selections) == 1 {
		return true, nil
	}
	match, err := r.selections[1+i].matches(node)
	if err != nil {
		return false, &NamedError{
			Text:    fmt.Sprintf("ResourceSlice %s: device %s: %v", r.slice.Name, r.slice.Spec.Devices[i].Name, err),
			General: fmt.Sprintf("a ResourceSlice: a device: %v", err), Err: err,
		}
	}
	return match, nil
}

// canFail reports whether reaches returns an error for some node.
func (r *reach) canFail() bool {
	if own := &r.selections[0]; own.isSet() {
		return own.err != nil
	}
	return slices.ContainsFunc(r.selections[1:], func(s selection) bool { return s.err != nil })
}
