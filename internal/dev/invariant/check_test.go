// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const driver = "gpu.example.com"

func claim(name string, results ...resourceapi.DeviceRequestAllocationResult) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: results},
		}},
	}
}

func result(device string) resourceapi.DeviceRequestAllocationResult {
	return resourceapi.DeviceRequestAllocationResult{Request: "gpu", Driver: driver, Pool: "node", Device: device}
}

// share is a part of the device that can be shared.
func share(id, memory string) resourceapi.DeviceRequestAllocationResult {
	shared := result("big")
	shared.ShareID = ptr.To(types.UID(id))
	shared.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory)}
	return shared
}

func admin(device string) resourceapi.DeviceRequestAllocationResult {
	access := result(device)
	access.AdminAccess = ptr.To(true)
	return access
}

// slice is of the only pool.
func slice(devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "slice"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, Pool: resourceapi.ResourcePool{Name: "node"}, Devices: devices,
	}}
}

// partitionable are slices with GPUs that can be used whole, in halves or in quarters.
func partitionable(gpus ...string) []*resourceapi.ResourceSlice {
	counters, devices := slice(), slice()
	quarters := func(count int64) map[string]resourceapi.Counter {
		return map[string]resourceapi.Counter{"quarters": {Value: *resource.NewQuantity(count, resource.DecimalSI)}}
	}
	for _, gpu := range gpus {
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourceapi.CounterSet{Name: gpu, Counters: quarters(4)})
		for suffix, count := range map[string]int64{"": 4, "-half-0": 2, "-half-1": 2, "-quarter-3": 1} {
			devices.Spec.Devices = append(devices.Spec.Devices, resourceapi.Device{
				Name: gpu + suffix, ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: gpu, Counters: quarters(count)}},
			})
		}
	}
	return []*resourceapi.ResourceSlice{counters, devices}
}

func TestCheck(t *testing.T) {
	published := append(partitionable("gpu-0", "gpu-1"), slice(resourceapi.Device{
		Name: "big", AllowMultipleAllocations: ptr.To(true),
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}},
	}))
	for name, test := range map[string]struct {
		claims []*resourceapi.ResourceClaim
		want   []string
	}{
		"nothing allocated": {claims: []*resourceapi.ResourceClaim{{}}},
		"a device each":     {claims: []*resourceapi.ResourceClaim{claim("a", result("gpu-0")), claim("b", result("gpu-1"))}},
		"admin access":      {claims: []*resourceapi.ResourceClaim{claim("a", result("gpu-0")), claim("b", admin("gpu-0"))}},
		"shares that fit":   {claims: []*resourceapi.ResourceClaim{claim("a", share("1", "40Gi")), claim("b", share("2", "40Gi"))}},
		"halves of a device": {
			claims: []*resourceapi.ResourceClaim{claim("a", result("gpu-0-half-0")), claim("b", result("gpu-0-half-1"))},
		},
		"a device twice": {
			claims: []*resourceapi.ResourceClaim{claim("a", result("unknown")), claim("b", result("unknown"))},
			want:   []string{"device gpu.example.com/node/unknown is held by ns/a and by ns/b"},
		},
		"a device twice in one claim": {
			claims: []*resourceapi.ResourceClaim{claim("a", result("gpu-0"), result("gpu-0"))},
			want:   []string{"device gpu.example.com/node/gpu-0 is held by ns/a and by ns/a"},
		},
		"all of a shared device": {
			claims: []*resourceapi.ResourceClaim{claim("a", share("1", "10Gi")), claim("b", result("big"))},
			want:   []string{"device gpu.example.com/node/big is held by ns/a as share 1 and by ns/b"},
		},
		"a share twice": {
			claims: []*resourceapi.ResourceClaim{claim("a", share("1", "10Gi")), claim("b", share("1", "10Gi"))},
			want:   []string{"device gpu.example.com/node/big is held by ns/a as share 1 and by ns/b as share 1"},
		},
		"shares that do not fit": {
			claims: []*resourceapi.ResourceClaim{claim("a", share("1", "50Gi")), claim("b", share("2", "40Gi"))},
			want:   []string{"device gpu.example.com/node/big: claims hold 90Gi of its 80Gi memory"},
		},
		"partitions that overlap": {
			claims: []*resourceapi.ResourceClaim{claim("a", result("gpu-0")), claim("b", result("gpu-0-quarter-3"))},
			want:   []string{"pool gpu.example.com/node: devices in use consume 1 too much of quarters in counter set gpu-0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if found := Check(published, test.claims); !slices.Equal(found, test.want) {
				t.Errorf("found\n%s\nwant\n%s", strings.Join(found, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}
