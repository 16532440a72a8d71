// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
)

func numbered(n int, change func(i int, d *resourceapi.Device)) []resourceapi.Device {
	out := make([]resourceapi.Device, n)
	for i := range out {
		out[i].Name = fmt.Sprintf("gpu-%d", i)
		if change != nil {
			change(i, &out[i])
		}
	}
	return out
}

func counterSets(n int) []resourceapi.CounterSet {
	out := make([]resourceapi.CounterSet, n)
	for i := range out {
		out[i].Name = fmt.Sprintf("c-%d", i)
	}
	return out
}

func addOneTaint(_ int, d *resourceapi.Device) { d.Taints = []resourceapi.DeviceTaint{taint("k")} }

// lengths are devices, or counter sets as negative numbers.
func lengths(parts []Slice) []int {
	var out []int
	for _, part := range parts {
		out = append(out, len(part.Devices)-len(part.SharedCounters))
	}
	return out
}

func TestSplit(t *testing.T) {
	attribute := resourceapi.FullyQualifiedName("gpu.example.com/profile")
	for name, test := range map[string]struct {
		content Slice
		want    []int
	}{
		"nothing":   {Slice{}, []int{0}},
		"128":       {Slice{Devices: numbered(128, nil)}, []int{128}},
		"129":       {Slice{Devices: numbered(129, nil)}, []int{128, 1}},
		"64 taints": {Slice{Devices: numbered(64, addOneTaint)}, []int{64}},
		"65 taints": {Slice{Devices: numbered(65, addOneTaint)}, []int{64, 1}},
		"65 that consume counters": {Slice{Devices: numbered(65, func(_ int, d *resourceapi.Device) {
			d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "c-0"}}
		}), SharedCounters: counterSets(1)}, []int{-1, 64, 1}},
		"65 with lists": {Slice{Devices: numbered(65, func(_ int, d *resourceapi.Device) {
			d.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"l": {StringValues: []string{"x"}}}
		})}, []int{64, 1}},
		"a taint late": {Slice{Devices: numbered(100, func(i int, d *resourceapi.Device) {
			if i == 80 {
				addOneTaint(i, d)
			}
		})}, []int{80, 20}},
		"9 counter sets": {Slice{SharedCounters: counterSets(9)}, []int{-8, -1}},
	} {
		t.Run(name, func(t *testing.T) {
			test.content.PartitionTypeAttribute = &attribute
			got := Split(nil, test.content)
			if !slices.Equal(lengths(got), test.want) {
				t.Errorf("lengths %v, want %v", lengths(got), test.want)
			}
			var all []resourceapi.Device
			for _, part := range got {
				all = append(all, part.Devices...)
				consumes := len(part.Devices) > 0 && len(part.Devices[0].ConsumesCounters) > 0
				if (part.PartitionTypeAttribute != nil) != consumes {
					t.Errorf("partition type attribute %v of a slice that consumes counters: %v", part.PartitionTypeAttribute, consumes)
				}
			}
			if !DevicesDeepEqual(all, test.content.Devices) {
				t.Errorf("devices are lost, or in another order")
			}
		})
	}
}

// TestSplitStable: a change of one device changes one slice, or two if it has to move.
func TestSplitStable(t *testing.T) {
	content := Slice{Devices: numbered(500, nil), SharedCounters: counterSets(20)}
	before := Split(nil, content)
	for name, test := range map[string]struct {
		change  func(*Slice)
		changed int
	}{
		"nothing":                 {func(*Slice) {}, 0},
		"an attribute":            {func(s *Slice) { s.Devices[200] = device(s.Devices[200].Name, "new") }, 1},
		"a device goes":           {func(s *Slice) { s.Devices = slices.Delete(s.Devices, 200, 201) }, 1},
		"a device comes":          {func(s *Slice) { s.Devices = slices.Insert(s.Devices, 200, device("new", "new")) }, 1},
		"a taint where 128 are":   {func(s *Slice) { addOneTaint(0, &s.Devices[200]) }, 3},
		"a taint where room is":   {func(s *Slice) { addOneTaint(0, &s.Devices[499]) }, 3},
		"a counter set goes":      {func(s *Slice) { s.SharedCounters = slices.Delete(s.SharedCounters, 3, 4) }, 1},
		"a counter set comes":     {func(s *Slice) { s.SharedCounters = append(s.SharedCounters, resourceapi.CounterSet{Name: "new"}) }, 1},
		"the devices of a slice":  {func(s *Slice) { s.Devices = slices.Delete(s.Devices, 128, 256) }, 1},
		"the devices of the last": {func(s *Slice) { s.Devices = s.Devices[:384] }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			after := Slice{Devices: slices.Clone(content.Devices), SharedCounters: slices.Clone(content.SharedCounters)}
			test.change(&after)
			got := Split(before, after)
			if changed := countChanged(before, got); changed > test.changed || (changed == 0) != (test.changed == 0) {
				t.Errorf("%d slices changed, want %d; lengths %v, before %v", changed, test.changed, lengths(got), lengths(before))
			}
			checkValid(t, got, after)
		})
	}
}

func countChanged(before, after []Slice) int {
	changed := max(len(before), len(after)) - min(len(before), len(after))
	for i := range min(len(before), len(after)) {
		if !sameSlice(&before[i], &after[i]) {
			changed++
		}
	}
	return changed
}

// checkValid compares parts with what the API permits, and with all of content.
func checkValid(t *testing.T, parts []Slice, content Slice) {
	t.Helper()
	var devices, counterSets []string
	for i, part := range parts {
		limited := slices.ContainsFunc(part.Devices, func(d resourceapi.Device) bool { return len(d.Taints)+len(d.ConsumesCounters) > 0 })
		if len(part.Devices) > 128 || limited && len(part.Devices) > 64 || len(part.SharedCounters) > 8 || len(part.Devices) > 0 && len(part.SharedCounters) > 0 {
			t.Errorf("slice %d has %d devices, limited %v, and %d counter sets", i, len(part.Devices), limited, len(part.SharedCounters))
		}
		for _, device := range part.Devices {
			devices = append(devices, device.Name)
		}
		for _, counterSet := range part.SharedCounters {
			counterSets = append(counterSets, counterSet.Name)
		}
	}
	var wantDevices, wantCounterSets []string
	for _, device := range content.Devices {
		wantDevices = append(wantDevices, device.Name)
	}
	for _, counterSet := range content.SharedCounters {
		wantCounterSets = append(wantCounterSets, counterSet.Name)
	}
	for _, names := range [][]string{devices, counterSets, wantDevices, wantCounterSets} {
		slices.Sort(names)
	}
	if !slices.Equal(devices, wantDevices) || !slices.Equal(counterSets, wantCounterSets) {
		t.Errorf("%d devices and %d counter sets came of %d and %d, or others", len(devices), len(counterSets), len(wantDevices), len(wantCounterSets))
	}
}

// TestSplitRandomly: a long life of changes leaves all slices valid and nothing lost.
func TestSplitRandomly(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var parts []Slice
	for range 300 {
		present := 50 + random.IntN(50)
		content := Slice{SharedCounters: counterSets(random.IntN(30))}
		for i, device := range numbered(400, nil) {
			if random.IntN(100) >= present {
				continue
			}
			if random.IntN(10) == 0 {
				addOneTaint(i, &device)
			}
			content.Devices = append(content.Devices, device)
		}
		random.Shuffle(len(content.Devices), func(i, j int) {
			content.Devices[i], content.Devices[j] = content.Devices[j], content.Devices[i]
		})
		parts = Split(parts, content)
		checkValid(t, parts, content)
	}
}

// TestEvict: devices leave a part until it is within its limit. Those that impose the lower limit leave first, and the last ones first.
func TestEvict(t *testing.T) {
	plain, limited := resourceapi.Device{}, resourceapi.Device{Taints: []resourceapi.DeviceTaint{{}}}
	for name, test := range map[string]struct {
		count   int
		limited []int
		want    []int
	}{
		"no limit":              {128, nil, nil},
		"the first is limited":  {128, []int{0}, []int{0}},
		"the last is limited":   {128, []int{127}, []int{127}},
		"two are limited":       {128, []int{0, 5}, []int{5, 0}},
		"few with some limited": {64, []int{0, 63}, nil},
		"one too many":          {65, []int{0, 7, 9}, []int{9}},
		"all are limited": {66, func() (all []int) {
			for i := range 66 {
				all = append(all, i)
			}
			return all
		}(), []int{65, 64}},
		"more than there may be": {130, nil, []int{129, 128}},
	} {
		devices, p := make([]resourceapi.Device, test.count), &part{}
		for i := range devices {
			devices[i] = plain
			if slices.Contains(test.limited, i) {
				devices[i] = limited
			}
			p.add(i, slices.Contains(test.limited, i))
		}
		got := p.evict(devices)
		left := 0
		for _, i := range p.devices {
			if isLimited(&devices[i]) {
				left++
			}
		}
		if !slices.Equal(got, test.want) || len(p.devices)+len(got) != test.count || left != p.limited || !slices.IsSorted(p.devices) {
			t.Errorf("%s: %v leave, want %v; %d stay, of which %d are limited, counted %d", name, got, test.want, len(p.devices), left, p.limited)
		}
	}
}
