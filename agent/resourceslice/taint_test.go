// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func taint(key string, at ...time.Time) resourceapi.DeviceTaint {
	out := resourceapi.DeviceTaint{Key: key, Effect: resourceapi.DeviceTaintEffectNoSchedule}
	if len(at) > 0 {
		out.TimeAdded = &metav1.Time{Time: at[0]}
	}
	return out
}

// TestTaintTimes: the API server adds times; they stay with their taints, and are no
// reason to write.
func TestTaintTimes(t *testing.T) {
	s := newServer()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s.drop = func(spec *resourceapi.ResourceSliceSpec) { // as the API server adds them
		at = at.Add(time.Hour)
		for i := range spec.Devices {
			for j := range spec.Devices[i].Taints {
				if taint := &spec.Devices[i].Taints[j]; taint.TimeAdded == nil {
					taint.TimeAdded = &metav1.Time{Time: at}
				}
			}
		}
	}
	play(t, "dray", s, func(t *testing.T, c publisher, log *errorLog) {
		update := func(writes int, resources *DriverResources, hours ...int) {
			t.Helper()
			before := c.writes()
			c.Update(resources)
			after(2 * time.Minute)
			if got := c.writes() - before; got != writes {
				t.Errorf("%d writes, want %d", got, writes)
			}
			for i, taint := range s.slices(t)[0].Spec.Devices[0].Taints {
				if got := taint.TimeAdded.UTC().Hour(); got != hours[i] {
					t.Errorf("taint %s was added at %d h, want %d h", taint.Key, got, hours[i])
				}
			}
		}
		update(1, pool(sliceWith(tainted("a", taint("k")))), 4)
		update(0, pool(sliceWith(tainted("a", taint("k")))), 4)
		update(1, pool(sliceWith(tainted("a", taint("k"), taint("l")))), 4, 5)
		set := time.Date(2026, 1, 1, 12, 0, 0, 400_000_000, time.UTC)
		update(1, pool(sliceWith(tainted("a", taint("k", set)))), 12)
		if got := s.slices(t)[0].Spec.Devices[0].Taints[0].TimeAdded; got.Nanosecond() != 0 {
			t.Errorf("published %v", got)
		}
		update(0, pool(sliceWith(tainted("a", taint("k", set.Add(time.Millisecond))))), 12)
		if errs := log.all(); len(errs) > 0 {
			t.Errorf("errors %v", errs)
		}
	})
}

// TestDroppedFields: what the API server cannot store is reported once per Update,
// and not written again in between.
func TestDroppedFields(t *testing.T) {
	for gate, test := range map[string]struct {
		slice Slice
		drop  func(*resourceapi.ResourceSliceSpec)
	}{
		"DRADeviceTaints": {sliceWith(tainted("a", taint("k"))), func(s *resourceapi.ResourceSliceSpec) { s.Devices[0].Taints = nil }},
		"DRAPartitionableDevices": {Slice{Devices: devices("a").Devices, PerDeviceNodeSelection: ptr.To(true)},
			func(s *resourceapi.ResourceSliceSpec) { s.PerDeviceNodeSelection = nil }},
		"DRADeviceBindingConditions": {sliceWith(resourceapi.Device{Name: "a", BindingConditions: []string{"c"}}),
			func(s *resourceapi.ResourceSliceSpec) { s.Devices[0].BindingConditions = nil }},
		"DRAConsumableCapacity": {sliceWith(resourceapi.Device{Name: "a", AllowMultipleAllocations: ptr.To(true)}),
			func(s *resourceapi.ResourceSliceSpec) { s.Devices[0].AllowMultipleAllocations = nil }},
		"DRAPartitionableDevicesType": {Slice{Devices: devices("a").Devices, PartitionTypeAttribute: new(resourceapi.FullyQualifiedName)},
			func(s *resourceapi.ResourceSliceSpec) { s.PartitionTypeAttribute = nil }},
		"DRAOptionalNodeOperations": {Slice{Devices: devices("a").Devices, SkipNodeOperations: []resourceapi.SkipNodeOperation{"*"}},
			func(s *resourceapi.ResourceSliceSpec) { s.SkipNodeOperations = nil }},
		"DRANodeAllocatableResources": {sliceWith(resourceapi.Device{Name: "a", NodeAllocatableResources: map[v1ResourceName]resourceapi.NodeAllocatableResource{"cpu": {}}}),
			func(s *resourceapi.ResourceSliceSpec) { s.Devices[0].NodeAllocatableResources = nil }},
		"DRAListTypeAttributes": {sliceWith(resourceapi.Device{Name: "a", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"l": {IntValues: []int64{1}}}}),
			func(s *resourceapi.ResourceSliceSpec) { s.Devices[0].Attributes = nil }},
	} {
		t.Run(gate, func(t *testing.T) {
			s := newServer()
			s.drop = test.drop
			play(t, "dray", s, func(t *testing.T, c publisher, log *errorLog) {
				for updates := 1; updates <= 2; updates++ {
					c.Update(pool(test.slice))
					after(10 * time.Minute)
					errs := log.all()
					var dropped *DroppedFieldsError
					if len(errs) != updates || !errors.As(errs[updates-1], &dropped) {
						t.Fatalf("errors %v, want one per update", errs)
					}
					if got := dropped.DisabledFeatures(); !slices.Equal(got, []string{gate}) || !strings.Contains(dropped.Error(), gate) {
						t.Errorf("features %q, error %q, want %s", got, dropped, gate)
					}
					if c.writes() != updates {
						t.Errorf("%d writes after %d updates", c.writes(), updates)
					}
				}
				// The gate is on now, and the driver says nothing else than before.
				s.mutex.Lock()
				s.drop = nil
				s.mutex.Unlock()
				c.Update(pool(test.slice))
				after(10 * time.Minute)
				if got := s.slices(t)[0]; len(log.all()) != 2 || !sameStored(&test.slice, sliceOf(&got.Spec)) {
					t.Errorf("published %v, errors %v", got.Spec, log.all())
				}
			})
		})
	}
}

func TestTaintAll(t *testing.T) {
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("gpu-%d", i))
	}
	before := pool(devices(names...), sliceWith(tainted("old", taint("lost"))), Slice{SharedCounters: []resourceapi.CounterSet{{Name: "c"}}})
	got := TaintAll(before, taint("lost"))
	var lengths []int
	for _, slice := range got.Pools[node].Slices {
		lengths = append(lengths, len(slice.Devices))
		for _, device := range slice.Devices {
			if len(device.Taints) != 1 || device.Taints[0].Key != "lost" {
				t.Errorf("device %s has taints %v", device.Name, device.Taints)
			}
		}
	}
	if !slices.Equal(lengths, []int{64, 1, 0, 36}) {
		t.Errorf("slices of %v devices", lengths)
	}
	if got := before.Pools[node].Slices; len(got) != 3 || len(got[0].Devices[0].Taints) != 0 {
		t.Errorf("the argument was modified")
	}
	// One of the same key has another effect, and one of the same effect another key.
	stays := taint("lost")
	stays.Effect = resourceapi.DeviceTaintEffectNoExecute
	got = TaintAll(pool(sliceWith(tainted("d", stays, taint("old")))), taint("lost"))
	if got := got.Pools[node].Slices[0].Devices[0].Taints; len(got) != 3 || got[2] != taint("lost") {
		t.Errorf("a device with other taints has %v", got)
	}
	if got := TaintAll(nil, taint("lost")); len(got.Pools) != 0 {
		t.Errorf("got pools %v", got.Pools)
	}
}
