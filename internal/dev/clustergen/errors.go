// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// addError makes the case one that is answered with an error as soon as the search
// comes across it.
func (g *generator) addError() {
	claim := g.c.Claims[g.intn(len(g.c.Claims))]
	if len(claim.Spec.Devices.Requests) == 0 {
		return
	}
	i := g.intn(len(claim.Spec.Devices.Requests))
	request := &claim.Spec.Devices.Requests[i]
	request.FirstAvailable = nil
	if request.Exactly == nil {
		request.Exactly = g.exactly(classOf(g.drivers[0]))
	}
	switch g.intn(12) {
	case 0, 1, 2:
		g.failSelector(request.Exactly)
	case 3:
		g.c.Classes[g.intn(len(g.c.Classes))].Spec.Selectors = []resourceapi.DeviceSelector{selector(g.failing())}
	case 4, 5:
		g.failDerived(claim, request)
	case 6:
		request.Exactly.DeviceClassName = "missing"
	case 7:
		claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, resourceapi.DeviceConstraint{})
	case 8:
		request.Exactly.Selectors = append(request.Exactly.Selectors, resourceapi.DeviceSelector{})
	case 9:
		request.Exactly.Count = pick(g, int64(33), 1<<40, 1<<62)
		request.Exactly.AllocationMode = pick(g, request.Exactly.AllocationMode, "Some")
	case 10:
		request.Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{
			pick(g, capacityKinds[:2]...).name: quantity(pick(g, "100E", "9223372036854775807", "10P")),
		}}
	case 11:
		spec := &g.c.Slices[g.intn(len(g.c.Slices))].Spec
		spec.NodeName, spec.AllNodes, spec.PerDeviceNodeSelection = nil, nil, nil
		spec.NodeSelector = unparsable()
	}
}

// failing is an expression that does not compile or needs what many devices lack.
func (g *generator) failing() string {
	return pick(g,
		`device.attributes["gpu.example.com"].ready`,
		`device.attributes["gpu.example.com"].spare > 0`,
		`device.attributes["nic.example.com"].firmware.isGreaterThan(semver("1.0.0"))`,
		`device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("4Gi"))`,
		`device.attributes["gpu.example.com"].model > 3`,
		`device.nothing`,
		`device.driver + `,
		`device.driver`,
	)
}

func (g *generator) failSelector(exactly *resourceapi.ExactDeviceRequest) {
	exactly.Selectors = append(exactly.Selectors, selector(g.failing()))
	g.rand.Shuffle(len(exactly.Selectors), func(i, j int) {
		exactly.Selectors[i], exactly.Selectors[j] = exactly.Selectors[j], exactly.Selectors[i]
	})
}

func (g *generator) failDerived(claim *resourceapi.ResourceClaim, request *resourceapi.DeviceRequest) {
	request.Exactly.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{
		Name: derivedName,
		Expression: pick(g,
			`device.attributes["gpu.example.com"].spare`,
			`device.attributes["gpu.example.com"].missing`,
			`device.attributes`,
			`1.5`,
			`device.driver +`,
			`quantity("1Gi")`,
		),
	}}
	claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, g.constraint(derivedName, []string{request.Name}))
}

func unparsable() *corev1.NodeSelector {
	requirement := corev1.NodeSelectorRequirement{Key: "zone", Operator: "Like", Values: []string{"e"}}
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{requirement},
	}}}
}
