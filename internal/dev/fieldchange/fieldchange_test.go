// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fieldchange_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/dev/fieldchange"
	"github.com/dray-project/dray/internal/reads"
)

// Each change changes a copy, and only that; each field of the table has a change, and one whose row is known.
func TestChanges(t *testing.T) {
	device := &resourceapi.Device{
		Name:       "d",
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: ptr.To("x")}},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {
			Value: resource.MustParse("1"), RequestPolicy: &resourceapi.CapacityRequestPolicy{ValidValues: []resource.Quantity{resource.MustParse("1")}},
		}},
		Taints:           []resourceapi.DeviceTaint{{Key: "k"}},
		ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: "s", Counters: map[string]resourceapi.Counter{"c": {}}}},
	}
	before := device.DeepCopy()
	list := fieldchange.Of(device, fieldchange.Values{
		Texts: func(string) []string { return []string{"a"} }, Keys: []string{"b"}, Quantities: []string{"1", "2"}, Numbers: []int64{7},
	})
	seen, names := map[*reads.Row]bool{}, map[string]bool{}
	for _, c := range list {
		changed := c.Apply(device, (*resourceapi.Device).DeepCopy)
		if equality.Semantic.DeepEqual(changed, before) && c.Name != "Capacity[memory].RequestPolicy.ValidValues=one less" {
			t.Errorf("%s changes nothing", c.Name)
		}
		if !equality.Semantic.DeepEqual(device, before) {
			t.Fatalf("%s changes the object itself: %s", c.Name, cmp.Diff(before, device))
		}
		if names[c.Name] {
			t.Errorf("%s is there twice", c.Name)
		}
		names[c.Name] = true
		seen[c.Row] = true
	}
	for i := range reads.Device.Rows {
		row := &reads.Device.Rows[i]
		// What is not there is added as a whole.
		if !seen[row] && row.Path != "NodeAllocatableResources" && !strings.HasPrefix(row.Path, "NodeSelector.") {
			t.Errorf("field %s is not changed by itself", row.Path)
		}
	}
}
