// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package charge_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/charge"
	"github.com/dray-project/dray/pools"
)

// dividedGPU is a node with one GPU that can be had whole or in two halves.
func dividedGPU() []*resourceapi.ResourceSlice {
	memory := func(text string) map[string]resourceapi.Counter {
		return map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(text)}}
	}
	counters, devices := &resourceapi.ResourceSlice{}, &resourceapi.ResourceSlice{}
	counters.Name, devices.Name = "counters", "devices"
	for _, slice := range []*resourceapi.ResourceSlice{counters, devices} {
		slice.Spec.Driver, slice.Spec.NodeName = "gpu.example.com", ptr.To("node")
		slice.Spec.Pool = resourceapi.ResourcePool{Name: "node", ResourceSliceCount: 2}
	}
	counters.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "gpu-0", Counters: memory("80Gi")}}
	for name, has := range map[string]string{"whole": "80Gi", "half-0": "40Gi", "half-1": "40Gi"} {
		devices.Spec.Devices = append(devices.Spec.Devices, resourceapi.Device{
			Name: name, ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: "gpu-0", Counters: memory(has)}},
		})
	}
	return []*resourceapi.ResourceSlice{counters, devices}
}

// Admission by quota, in the ways in which queues count. A workload whose claim takes the whole GPU or a half of it counts 80Gi for
// kueue, while what it will take is between 40Gi and 80Gi. ResourceQuota counts devices only.
func Example_admission() {
	features := allocator.AllFeatures()
	node, class := &corev1.Node{}, &resourceapi.DeviceClass{}
	node.Name, class.Name = "node", "gpu"
	cluster := charge.NewCluster(features, pools.Build(features.PoolGates(), dividedGPU()), []*corev1.Node{node}, allocator.ClassMap(class))

	claim := &resourceapi.ResourceClaim{}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
	}}}
	mapping := charge.Mapping{
		Resource: "gpu-memory", Classes: []string{"gpu"}, Sources: []charge.Source{{Driver: "gpu.example.com", Counter: "memory"}},
	}

	byKueue, err := cluster.Kueue(context.Background(), &claim.Spec, []charge.Mapping{mapping})
	if err != nil {
		panic(err)
	}
	taken, err := cluster.Of(context.Background(), claim, []charge.Mapping{mapping})
	if err != nil {
		panic(err)
	}
	byQuota := charge.Quota(claim, []*resourceapi.DeviceClass{class}, nil)[charge.ByClass("gpu").Resource]
	counted, bounds := byKueue["gpu-memory"], taken.Of["gpu-memory"]
	fmt.Printf("ResourceQuota: %s device\n", byQuota.String())
	fmt.Printf("kueue: %d Gi\n", counted.Value()>>30)
	fmt.Printf("taken: %d to %d Gi\n", bounds.Least.Value()>>30, bounds.Most.Value()>>30)
	for _, quota := range []int64{100, 60, 20} {
		switch quota <<= 30; {
		case bounds.Most.CmpInt64(quota) <= 0:
			fmt.Printf("quota of %d Gi: starts\n", quota>>30)
		case bounds.Least.CmpInt64(quota) <= 0:
			fmt.Printf("quota of %d Gi: may be too little\n", quota>>30)
		default:
			fmt.Printf("quota of %d Gi: too little\n", quota>>30)
		}
	}
	// Output:
	// ResourceQuota: 1 device
	// kueue: 80 Gi
	// taken: 40 to 80 Gi
	// quota of 100 Gi: starts
	// quota of 60 Gi: may be too little
	// quota of 20 Gi: too little
}
