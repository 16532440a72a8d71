// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

const gpus = "gpu.example.com"

func gpu(name string, change ...func(*Device)) Device {
	device := Device{ID: ID{gpus, "node-1", name}, Type: "gpu"}
	for _, change := range change {
		change(&device)
	}
	return device
}

// consuming makes a device consume counters of the only counter set.
func consuming(d *Device) {
	d.Consumes = []resourceapi.DeviceCounterConsumption{{CounterSet: "c", Counters: someCounters("m")}}
}

func someCounters(names ...string) map[string]resourceapi.Counter {
	out := make(map[string]resourceapi.Counter)
	for _, name := range names {
		out[name] = resourceapi.Counter{Value: resource.MustParse("1")}
	}
	return out
}

func shared(n int) func(*Device) { return func(d *Device) { d.Shares = n } }

func TestPublished(t *testing.T) {
	for name, test := range map[string]struct {
		device Device
		inUse  bool
		want   resourceapi.Device
	}{
		"plain": {gpu("a"), false, resourceapi.Device{Name: "a"}},
		"with topology": {
			gpu("a", func(d *Device) {
				d.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: ptr.To("m")}}
				d.Topology = Topology{PCIBusID: "0000:01:00.0", PCIeRoot: "pci0000:00", NUMANodes: []int{1, 0}}
			}), false,
			resourceapi.Device{Name: "a", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"model":                           {StringValue: ptr.To("m")},
				"resource.kubernetes.io/pciBusID": {StringValue: ptr.To("0000:01:00.0")},
				"resource.kubernetes.io/pcieRoot": {StringValue: ptr.To("pci0000:00")},
				"resource.kubernetes.io/numaNode": {IntValue: ptr.To(int64(1))},
			}},
		},
		"unhealthy": {
			gpu("a", func(d *Device) { d.Health = Health{Unhealthy: true, Reason: "Hot"} }), false,
			resourceapi.Device{Name: "a", Taints: []resourceapi.DeviceTaint{{Key: "gpu.example.com/unhealthy", Value: "Hot", Effect: "NoSchedule"}}},
		},
		"unhealthy, for a reason in words": {
			gpu("a", func(d *Device) { d.Health = Health{Unhealthy: true, Reason: "ECC error: 2 bits"} }), false,
			resourceapi.Device{Name: "a", Taints: []resourceapi.DeviceTaint{{Key: "gpu.example.com/unhealthy", Value: "ECC-error-2-bits", Effect: "NoSchedule"}}},
		},
		"unhealthy, and of no use": {
			gpu("a", func(d *Device) { d.Health = Health{Unhealthy: true, Evict: true} }), false,
			resourceapi.Device{Name: "a", Taints: []resourceapi.DeviceTaint{{Key: "gpu.example.com/unhealthy", Effect: "NoExecute"}}},
		},
		"in use": {gpu("a"), true, resourceapi.Device{Name: "a", Taints: []resourceapi.DeviceTaint{{Key: "gpu.example.com/in-use-by-device-plugin", Effect: "NoSchedule"}}}},
		"shared": {
			gpu("a", shared(4), func(d *Device) {
				d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}}
			}), false,
			resourceapi.Device{Name: "a", AllowMultipleAllocations: ptr.To(true), Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
				"memory": {Value: resource.MustParse("80Gi"), RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: ptr.To(resource.MustParse("20Gi"))}},
				"shares": {Value: resource.MustParse("4"), RequestPolicy: &resourceapi.CapacityRequestPolicy{
					Default: ptr.To(resource.MustParse("1")), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: ptr.To(resource.MustParse("1"))},
				}},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := test.device.Attributes
			got := test.device.published(test.inUse)
			if !apiequality.Semantic.DeepEqual(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if len(test.device.Attributes) != len(before) {
				t.Error("the record was modified")
			}
		})
	}
}

func TestDriverResources(t *testing.T) {
	in := &Inventory{
		Devices:     []Device{gpu("a", consuming), {ID: ID{"nic.example.com", "node-1", "n"}}, gpu("b")},
		CounterSets: []CounterSet{{gpus, "node-1", resourceapi.CounterSet{Name: "c", Counters: someCounters("m")}}},
	}
	if got := in.Drivers(); !slices.Equal(got, []string{gpus, "nic.example.com"}) {
		t.Errorf("drivers %q", got)
	}
	first := in.DriverResources(gpus, nil, nil)
	parts := first.Pools["node-1"].Slices
	if len(first.Pools) != 1 || len(parts) != 2 || len(parts[0].SharedCounters) != 1 || len(parts[1].Devices) != 2 {
		t.Fatalf("got %v", first)
	}
	second := (&Inventory{}).DriverResources(gpus, first, nil)
	parts = second.Pools["node-1"].Slices
	if len(parts) != 1 || len(parts[0].Devices)+len(parts[0].SharedCounters) != 0 {
		t.Errorf("a pool without devices is %v", second)
	}
}
