// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeallocatable

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/pools"
)

// sliceOf is one of two slices of a pool, with one device. With takes it stands for resources of its node.
func sliceOf(pool, name string, takes bool) *resourceapi.ResourceSlice {
	device := resourceapi.Device{Name: name}
	if takes {
		device.NodeAllocatableResources = map[corev1.ResourceName]resourceapi.NodeAllocatableResource{corev1.ResourceCPU: {}}
	}
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: pool + "-" + name},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "cpu.example.com", NodeName: ptr.To("n"), Pool: resourceapi.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 2},
			Devices: []resourceapi.Device{device},
		},
	}
}

// Slices of all pools of the devices are there, each once, if any device stands for resources of its node.
func TestSlicesOf(t *testing.T) {
	snapshot := pools.Build(pools.Gates{}, []*resourceapi.ResourceSlice{
		sliceOf("one", "a", false), sliceOf("one", "b", true), sliceOf("two", "a", false), sliceOf("two", "b", false), sliceOf("three", "a", false), sliceOf("three", "b", false),
	})
	of := func(devices ...[2]string) []*resourceapi.AllocationResult {
		var all []*resourceapi.AllocationResult
		for _, device := range devices {
			all = append(all, &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
				Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "cpu.example.com", Pool: device[0], Device: device[1]}},
			}})
		}
		return all
	}
	for name, test := range map[string]struct {
		of   []*resourceapi.AllocationResult
		want []string
	}{
		"nothing":                          {nil, nil},
		"no device takes anything":         {of([2]string{"one", "a"}, [2]string{"two", "a"}), nil},
		"one pool":                         {of([2]string{"one", "b"}), []string{"one-a", "one-b"}},
		"two pools":                        {of([2]string{"two", "a"}, [2]string{"one", "b"}), []string{"one-a", "one-b", "two-a", "two-b"}},
		"a pool twice":                     {of([2]string{"one", "b"}, [2]string{"one", "a"}), []string{"one-a", "one-b"}},
		"a pool that is not published":     {of([2]string{"none", "a"}, [2]string{"one", "b"}), []string{"one-a", "one-b"}},
		"a device that does not exist":     {of([2]string{"one", "c"}), nil},
		"what takes comes last, and twice": {of([2]string{"two", "a"}, [2]string{"three", "b"}, [2]string{"one", "b"}, [2]string{"one", "b"}), []string{"one-a", "one-b", "three-a", "three-b", "two-a", "two-b"}},
	} {
		var got []string
		for _, slice := range SlicesOf(snapshot, test.of) {
			got = append(got, slice.Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: slices %q, want %q", name, got, test.want)
		}
	}
}
