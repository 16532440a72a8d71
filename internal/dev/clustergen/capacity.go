// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// capacityKind is a capacity that devices may have, its possible sizes, what a
// request may ask for and the policies a shared device may set on it.
type capacityKind struct {
	name     resourceapi.QualifiedName
	chance   float64
	values   []string
	requests []string
	policies []resourceapi.CapacityRequestPolicy
}

var capacityKinds = []capacityKind{
	{
		name: "memory", chance: 0.85,
		values:   []string{"4Gi", "8Gi", "16Gi"},
		requests: []string{"0", "512Mi", "1Gi", "2Gi", "3Gi", "4Gi", "5Gi", "20Gi"},
		policies: []resourceapi.CapacityRequestPolicy{
			validValues("1Gi", "1Gi", "2Gi", "4Gi"),
			validValues("2Gi", "1Gi", "2Gi"),
			validRange("1Gi", "1Gi", "4Gi", "1Gi"),
			validRange("2Gi", "1Gi", "", ""),
			{Default: quantityPtr("1Gi")},
			{},
		},
	},
	{
		name: "bandwidth", chance: 0.6,
		values:   []string{"8", "10", "12"},
		requests: []string{"0", "250m", "1", "1500m", "2", "3", "3500m", "8", "11"},
		policies: []resourceapi.CapacityRequestPolicy{
			validRange("1", "500m", "4", "500m"),
			validRange("500m", "500m", "", "250m"),
			validRange("2", "0", "8", "2"),
			validRange("1", "1", "", "3"),
			validRange("3", "1", "6", ""),
			validValues("1", "500m", "1", "2500m", "5"),
		},
	},
	{
		name: "cores", chance: 0.2,
		values:   []string{"4"},
		requests: []string{"1", "2", "4"},
		policies: []resourceapi.CapacityRequestPolicy{{Default: quantityPtr("0")}, {Default: quantityPtr("1")}},
	},
	{
		// Sums do not fit into 64 bits.
		name: "bytes", chance: 0.1,
		values:   []string{"8E", "9E"},
		requests: []string{"0", "4E", "5E", "8E"},
		policies: []resourceapi.CapacityRequestPolicy{{Default: quantityPtr("4E")}},
	},
}

func quantity(s string) resource.Quantity { return resource.MustParse(s) }

func quantityPtr(s string) *resource.Quantity { return ptr.To(resource.MustParse(s)) }

func validValues(standard string, values ...string) resourceapi.CapacityRequestPolicy {
	policy := resourceapi.CapacityRequestPolicy{Default: quantityPtr(standard)}
	for _, value := range values {
		policy.ValidValues = append(policy.ValidValues, quantity(value))
	}
	return policy
}

// validRange leaves out max and step if empty.
func validRange(standard, low, high, step string) resourceapi.CapacityRequestPolicy {
	limits := &resourceapi.CapacityRequestPolicyRange{Min: quantityPtr(low)}
	if high != "" {
		limits.Max = quantityPtr(high)
	}
	if step != "" {
		limits.Step = quantityPtr(step)
	}
	return resourceapi.CapacityRequestPolicy{Default: quantityPtr(standard), ValidRange: limits}
}

func (g *generator) addCapacity(device *resourceapi.Device) {
	shared := g.chance(0.65)
	if shared {
		device.AllowMultipleAllocations = ptr.To(true)
	}
	device.Capacity = make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity)
	for _, kind := range capacityKinds {
		if !g.chance(kind.chance) {
			continue
		}
		capacity := resourceapi.DeviceCapacity{Value: quantity(pick(g, kind.values...))}
		if shared && g.chance(0.6) {
			// Policies need allowMultipleAllocations.
			policy := pick(g, kind.policies...)
			capacity.RequestPolicy = policy.DeepCopy()
		}
		device.Capacity[kind.name] = capacity
	}
}

// capacityRequests asks for one or two capacities; rarely for one no device has.
func (g *generator) capacityRequests() *resourceapi.CapacityRequirements {
	requests := make(map[resourceapi.QualifiedName]resource.Quantity)
	for _, kind := range capacityKinds {
		if g.chance(0.7 * kind.chance) {
			requests[kind.name] = quantity(pick(g, kind.requests...))
		}
	}
	if g.chance(0.03) {
		requests["missing"] = quantity("1")
	}
	return &resourceapi.CapacityRequirements{Requests: requests}
}
