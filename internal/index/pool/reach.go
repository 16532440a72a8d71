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

// selection is the choice of nodes of a slice or a device. Of node, all, and selector or err, the first that is
// set counts.
type selection struct {
	node     string
	all      bool
	selector *nodeaffinity.NodeSelector
	source   *corev1.NodeSelector // the origin of selector or err
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

// reach is the node selection of a ResourceSlice, with parsed selectors.
type reach struct {
	slice *resourceapi.ResourceSlice
	// selections are that of the slice and, with perDeviceNodeSelection, one for each device.
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

// reaches reports whether the slice is available on the node. With perDeviceNodeSelection, any of its devices
// must be; devices after the first available one are not evaluated. A slice without a known node selection
// reaches no node.
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

// device reports whether one device of a slice that reaches the node is available on the node.
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
