// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
)

// An error names a slice, a pool or a device, and its general text does not. That is equal for nodes that
// differ in these names, whatever these are: also if they occur in other words.
func TestGeneral(t *testing.T) {
	all := claim("c", 0)
	all.Spec.Devices.Requests[0].Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
	twoTerms := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "none", Operator: corev1.NodeSelectorOpDoesNotExist}}},
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpExists}}},
	}}
	malformed := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "none", Operator: "Nonsense"}}},
	}}
	for name, test := range map[string]struct {
		claim   *resourceapi.ResourceClaim
		change  func(*resourceapi.ResourceSlice)
		general string
	}{
		"selector": {selecting(claim("c", 1), `device.attributes["gpu.example.com"].none == "a"`), nil,
			"claim default/c: request r0: selector 0: CEL expression `device.attributes[\"gpu.example.com\"].none == \"a\"`, line 1, column 37: no such key: none " +
				"(attribute gpu.example.com/none is missing: test it with has(device.attributes[\"gpu.example.com\"].none) or read it as device.attributes[\"gpu.example.com\"].?none.orValue(...))"},
		"selector with all": {selecting(all.DeepCopy(), `device.attributes["gpu.example.com"].none == "a"`), nil, ""},
		"incomplete pool": {all, func(s *resourceapi.ResourceSlice) { s.Spec.Pool.ResourceSliceCount = 2 },
			"claim default/c: request r0: asks for all devices, but a pool cannot be used"},
		"constraint": {sameRoot(all.DeepCopy()), nil, "claim default/c: request r0: asks for all devices, but a device violates constraint 0 (matchAttribute gpu.example.com/root)"},
		"selector of nodes": {claim("c", 1), func(s *resourceapi.ResourceSlice) { s.Spec.NodeName, s.Spec.NodeSelector = nil, twoTerms },
			"claim default/c: request r0: node selector has 2 terms, only one is supported"},
		"selector of the slice": {claim("c", 1), func(s *resourceapi.ResourceSlice) { s.Spec.NodeName, s.Spec.NodeSelector = nil, malformed }, ""},
		"selector of a device": {claim("c", 1), func(s *resourceapi.ResourceSlice) {
			s.Spec.NodeName, s.Spec.PerDeviceNodeSelection = nil, ptr.To(true)
			for i := range s.Spec.Devices {
				s.Spec.Devices[i].NodeSelector = malformed
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var general string
			for _, name := range []string{"a", "e", "device", "node-17"} {
				slice := gpus(name, 3, "H100")
				for i := range slice.Spec.Devices {
					slice.Spec.Devices[i].Name = name + "-" + string(rune('x'+i))
				}
				if test.change != nil {
					test.change(slice)
				}
				_, err := compile(allocator.Options{}, test.claim).Feasible(context.Background(), clusterOf(slice).State(), node(name))
				if err == nil {
					t.Fatal("no error")
				}
				if !strings.Contains(err.Error(), slice.Name) && !strings.Contains(err.Error(), "gpu.example.com/"+name) {
					t.Errorf("%q names nothing of node %s", err, name)
				}
				got := allocator.General(err)
				if general == "" {
					general = got
				}
				if got != general || test.general != "" && got != test.general {
					t.Errorf("node %s: %q, and another one: %q, want %q", name, got, general, test.general)
				}
				if strings.Contains(got, "gpu.example.com/"+name) || strings.Contains(got, slice.Name) {
					t.Errorf("%q has a name", got)
				}
			}
		})
	}
}
