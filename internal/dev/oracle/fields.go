// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// expectedFields is the result for a placement, without share ID.
func (w *world) expectedFields(p placement) resourceapi.DeviceRequestAllocationResult {
	result := resourceapi.DeviceRequestAllocationResult{
		Request: p.want.name, Driver: p.device.id.driver, Pool: p.device.id.pool, Device: p.device.id.name,
		Tolerations:        p.want.tolerations,
		SkipNodeOperations: p.device.slice.Spec.SkipNodeOperations,
	}
	if p.want.adminAccess() {
		result.AdminAccess = ptr.To(true)
	}
	if w.c.Features.DeviceBindingAndStatus {
		result.BindingConditions = p.device.api.BindingConditions
		result.BindingFailureConditions = p.device.api.BindingFailureConditions
	}
	if w.shared(p.device) {
		result.ConsumedCapacity = make(map[resourceapi.QualifiedName]resource.Quantity)
		for name := range p.device.api.Capacity {
			result.ConsumedCapacity[name] = w.consumed(p.device, p.want, name)
		}
	}
	return result
}

func (w *world) checkConfigs(results []resourceapi.AllocationResult, chosen [][]*want) error {
	for i := range results {
		expected := w.expectedConfigs(i, chosen[i])
		if !equality.Semantic.DeepEqual(expected, results[i].Devices.Config) {
			return fmt.Errorf("claim %d: config is %+v instead of %+v", i, results[i].Devices.Config, expected)
		}
	}
	return nil
}

// expectedConfigs has the configs of each class once, by first use, then the claim's.
func (w *world) expectedConfigs(claim int, chosen []*want) []resourceapi.DeviceAllocationConfiguration {
	var configs []resourceapi.DeviceAllocationConfiguration
	for i, first := range chosen {
		sameClass := func(other *want) bool { return other.class == first.class }
		if slices.IndexFunc(chosen, sameClass) != i {
			continue
		}
		var requests []string
		for _, other := range chosen {
			if sameClass(other) {
				requests = append(requests, other.name)
			}
		}
		for _, config := range first.class.Spec.Config {
			configs = append(configs, resourceapi.DeviceAllocationConfiguration{
				Source: resourceapi.AllocationConfigSourceClass, Requests: requests, DeviceConfiguration: config.DeviceConfiguration,
			})
		}
	}
	for _, config := range w.c.Claims[claim].Spec.Devices.Config {
		if len(config.Requests) == 0 || slices.ContainsFunc(chosen, func(c *want) bool { return c.in(config.Requests) }) {
			configs = append(configs, resourceapi.DeviceAllocationConfiguration{
				Source: resourceapi.AllocationConfigSourceClaim, Requests: config.Requests, DeviceConfiguration: config.DeviceConfiguration,
			})
		}
	}
	for i := range configs {
		if !slices.ContainsFunc(chosen, func(c *want) bool { return !c.in(configs[i].Requests) }) {
			configs[i].Requests = nil
		}
	}
	return configs
}

func (w *world) checkNodeSelectors(results []resourceapi.AllocationResult, placements []placement) error {
	for i := range results {
		count := len(results[i].Devices.Results)
		expected := w.expectedNodeSelector(placements[:count])
		placements = placements[count:]
		if !equality.Semantic.DeepEqual(expected, results[i].NodeSelector) {
			return fmt.Errorf("claim %d: node selector is %v instead of %v", i, results[i].NodeSelector, expected)
		}
	}
	return nil
}

// expectedNodeSelector pins the node for a device that is local or binds to it; else
// it demands what the selectors of all devices demand, without repeats.
func (w *world) expectedNodeSelector(placements []placement) *corev1.NodeSelector {
	var term corev1.NodeSelectorTerm
	for _, p := range placements {
		node, selector := p.device.slice.Spec.NodeName, p.device.slice.Spec.NodeSelector
		if ptr.Deref(p.device.slice.Spec.PerDeviceNodeSelection, false) {
			node, selector = p.device.api.NodeName, p.device.api.NodeSelector
		}
		if node != nil || ptr.Deref(p.device.api.BindsToNode, false) {
			return oneTerm(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{
				Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{w.node.Name},
			}}})
		}
		if selector != nil {
			term.MatchFields = merge(term.MatchFields, selector.NodeSelectorTerms[0].MatchFields)
			term.MatchExpressions = merge(term.MatchExpressions, selector.NodeSelectorTerms[0].MatchExpressions)
		}
	}
	if len(term.MatchFields)+len(term.MatchExpressions) == 0 {
		return nil
	}
	return oneTerm(term)
}

func oneTerm(term corev1.NodeSelectorTerm) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}
}

func merge(requirements, more []corev1.NodeSelectorRequirement) []corev1.NodeSelectorRequirement {
	for _, requirement := range more {
		if !slices.ContainsFunc(requirements, func(r corev1.NodeSelectorRequirement) bool { return sameRequirement(r, requirement) }) {
			requirements = append(requirements, requirement)
		}
	}
	return requirements
}

// sameRequirement does not mind the order of values.
func sameRequirement(a, b corev1.NodeSelectorRequirement) bool {
	return a.Key == b.Key && a.Operator == b.Operator &&
		slices.Equal(slices.Sorted(slices.Values(a.Values)), slices.Sorted(slices.Values(b.Values)))
}
