// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/inventory"
)

// TestAnyInventory publishes devices that are often not valid. The API server takes what is
// published of them. Of a device with a single name, attribute, capacity or taint it refuses what is not.
func TestAnyInventory(t *testing.T) {
	t.Parallel()
	r := anything{rand.New(rand.NewPCG(1, 2))}
	driver := driverOf(t)
	published, unpublished := 0, 0
	for round := range 40 {
		in := r.inventory(driver)
		unpublished += len(in.Unpublished(driver))
		for name, pool := range in.DriverResources(driver, nil, nil).Pools {
			for i, slice := range pool.Slices {
				published += len(slice.Devices)
				spec := resourceapi.ResourceSliceSpec{
					Driver: driver, NodeName: ptr.To("node"), Devices: slice.Devices, SharedCounters: slice.SharedCounters,
					Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: int64(len(pool.Slices))},
				}
				if err := storable(t, spec); err != nil {
					t.Fatalf("round %d: pool %q: slice %d: %v", round, name, i, err)
				}
			}
		}
	}
	if published < 100 || unpublished < 1000 {
		t.Errorf("%d devices are published, and %d devices or values are not: that is no test", published, unpublished)
	}
	for range 1000 {
		device := inventory.Device{ID: inventory.ID{Driver: driver, Pool: "pool", Device: "a"}, Shares: r.IntN(3)}
		switch r.IntN(4) {
		case 0:
			device.ID.Device = r.name()
		case 1:
			device.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{resourceapi.QualifiedName(r.name()): r.attribute()}
		case 2:
			device.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{resourceapi.QualifiedName(r.name()): r.capacity()}
		case 3:
			device.Taints = []resourceapi.DeviceTaint{r.taint()}
		}
		refused := storable(t, resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: ptr.To("node"), Pool: resourceapi.ResourcePool{Name: "pool", Generation: 1, ResourceSliceCount: 1},
			Devices: []resourceapi.Device{{
				Name: device.ID.Device, Attributes: device.Attributes, Capacity: device.Capacity, Taints: device.Taints, AllowMultipleAllocations: ptr.To(device.Shares > 1),
			}},
		})
		told := (&inventory.Inventory{Devices: []inventory.Device{device}}).Unpublished(driver)
		if (refused != nil) != (len(told) > 0) {
			t.Errorf("device %+v: told %v, and the API server says %v", device, told, refused)
		}
	}
}

// storable is why the API server would not store a slice, if so.
func storable(t *testing.T, spec resourceapi.ResourceSliceSpec) error {
	t.Helper()
	_, err := client.ResourceV1().ResourceSlices().Create(t.Context(), &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "any"}, Spec: spec,
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil && !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	return err
}

// anything makes what a source could report.
type anything struct{ *rand.Rand }

// pick makes good values more frequent than bad ones.
func (r anything) pick(good, bad []string) string {
	if r.IntN(4) > 0 {
		return good[r.IntN(len(good))]
	}
	return bad[r.IntN(len(bad))]
}

func (r anything) name() string {
	return r.pick(
		[]string{"a", "b", "gpu0", "x1", "model", "d" + fmt.Sprint(r.IntN(100))},
		[]string{"", "GPU 0", "-a", "a-", "a_b", "a.b", "ü", "A", "a/b", "x.com/y", "X.com/y", "X y/z", "/a", "a/", strings.Repeat("a", 33), strings.Repeat("a", 64), strings.Repeat("d", 64) + "/a"},
	)
}

func (r anything) text() string {
	return r.pick([]string{"m", "", "a text, with all: \"kinds\"", "1.2.3"}, []string{strings.Repeat("x", 65), strings.Repeat("ü", 33), "\x00"})
}

func (r anything) version() string {
	return r.pick([]string{"1.2.3", "0.0.0-rc.1+build.7", "1.2.3--"}, []string{"", "1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "1.2.3 ", strings.Repeat("1", 10) + ".0.0-" + strings.Repeat("a", 64)})
}

func (r anything) attribute() (out resourceapi.DeviceAttribute) {
	for ok := true; ok; ok = r.IntN(10) == 0 {
		switch r.IntN(9) {
		case 0:
			out.IntValue = ptr.To(r.Int64())
		case 1:
			out.BoolValue = ptr.To(true)
		case 2, 3:
			out.StringValue = ptr.To(r.text())
		case 4:
			out.VersionValue = ptr.To(r.version())
		case 5:
			out.IntValues = make([]int64, r.IntN(20))
		case 6:
			out.StringValues = []string{r.text(), r.text()}
		case 7:
			out.VersionValues = []string{r.version()}
		}
	}
	return out
}

// number is often of the size of a capacity.
func (r anything) number() *resource.Quantity {
	return ptr.To(resource.MustParse(r.pick([]string{"1", "2", "4", "8", "10", "80Gi"}, []string{"0", "-1", "1500m", "100E", "3"})))
}

func (r anything) capacity() resourceapi.DeviceCapacity {
	out := resourceapi.DeviceCapacity{Value: *r.number()}
	if r.IntN(3) > 0 {
		return out
	}
	out.RequestPolicy = &resourceapi.CapacityRequestPolicy{}
	if r.IntN(8) > 0 {
		out.RequestPolicy.Default = r.number()
	}
	if r.IntN(2) == 0 {
		out.RequestPolicy.ValidRange = &resourceapi.CapacityRequestPolicyRange{Min: r.number()}
		if r.IntN(2) == 0 {
			out.RequestPolicy.ValidRange.Max = r.number()
		}
		if r.IntN(2) == 0 {
			out.RequestPolicy.ValidRange.Step = r.number()
		}
	}
	for range r.IntN(4) * r.IntN(5) {
		out.RequestPolicy.ValidValues = append(out.RequestPolicy.ValidValues, *r.number())
	}
	return out
}

func (r anything) taint() resourceapi.DeviceTaint {
	return resourceapi.DeviceTaint{Key: r.name(), Value: r.name(), Effect: resourceapi.DeviceTaintEffect(r.pick([]string{"NoSchedule", "NoExecute", "None"}, []string{"", "Never"}))}
}

func (r anything) counters() map[string]resourceapi.Counter {
	out := make(map[string]resourceapi.Counter)
	for range r.IntN(4) {
		out[r.name()] = resourceapi.Counter{Value: *r.number()}
	}
	return out
}

func (r anything) inventory(driver string) *inventory.Inventory {
	in := &inventory.Inventory{}
	for range r.IntN(12) {
		set := inventory.CounterSet{Driver: driver, Pool: r.name()}
		set.Name, set.Counters = r.name(), r.counters()
		in.CounterSets = append(in.CounterSets, set)
	}
	for i := range 100 {
		device := inventory.Device{
			ID:         inventory.ID{Driver: driver, Pool: "pool", Device: fmt.Sprint("device-", i)},
			Attributes: make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute),
			Capacity:   make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity),
			Shares:     r.IntN(3),
			Health:     inventory.Health{Unhealthy: r.IntN(3) == 0, Reason: r.text()},
			Topology:   inventory.Topology{PCIBusID: r.text()},
		}
		if r.IntN(4) == 0 {
			device.ID.Pool, device.ID.Device = r.name(), r.name()
		}
		for range r.IntN(6) * r.IntN(8) {
			name := resourceapi.QualifiedName(r.name() + fmt.Sprint(r.IntN(60)))
			device.Attributes[name] = r.attribute()
		}
		for range r.IntN(4) * r.IntN(3) {
			device.Capacity[resourceapi.QualifiedName(r.name())] = r.capacity()
		}
		for range r.IntN(5) / 4 * r.IntN(20) {
			device.Taints = append(device.Taints, r.taint())
		}
		for range r.IntN(4) * r.IntN(2) {
			consumption := resourceapi.DeviceCounterConsumption{CounterSet: r.name(), Counters: r.counters()}
			if len(in.CounterSets) > 0 && r.IntN(3) > 0 {
				set := in.CounterSets[r.IntN(len(in.CounterSets))]
				device.Pool, consumption.CounterSet, consumption.Counters = set.Pool, set.Name, set.Counters
			}
			consumption.CompatibilityGroups = [][]string{nil, nil, {"g"}, {"g", "g"}, {"G"}}[r.IntN(5)]
			device.Consumes = append(device.Consumes, consumption)
		}
		in.Devices = append(in.Devices, device)
	}
	return in
}
