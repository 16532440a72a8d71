// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

const derivedName = "derived.example.com/group"

func (g *generator) addConstraints(claim *resourceapi.ResourceClaim) {
	if len(claim.Spec.Devices.Requests) == 0 {
		return
	}
	if g.uses(g.plan.derived && g.chance(0.8), g.c.Features.DerivedAttributes) {
		g.addDerived(claim)
	}
	if !g.plan.constraints {
		return
	}
	for range 1 + g.intn(2) {
		attribute := g.constraintAttribute()
		claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, g.constraint(attribute, g.constraintRequests(claim)))
	}
}

func (g *generator) constraint(attribute string, requests []string) resourceapi.DeviceConstraint {
	name := resourceapi.FullyQualifiedName(attribute)
	if g.chance(0.35) {
		return resourceapi.DeviceConstraint{Requests: requests, DistinctAttribute: &name}
	}
	return resourceapi.DeviceConstraint{Requests: requests, MatchAttribute: &name}
}

func (g *generator) constraintAttribute() string {
	driver := pick(g, g.drivers...)
	names := []string{
		driver + "/model", driver + "/numa", driver + "/numa", driver + "/spare", driver + "/firmware",
		sharedDomain + "/root", sharedDomain + "/root", gpuDriver + "/numa",
	}
	if len(g.drivers) > 1 {
		names = append(names, sharedDomain+"/root", sharedDomain+"/root", gpuDriver+"/numa")
	}
	if g.plan.lists {
		names = append(names, driver+"/links", driver+"/links", driver+"/links", driver+"/lanes", driver+"/lanes", driver+"/modes", driver+"/firmwares")
	}
	if g.chance(0.03) {
		return driver + "/missing"
	}
	return pick(g, names...)
}

// constraintRequests is nil (all requests) or names some, also single subrequests.
func (g *generator) constraintRequests(claim *resourceapi.ResourceClaim) []string {
	if g.chance(0.6) {
		return nil
	}
	return g.someRequests(claim)
}

func (g *generator) someRequests(claim *resourceapi.ResourceClaim) []string {
	names := requestNames(claim)
	g.rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:1+g.intn(min(3, len(names)))]
}

// requestNames lists what constraints and configs may refer to.
func requestNames(claim *resourceapi.ResourceClaim) []string {
	var names []string
	for _, request := range claim.Spec.Devices.Requests {
		names = append(names, request.Name)
		for _, sub := range request.FirstAvailable {
			names = append(names, request.Name+"/"+sub.Name)
		}
	}
	return names
}

// addDerived gives some requests a derived attribute and constrains it.
func (g *generator) addDerived(claim *resourceapi.ResourceClaim) {
	name := derivedName
	if g.chance(0.25) {
		// Takes precedence over what the driver publishes.
		name = pick(g, g.drivers...) + "/numa"
	}
	var requests []string
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		if i > 0 && g.chance(0.3) {
			continue
		}
		requests = append(requests, request.Name)
		if request.Exactly != nil {
			request.Exactly.DerivedAttributes = g.derived(name)
		}
		for j := range request.FirstAvailable {
			request.FirstAvailable[j].DerivedAttributes = g.derived(name)
		}
	}
	if slices.Equal(requests, requestNames(claim)) || g.chance(0.1) {
		requests = nil
	}
	claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, g.constraint(name, requests))
}

func (g *generator) derived(name string) []resourceapi.DeviceDerivedAttribute {
	templates := []string{
		`device.attributes[DRIVER].?model.orValue("none")`,
		`device.driver`,
		`device.attributes[DRIVER].?numa.orValue(7)`,
		`device.attributes[DRIVER].?numa.orValue(1) == 0`,
		`"memory" in device.capacity[DRIVER] ? "big" : "small"`,
		`device.attributes["shared.example.com"].?root.orValue("") + "x"`,
		`semver("1.0.0")`,
	}
	if g.c.Features.ListTypeAttributes {
		templates = append(templates, `["any", string(device.attributes[DRIVER].?model.orValue("none"))]`, `[1, 2]`)
		if g.plan.lists {
			templates = append(templates, `device.attributes[DRIVER].?links.orValue([0])`)
		}
	}
	expression := forDriver(pick(g, templates...), pick(g, g.drivers...))
	return []resourceapi.DeviceDerivedAttribute{{Name: resourceapi.FullyQualifiedName(name), Expression: expression}}
}

func (g *generator) addConfigs(claim *resourceapi.ResourceClaim) {
	if !g.plan.configs || len(claim.Spec.Devices.Requests) == 0 {
		return
	}
	for i := range g.intn(4) {
		config := resourceapi.DeviceClaimConfiguration{DeviceConfiguration: configuration(fmt.Sprintf("claim-%d", i))}
		switch {
		case g.chance(0.3):
			for _, request := range claim.Spec.Devices.Requests {
				config.Requests = append(config.Requests, request.Name)
			}
		case g.chance(0.8):
			config.Requests = g.someRequests(claim)
		}
		claim.Spec.Devices.Config = append(claim.Spec.Devices.Config, config)
	}
}
