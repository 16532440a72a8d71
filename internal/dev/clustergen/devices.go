// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

func (g *generator) device(driver string, index int) resourceapi.Device {
	device := resourceapi.Device{
		Name:       fmt.Sprintf("dev-%d", index),
		Attributes: g.attributes(driver),
	}
	if g.plan.capacity {
		g.addCapacity(&device)
	} else if g.chance(0.3) {
		device.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"memory": {Value: quantity(pick(g, "2Gi", "4Gi", "8Gi"))},
		}
	}
	if g.plan.taints && g.chance(0.5) {
		device.Taints = g.taints()
	}
	if g.plan.binding && g.chance(0.4) {
		g.bind(&device)
	}
	return device
}

func (g *generator) attributes(driver string) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	values := 3
	if g.plan.hard {
		values = 2
	}
	attributes := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"model": {StringValue: ptr.To([]string{"a", "b", "bc"}[g.intn(values)])},
		"numa":  {IntValue: ptr.To(int64(g.intn(values)))},
		sharedDomain + "/root": {
			StringValue: ptr.To(fmt.Sprintf("pci-%d", g.intn(values))),
		},
	}
	if g.chance(0.5) {
		attributes["ready"] = resourceapi.DeviceAttribute{BoolValue: ptr.To(g.chance(0.7))}
	}
	if g.chance(0.5) {
		attributes["firmware"] = resourceapi.DeviceAttribute{VersionValue: ptr.To(pick(g, "1.0.0", "1.2.0", "2.0.0-rc.1"))}
	}
	if g.chance(0.7) {
		attributes["spare"] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(g.intn(2)))}
	}
	if driver != gpuDriver && g.chance(0.5) {
		attributes[gpuDriver+"/numa"] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(g.intn(values)))}
	}
	if g.chance(0.05) {
		delete(attributes, "model")
		attributes[resourceapi.QualifiedName(driver+"/model")] = resourceapi.DeviceAttribute{StringValue: ptr.To(pick(g, "a", "b"))}
	}
	if g.plan.lists {
		g.addLists(attributes)
	}
	return attributes
}

func (g *generator) addLists(attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) {
	if g.chance(0.8) {
		attributes["links"] = g.links()
	}
	if g.chance(0.5) {
		attributes["lanes"] = resourceapi.DeviceAttribute{StringValues: some(g, "l0", "l1", "l2")}
	}
	if g.chance(0.2) {
		attributes["modes"] = resourceapi.DeviceAttribute{BoolValues: some(g, true, false)}
	}
	if g.chance(0.2) {
		attributes["firmwares"] = resourceapi.DeviceAttribute{VersionValues: some(g, "1.0.0", "1.1.0", "2.0.0")}
	}
}

// links is a list on most devices, a scalar on some: constraints treat both alike.
func (g *generator) links() resourceapi.DeviceAttribute {
	switch n := g.intn(20); {
	case n == 0:
		return resourceapi.DeviceAttribute{StringValues: some(g, "1", "2")}
	case n < 5:
		return resourceapi.DeviceAttribute{IntValue: ptr.To(int64(g.intn(3)))}
	}
	return resourceapi.DeviceAttribute{IntValues: some(g, int64(0), 1, 2, 3)}
}

// some returns a non-empty selection, in order.
func some[T any](g *generator, choices ...T) []T {
	var chosen []T
	for _, choice := range choices {
		if g.chance(0.45) {
			chosen = append(chosen, choice)
		}
	}
	if len(chosen) == 0 {
		return []T{pick(g, choices...)}
	}
	return chosen
}

func (g *generator) taints() []resourceapi.DeviceTaint {
	var taints []resourceapi.DeviceTaint
	for range 1 + g.intn(2) {
		taints = append(taints, resourceapi.DeviceTaint{
			Key:   pick(g, "broken.example.com", "reserved.example.com"),
			Value: pick(g, "", "team-a", "team-b"),
			Effect: pick(g, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoSchedule,
				resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNone, "FromTheFuture"),
		})
	}
	return taints
}

func (g *generator) bind(device *resourceapi.Device) {
	if g.chance(0.7) {
		device.BindingConditions = []string{"example.com/attached"}
		device.BindingFailureConditions = []string{"example.com/failed"}
	}
	if g.chance(0.5) {
		device.BindsToNode = ptr.To(g.chance(0.8))
	}
}
