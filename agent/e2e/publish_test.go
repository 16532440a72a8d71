// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/inventory"
)

const publishing = "gpu.example.com"

// drawn draws values that are as the API wants them in most cases, or only just not.
type drawn struct{ *rand.Rand }

func oneOf[T any](d drawn, list ...T) T { return list[d.IntN(len(list))] }

func (d drawn) name() string {
	if d.IntN(4) > 0 {
		return oneOf(d, "a", "b", "m", "n1")
	}
	return oneOf(d, "gpu-1", "A", "a b", "", "-a", "a.b", "a_b", "ä", "1", strings.Repeat("x", 32), strings.Repeat("x", 33), strings.Repeat("x", 63), strings.Repeat("x", 64))
}

func (d drawn) attributeName() resourceapi.QualifiedName {
	return resourceapi.QualifiedName(oneOf(d, d.name(), d.name(), d.name(), d.name(), "example.com/"+d.name(), "example.com/"+d.name(), d.name()+"/a", d.name()+"/a", "a/b/c", "Example.com/a", "/", "a/", strings.Repeat("a", 64)+"/b"))
}

func (d drawn) quantity() resource.Quantity {
	return resource.MustParse(oneOf(d, "0", "1", "2", "3", "4", "5", "8", "10", "11", "500m", "1500m", "-1", "100u", "1Gi", "20E"))
}

func (d drawn) text() string {
	if d.IntN(2) > 0 {
		return "1.2.3"
	}
	return oneOf(d, "", "a", "v1.0.0", "01.2.3", "1.0.0-a+b", strings.Repeat("x", 64), strings.Repeat("x", 65))
}

func (d drawn) attribute() resourceapi.DeviceAttribute {
	var a resourceapi.DeviceAttribute
	for range oneOf(d, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 2) {
		switch d.IntN(8) {
		case 0:
			a.IntValue = ptr.To(int64(d.IntN(3)))
		case 1:
			a.BoolValue = ptr.To(true)
		case 2:
			a.StringValue = ptr.To(d.text())
		case 3:
			a.VersionValue = ptr.To(d.text())
		case 4:
			a.IntValues = make([]int64, oneOf(d, 1, 2, 0, 48, 49))
		case 5:
			a.StringValues = []string{d.text(), d.text()}
		case 6:
			a.VersionValues = []string{"1.0.0", d.text()}
		case 7:
			a.BoolValues = []bool{true}
		}
	}
	return a
}

func (d drawn) policy() *resourceapi.CapacityRequestPolicy {
	policy := &resourceapi.CapacityRequestPolicy{}
	if d.IntN(8) > 0 {
		policy.Default = ptr.To(d.quantity())
	}
	if d.IntN(3) == 0 {
		for range oneOf(d, 1, 2, 3, 11) {
			policy.ValidValues = append(policy.ValidValues, d.quantity())
		}
	}
	if d.IntN(2) == 0 {
		policy.ValidRange = &resourceapi.CapacityRequestPolicyRange{}
		for _, at := range []**resource.Quantity{&policy.ValidRange.Min, &policy.ValidRange.Max, &policy.ValidRange.Step} {
			if d.IntN(3) > 0 {
				*at = ptr.To(d.quantity())
			}
		}
	}
	return policy
}

func (d drawn) counters(name string) map[string]resourceapi.Counter {
	return map[string]resourceapi.Counter{name: {Value: d.quantity()}}
}

// device draws a device, and counter sets beside it.
func (d drawn) device() (inventory.Device, []inventory.CounterSet) {
	device := inventory.Device{ID: inventory.ID{Driver: publishing, Pool: oneOf(d, "node-1", "node-1", "node-1", "node-1", "node-1", "node-1", "a/b", "a/b", "A", ""), Device: oneOf(d, "gpu-0", "gpu-0", "gpu-0", d.name())}}
	device.Attributes = make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute)
	for range oneOf(d, 0, 0, 1, 1, 2, 2, 3, 33) {
		device.Attributes[d.attributeName()] = d.attribute()
	}
	device.Capacity = make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity)
	device.Shares = oneOf(d, 0, 1, 2, 2)
	for range oneOf(d, 0, 0, 1, 1, 2) {
		capacity := resourceapi.DeviceCapacity{Value: oneOf(d, resource.MustParse("10"), d.quantity())}
		if device.Shares > 1 && d.IntN(2) == 0 || d.IntN(10) == 0 {
			capacity.RequestPolicy = d.policy()
		}
		device.Capacity[oneOf(d, "memory", d.attributeName())] = capacity
	}
	var sets []inventory.CounterSet
	for range oneOf(d, 0, 0, 0, 0, 0, 1, 1, 1, 2, 3) {
		set, counter := oneOf(d, "c", "d", d.name()), oneOf(d, "m", "n", d.name())
		if d.IntN(6) > 0 {
			sets = append(sets, inventory.CounterSet{Driver: publishing, Pool: device.Pool, CounterSet: resourceapi.CounterSet{Name: set, Counters: d.counters(counter)}})
		}
		consumption := resourceapi.DeviceCounterConsumption{CounterSet: set, Counters: d.counters(counter)}
		for range oneOf(d, 0, 0, 1, 2, 3) {
			consumption.CompatibilityGroups = append(consumption.CompatibilityGroups, d.name())
		}
		device.Consumes = append(device.Consumes, consumption)
	}
	for range oneOf(d, 0, 0, 0, 0, 0, 0, 1, 2, 17) {
		device.Taints = append(device.Taints, resourceapi.DeviceTaint{Key: oneOf(d, "example.com/a", d.name()), Value: d.name(), Effect: oneOf(d, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNone, "", "Never")})
	}
	return device, sets
}

// takes says whether the API server takes a slice of the node.
func takes(ctx context.Context, pool string, devices []resourceapi.Device, sets []resourceapi.CounterSet) error {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "drawn"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: publishing, NodeName: ptr.To("node-1"), Pool: resourceapi.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 2}, Devices: devices, SharedCounters: sets,
	}}
	_, err := client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil && !apierrors.IsInvalid(err) {
		Fail(err.Error())
	}
	return err
}

// asDrawn says whether the API server takes a device with all that it has, and its counter sets.
func asDrawn(ctx context.Context, device *inventory.Device, sets []inventory.CounterSet) bool {
	raw := resourceapi.Device{Name: device.Device, Attributes: device.Attributes, Capacity: device.Capacity, ConsumesCounters: device.Consumes, Taints: device.Taints}
	if device.Shares > 1 {
		raw.AllowMultipleAllocations = ptr.To(true)
	}
	var counterSets []resourceapi.CounterSet
	for _, set := range sets {
		counterSets = append(counterSets, set.CounterSet)
	}
	return takes(ctx, device.Pool, []resourceapi.Device{raw}, nil) == nil && (len(sets) == 0 || takes(ctx, device.Pool, nil, counterSets) == nil)
}

var _ = Describe("Publishing devices", func() {
	It("leaves out what the API server refuses, and nothing else", func(ctx SpecContext) {
		leftOut := 0
		for seed := range uint64(1500) {
			d := drawn{rand.New(rand.NewPCG(seed, 3))}
			device, sets := d.device()
			in := &inventory.Inventory{Devices: []inventory.Device{{ID: inventory.ID{Driver: publishing, Pool: "node-1", Device: "good"}}, device}, CounterSets: sets}
			for name, pool := range in.DriverResources(publishing, nil, nil).Pools {
				for _, slice := range pool.Slices {
					Expect(takes(ctx, name, slice.Devices, slice.SharedCounters)).To(Succeed(), "seed %d", seed)
				}
			}
			problems := in.Unpublished(publishing)
			// The API server does not look at other slices.
			if len(problems) == 0 || slices.ContainsFunc(problems, func(err error) bool { return strings.HasSuffix(err.Error(), ": not in the pool") }) {
				continue
			}
			leftOut++
			Expect(asDrawn(ctx, &device, sets)).To(BeFalse(), "seed %d: %v", seed, problems)
		}
		Expect(leftOut).To(And(BeNumerically(">", 300), BeNumerically("<", 1300)))
	}, SpecTimeout(10*time.Minute))
})
