// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// accepted are what the API server takes although its documentation permits it not. See decision 0116.
var accepted = []func(*generator){
	(*generator).lessThanNothing, (*generator).twoSlashes, (*generator).constrainTwice, (*generator).selectByTerms, (*generator).tolerateMuch, (*generator).requestStrangely,
}

// lessThanNothing has amounts below zero: capacities, what is requested of them, limits of policies, and counters.
func (g *generator) lessThanNothing() {
	below := func() resource.Quantity { return quantity(pick(g, "-1", "-2500m", "-1Gi")) }
	for _, placed := range g.placed {
		for name, capacity := range ordered(placed.device.Capacity) {
			if g.chance(0.2) {
				capacity.Value = below()
			}
			if policy := capacity.RequestPolicy; policy != nil && policy.ValidRange != nil && g.chance(0.5) {
				policy.ValidRange.Min = ptr.To(stepsBelow(policy, below()))
			}
			placed.device.Capacity[name] = capacity
		}
	}
	for _, slice := range g.c.Slices {
		for _, set := range slice.Spec.SharedCounters {
			for name := range ordered(set.Counters) {
				if g.chance(0.2) {
					set.Counters[name] = resourceapi.Counter{Value: below()}
				}
			}
		}
	}
	g.eachCapacity(func(requests map[resourceapi.QualifiedName]resource.Quantity) {
		for name := range ordered(requests) {
			if g.chance(0.4) {
				requests[name] = below()
			}
		}
	})
}

// stepsBelow is a minimum below zero from which steps reach the default.
func stepsBelow(policy *resourceapi.CapacityRequestPolicy, without resource.Quantity) resource.Quantity {
	if policy.Default == nil || policy.ValidRange.Step == nil {
		return without
	}
	least := policy.Default.DeepCopy()
	for range 100 {
		if least.Sub(*policy.ValidRange.Step); least.Sign() < 0 {
			return least
		}
	}
	return *policy.ValidRange.Min
}

// eachCapacity calls a function with what requests want of capacities. Some that want nothing want memory then.
func (g *generator) eachCapacity(do func(map[resourceapi.QualifiedName]resource.Quantity)) {
	for _, claim := range g.c.Claims {
		for i := range claim.Spec.Devices.Requests {
			request := &claim.Spec.Devices.Requests[i]
			if exactly := request.Exactly; exactly != nil {
				if exactly.Capacity == nil && g.chance(0.3) {
					exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": quantity("1Gi")}}
				}
				if exactly.Capacity != nil && exactly.Capacity.Requests != nil {
					do(exactly.Capacity.Requests)
				}
			}
			for j := range request.FirstAvailable {
				if sub := &request.FirstAvailable[j]; sub.Capacity != nil && sub.Capacity.Requests != nil {
					do(sub.Capacity.Requests)
				}
			}
		}
	}
}

// twoSlashes has names of attributes and capacities with two slashes, and constraints on them.
func (g *generator) twoSlashes() {
	names := []string{"a/b/c", gpuDriver + "/numa/x", "/numa/", "//"}
	for _, placed := range g.placed {
		for _, name := range names {
			if g.chance(0.6) && placed.device.Attributes != nil {
				placed.device.Attributes[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(g.intn(2)))}
			}
			if g.chance(0.3) && placed.device.Capacity != nil {
				placed.device.Capacity[resourceapi.QualifiedName(name)] = resourceapi.DeviceCapacity{Value: quantity("5")}
			}
		}
	}
	claim := pick(g, g.c.Claims...)
	if devices := &claim.Spec.Devices; len(devices.Requests) > 0 {
		devices.Constraints = append(devices.Constraints, g.constraint(pick(g, append(names, gpuDriver+"/a/b/c")...), nil))
	}
	g.eachCapacity(func(requests map[resourceapi.QualifiedName]resource.Quantity) {
		if g.chance(0.3) {
			requests[resourceapi.QualifiedName(pick(g, names...))] = quantity(pick(g, "1", "9"))
		}
	})
}

// constrainTwice has a constraint that wants one value of an attribute and different ones of another.
func (g *generator) constrainTwice() {
	for _, claim := range g.c.Claims {
		for i := range claim.Spec.Devices.Constraints {
			constraint := &claim.Spec.Devices.Constraints[i]
			other := ptr.To(resourceapi.FullyQualifiedName(pick(g, gpuDriver+"/numa", gpuDriver+"/model", "nothing")))
			if constraint.MatchAttribute == nil {
				constraint.MatchAttribute = other
			} else {
				constraint.DistinctAttribute = other
			}
		}
	}
}

// selectByTerms has devices with node selectors of several terms, some of them empty, or comparing what is no number.
func (g *generator) selectByTerms() {
	for _, node := range g.c.Nodes {
		node.Labels = map[string]string{"zone": pick(g, "east", "west"), "size": pick(g, "2", "5", "large")}
	}
	terms := func() (list []corev1.NodeSelectorTerm) {
		for range 1 + g.intn(3) {
			list = append(list, pick(g,
				corev1.NodeSelectorTerm{},
				corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"east"}}}},
				corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "size", Operator: corev1.NodeSelectorOpGt, Values: []string{pick(g, "3", "x")}}}},
				corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{g.otherNode()}}}},
			))
		}
		return list
	}
	for _, slice := range g.c.Slices {
		if ptr.Deref(slice.Spec.AllNodes, false) && g.chance(0.5) {
			slice.Spec.AllNodes, slice.Spec.PerDeviceNodeSelection = nil, ptr.To(true)
		}
		switch {
		case ptr.Deref(slice.Spec.PerDeviceNodeSelection, false):
			for i := range slice.Spec.Devices {
				device := &slice.Spec.Devices[i]
				device.NodeName, device.AllNodes, device.NodeSelector = nil, nil, &corev1.NodeSelector{NodeSelectorTerms: terms()}
			}
		case slice.Spec.NodeSelector != nil && g.chance(0.5):
			slice.Spec.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: terms()[:1]}
		}
	}
}

// tolerateMuch has more tolerations than the documentation permits.
func (g *generator) tolerateMuch() {
	for _, placed := range g.placed {
		if g.chance(0.3) {
			placed.device.Taints = g.taints()
		}
	}
	for _, claim := range g.c.Claims {
		for i := range claim.Spec.Devices.Requests {
			if exactly := claim.Spec.Devices.Requests[i].Exactly; exactly != nil {
				for n := range 17 + g.intn(5) {
					exactly.Tolerations = append(exactly.Tolerations, resourceapi.DeviceToleration{Key: fmt.Sprintf("k%d.example.com", n), Operator: resourceapi.DeviceTolerationOpExists})
				}
				exactly.Tolerations = append(exactly.Tolerations, resourceapi.DeviceToleration{Key: pick(g, "broken.example.com", "reserved.example.com"), Operator: resourceapi.DeviceTolerationOpExists})
			}
		}
	}
}

var strangeNames = []resourceapi.QualifiedName{"", "1.5", "a b", "/memory", "memory/", gpuDriver + "/memory", "A.b/c"}

// requestStrangely wants capacities that no device can have, by their names.
func (g *generator) requestStrangely() {
	g.eachCapacity(func(requests map[resourceapi.QualifiedName]resource.Quantity) {
		if g.chance(0.8) {
			requests[pick(g, strangeNames...)] = quantity(pick(g, "1", "-1", "0"))
		}
	})
}
