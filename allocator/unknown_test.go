// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/internal/index/shape"
	"github.com/dray-project/dray/pools"
)

// unknownCase is a claim for two devices, and on which of the nodes it can be met.
type unknownCase struct {
	name     string
	selector string
	derived  string // what a second attribute is, which is to match
	match    bool
	distinct bool
	want     string // by node: y or n
}

func (test *unknownCase) claim() *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{}
	claim.Namespace, claim.Name = "default", "pair"
	request := &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 2}
	if test.selector != "" {
		request.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: test.selector}}}
	}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpus", Exactly: request}}
	if test.derived != "" {
		request.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{Name: "example.com/derived", Expression: test.derived}}
		claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, resourceapi.DeviceConstraint{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("example.com/derived"))})
	}
	if test.match {
		claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, resourceapi.DeviceConstraint{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("gpu.example.com/root"))})
	}
	if test.distinct {
		claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, resourceapi.DeviceConstraint{DistinctAttribute: ptr.To(resourceapi.FullyQualifiedName("gpu.example.com/root"))})
	}
	return claim
}

// Values that are not known match each other where they stand for the same, and serve nothing else: also on
// nodes that look the same but for what is known, and after these were asked.
func TestUnknownValues(t *testing.T) {
	var nodes []*corev1.Node
	var slices []*resourceapi.ResourceSlice
	add := func(name string, values ...string) {
		node, slice := &corev1.Node{}, &resourceapi.ResourceSlice{}
		node.Name, slice.Name = name, name
		slice.Spec = resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: &node.Name, Pool: resourceapi.ResourcePool{Name: name, ResourceSliceCount: 1}}
		for i, value := range values {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i),
				Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"root": {StringValue: &value}}})
		}
		nodes, slices = append(nodes, node), append(slices, slice)
	}
	const u0, u1 = shape.UnknownPrefix + "0", shape.UnknownPrefix + "1"
	add("known", "x", "y")
	add("unknown", u0, u1)
	add("equal", "x", "x")
	add("will be equal", u0, u0)
	add("mixed", "x", u0)
	features := allocator.AllFeatures()
	for _, test := range []unknownCase{
		{name: "both", want: "yyyyy"},
		{name: "match", match: true, want: "nnyyn"},
		{name: "distinct", distinct: true, want: "ynnnn"},
		{name: "derived", derived: `device.attributes["gpu.example.com"].root + "!"`, want: "nnynn"},
		{name: "derived of what is known", derived: `device.driver`, want: "yyyyy"},
		{name: "match and distinct", match: true, distinct: true, want: "nnnnn"},
		{name: "selector", selector: `device.attributes["gpu.example.com"].root in ["x", "y"]`, want: "ynynn"},
		{name: "selector that all pass", selector: `"root" in device.attributes["gpu.example.com"] || true`, want: "ynynn"},
		{name: "selector of the domain", selector: `"gpu.example.com" in device.attributes`, want: "yyyyy"},
		{name: "selector of any attribute", selector: `device.attributes["gpu.example.com"].all(name, name == "root")`, want: "ynynn"},
	} {
		for _, order := range []string{"forwards", "backwards"} {
			class := &resourceapi.DeviceClass{}
			class.Name = "gpu"
			problem, err := allocator.New(allocator.Options{Features: features}).Compile([]*resourceapi.ResourceClaim{test.claim()}, allocator.ClassMap(class))
			if err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
			state := pools.NewState(pools.Build(features.PoolGates(), slices))
			got := []byte("?????")
			for k := range nodes {
				if order == "backwards" {
					k = len(nodes) - 1 - k
				}
				outcome, err := problem.Allocate(t.Context(), state, nodes[k])
				if err != nil {
					t.Fatalf("%s on %s: %v", test.name, nodes[k].Name, err)
				}
				got[k] = map[allocator.Verdict]byte{allocator.Satisfiable: 'y', allocator.NotSatisfiable: 'n'}[outcome.Verdict()]
			}
			if string(got) != test.want {
				t.Errorf("%s, nodes %s: %s, want %s", test.name, order, got, test.want)
			}
		}
	}
}
