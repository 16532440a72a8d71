// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/dev/oracle"
)

func sampleResult() []resourceapi.AllocationResult {
	device := resourceapi.DeviceRequestAllocationResult{
		Request: "r0", Driver: "gpu.example.com", Pool: "pool", Device: "dev-0", ShareID: ptr.To(types.UID("a")),
		ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("1Gi")},
	}
	other := device
	other.Device = "dev-1"
	result := resourceapi.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}}
	result.Devices.Results = []resourceapi.DeviceRequestAllocationResult{device, other}
	return []resourceapi.AllocationResult{result}
}

func TestEqualIgnoresRepresentation(t *testing.T) {
	a, b := sampleResult(), copyResults(sampleResult())
	b[0].Devices.Results[0].ShareID = ptr.To(types.UID("b"))
	b[0].Devices.Results[0].ConsumedCapacity["memory"] = resource.MustParse("1024Mi")
	b[0].Devices.Results[0].Tolerations = []resourceapi.DeviceToleration{}
	b[0].Devices.Config = []resourceapi.DeviceAllocationConfiguration{}
	if difference := oracle.Equal(a, b); difference != "" {
		t.Errorf("not equal: %s", difference)
	}
}

func TestEqualSeesDifferences(t *testing.T) {
	for name, change := range map[string]func(*resourceapi.AllocationResult){
		"order": func(r *resourceapi.AllocationResult) {
			d := r.Devices.Results
			d[0], d[1] = d[1], d[0]
		},
		"share ID": func(r *resourceapi.AllocationResult) { r.Devices.Results[0].ShareID = nil },
		"admin":    func(r *resourceapi.AllocationResult) { r.Devices.Results[0].AdminAccess = ptr.To(true) },
		"node":     func(r *resourceapi.AllocationResult) { r.NodeSelector = nil },
		"consumed": func(r *resourceapi.AllocationResult) { delete(r.Devices.Results[0].ConsumedCapacity, "memory") },
		"config": func(r *resourceapi.AllocationResult) {
			r.Devices.Config = make([]resourceapi.DeviceAllocationConfiguration, 1)
		},
		"condition": func(r *resourceapi.AllocationResult) { r.Devices.Results[1].BindingConditions = []string{"x"} },
		"skip": func(r *resourceapi.AllocationResult) {
			r.Devices.Results[1].SkipNodeOperations = []resourceapi.SkipNodeOperation{"*"}
		},
	} {
		changed := copyResults(sampleResult())
		change(&changed[0])
		if oracle.Equal(sampleResult(), changed) == "" {
			t.Errorf("%s: difference not seen", name)
		}
	}
	if oracle.Equal(sampleResult(), nil) == "" {
		t.Error("missing result not seen")
	}
}
