// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package given

import (
	resourceapi "k8s.io/api/resource/v1"
	"pgregory.net/rapid"
)

// DrawSlice draws a slice of a name from few pools, nodes and devices.
func DrawSlice(t *rapid.T) *resourceapi.ResourceSlice {
	options := []SliceOption{
		DrivenBy(rapid.SampledFrom([]string{"a.example.com", "b.example.com"}).Draw(t, "driver")),
		Generation(rapid.Int64Range(1, 2).Draw(t, "generation"), rapid.Int64Range(1, 3).Draw(t, "count")),
	}
	node := rapid.SampledFrom([]string{"n0", "n1", "n2"}).Draw(t, "node")
	reach := []SliceOption{Everywhere, OnNode(node), OnNode(node), Selecting(InZone(node, "n0")), PerDevice, func(*resourceapi.ResourceSlice) {}}
	if rapid.IntRange(0, 30).Draw(t, "unparsable") == 0 {
		reach = []SliceOption{Selecting(Unparsable())}
	}
	options = append(options, rapid.SampledFrom(reach).Draw(t, "reach"))
	for range rapid.IntRange(0, 3).Draw(t, "devices") {
		name := rapid.SampledFrom([]string{"d0", "d1", "d2", "d3", "d4", "d5"}).Draw(t, "device")
		options = append(options, Device(name, rapid.SampledFrom([]func(*resourceapi.Device){
			DeviceOnNode(node), Multiple, Binding("Ready"), Consumes("set", "1"), Attribute("model", resourceapi.DeviceAttribute{StringValue: &node}),
		}).Draw(t, "kind")))
	}
	if rapid.IntRange(0, 3).Draw(t, "counters") == 0 {
		options = append(options, CounterSet("set", "4"))
	}
	name := rapid.SampledFrom([]string{"s0", "s1", "s2", "s3", "s4"}).Draw(t, "name")
	return Slice(name, rapid.SampledFrom([]string{"p", "q"}).Draw(t, "pool"), options...)
}
