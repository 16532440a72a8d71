// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/dev/given"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/quantity"
)

func number(text string) amount.Amount { return quantity.Amount(resource.MustParse(text)) }

// Devices in use have groups, in this order, and others may join them or not.
func TestGroupsInUse(t *testing.T) {
	none, a, b, ab := []string(nil), []string{"a"}, []string{"b"}, []string{"a", "b"}
	all := [][]string{none, a, b, ab}
	for _, test := range []struct {
		name    string
		members [][]string
		admits  [4]bool // each of all
		shared  []string
	}{
		{"empty", nil, [4]bool{true, true, true, true}, none},
		{"one without groups", [][]string{none}, [4]bool{0: true}, none},
		{"one with a group", [][]string{a}, [4]bool{1: true, 3: true}, a},
		{"narrowed", [][]string{ab, b}, [4]bool{2: true, 3: true}, b},
		{"should not be: nothing in common", [][]string{a, b}, [4]bool{}, []string{}},
		{"should not be: a group after none", [][]string{none, a}, [4]bool{0: true}, none},
		{"should not be: none after a group", [][]string{a, none}, [4]bool{1: true, 3: true}, a},
	} {
		t.Run(test.name, func(t *testing.T) {
			var devices []given.SliceOption
			for i, groups := range slices.Concat(test.members, all) {
				devices = append(devices, given.Device(fmt.Sprint("d", i), given.Consumes("gpu-0", "1", groups...)))
			}
			p := Build(everything, objects{
				given.Slice("s1", "p", append(devices, given.Count(2), given.OnNode("worker"))...),
				given.Slice("s2", "p", given.Count(2), given.OnNode("worker"), given.CounterSet("gpu-0", "8")),
			}).Pools()[0]
			usage := pool.NewUsage(p, pool.Sum{}, func(i pool.DeviceIndex) pool.Use { return pool.Use{Exclusive: int(i) < len(test.members)} })
			for k, groups := range all {
				if got := usage.Admits(&p.Devices[len(test.members)+k]); got != test.admits[k] {
					t.Errorf("admits %q: %v", groups, got)
				}
			}
			shared, occupied := usage.Groups(0)
			if !slices.Equal(shared, test.shared) || (shared == nil) != (test.shared == nil) || occupied != (len(test.members) > 0) {
				t.Errorf("%q are shared, %v", shared, occupied)
			}
		})
	}
}

// Without devices that declare groups, no groups are stored.
func TestNoGroups(t *testing.T) {
	pool := Build(everything, objects{
		given.Slice("s1", "p", given.Count(2), given.OnNode("worker"), given.Device("a", given.Consumes("gpu-0", "1"))),
		given.Slice("s2", "p", given.Count(2), given.OnNode("worker"), given.CounterSet("gpu-0", "8")),
	}).Pools()[0]
	if d := &pool.Devices[0]; pool.Invalid != "" || len(d.Groups) != 0 || len(d.Uses) != 1 {
		t.Errorf("%s: groups %v, uses %v", pool.Invalid, d.Groups, d.Uses)
	}
}

func usageOf(p *pool.Pool, used ...string) *pool.Usage {
	return pool.NewUsage(p, pool.Sum{}, func(i pool.DeviceIndex) (use pool.Use) {
		for _, name := range used {
			use.Exclusive = use.Exclusive || name == p.Devices[i].Object.Name
		}
		return use
	})
}

func TestCounters(t *testing.T) {
	pool := Build(everything, given.PartitionedPool()).Pools()[0]
	if pool.CounterSets[0].Name != "gpu-0" || pool.Counters[1].Set != 1 || pool.Counters[1].Name != "memory" {
		t.Fatalf("counter sets %v, counters %v", pool.CounterSets, pool.Counters)
	}
	if got := pool.Devices[0].Groups[0].Groups; len(got) != 2 || got[0] != "x" || got[1] != "y" {
		t.Errorf("groups of a are %q, want sorted and once each", got)
	}
	if got := pool.Devices[3].Uses; len(got) != 2 || got[0].Counter != 0 || got[1].Counter != 1 {
		t.Errorf("uses of d are %v, want them sorted by counter", got)
	}
	for _, test := range []struct {
		used       []string
		gpu0, gpu1 string
	}{
		{nil, "8", "8"},
		{[]string{"a"}, "3", "8"},
		{[]string{"a", "d"}, "1", "6"},
		{[]string{"a", "c"}, "0", "8"},
		{[]string{"a", "b"}, "-1", "8"},
		{[]string{"unknown"}, "8", "8"},
	} {
		usage := usageOf(pool, test.used...)
		if usage.Left[0] != number(test.gpu0) || usage.Left[1] != number(test.gpu1) {
			t.Errorf("%q: left %v, want %s, %s", test.used, usage.Left, test.gpu0, test.gpu1)
		}
	}
}

func TestInvalidPoolsHaveNoCounters(t *testing.T) {
	list := append(given.PartitionedPool(), given.Slice("s4", "p", given.Count(4), given.Everywhere, given.Device("z", given.Consumes("gpu-2", "1"))))
	for _, slice := range list {
		slice.Spec.Pool.ResourceSliceCount = 4
	}
	pool := Build(everything, list).Pools()[0]
	if pool.Invalid == "" || len(pool.CounterSets) != 0 || len(pool.Counters) != 0 {
		t.Errorf("invalid: %q, counters: %v", pool.Invalid, pool.Counters)
	}
	for i := range pool.Devices {
		if d := &pool.Devices[i]; len(d.Uses) != 0 || len(d.Groups) != 0 || !d.ConsumesCounters {
			t.Errorf("device %d: uses %v, groups %v", i, d.Uses, d.Groups)
		}
	}
	if usage := usageOf(pool, "a", "z"); !usage.InUse(0) || len(usage.Left) != 0 {
		t.Error("wrong usage of an invalid pool")
	}
}

func TestCountersOfOneSetListedTwice(t *testing.T) {
	pool := Build(everything, objects{
		given.Slice("s1", "p", given.Count(2), given.OnNode("worker"), given.Device("a", given.Consumes("gpu-0", "5", "x"), given.Consumes("gpu-0", "2", "y"))),
		given.Slice("s2", "p", given.Count(2), given.OnNode("worker"), given.CounterSet("gpu-0", "8")),
	}).Pools()[0]
	if got := pool.Devices[0].Uses; len(got) != 1 || got[0].Amount != number("7") {
		t.Errorf("uses %v, want one of 7", got)
	}
	if got := pool.Devices[0].Groups; len(got) != 2 {
		t.Errorf("groups %v, want both entries", got)
	}
}

func TestGroupsOfDevicesInUse(t *testing.T) {
	p := Build(everything, given.PartitionedPool()).Pools()[0]
	x, y := []string{"x"}, []string{"y"}
	for _, test := range []struct {
		used             []string
		x, y, groupless  bool // what gpu-0 admits
		grouplessOnOther bool // whether gpu-1 admits a device without groups
	}{
		{nil, true, true, true, true},
		{[]string{"a"}, true, true, false, true},
		{[]string{"a", "b"}, false, true, false, true},
		{[]string{"c"}, false, false, true, true},
		// In the order of the pool, c and d come after a and change nothing.
		{[]string{"d", "c", "a"}, true, true, false, true},
	} {
		usage := usageOf(p, test.used...)
		admits := func(set pool.CounterSetIndex, groups []string) bool {
			return usage.Admits(&pool.Device{Groups: []pool.GroupUse{{Set: set, Groups: groups}}})
		}
		if admits(0, x) != test.x || admits(0, y) != test.y || admits(0, nil) != test.groupless || admits(1, nil) != test.grouplessOnOther {
			t.Errorf("%q: wrong groups", test.used)
		}
	}
}

func TestSharesAndCapacity(t *testing.T) {
	p := Build(everything, objects{
		given.Slice("s1", "p", given.Count(2), given.OnNode("worker"),
			given.Device("a", given.Multiple, given.Consumes("gpu-0", "5")), given.Device("b", given.Multiple), given.Device("c", given.Multiple), given.Device("d")),
		given.Slice("s2", "p", given.Count(2), given.OnNode("worker"), given.CounterSet("gpu-0", "8")),
	}).Pools()[0]
	bandwidth := func(q string) []pool.Consumption {
		return []pool.Consumption{{Capacity: "bandwidth", Amount: number(q)}}
	}
	uses := map[string]pool.Use{
		"a": {Shared: true, Consumed: bandwidth("3")},
		"b": {Shared: true},
		"c": {Shared: true, Consumed: bandwidth("1500m")},
		"d": {Exclusive: true},
	}
	usage := pool.NewUsage(p, pool.Sum{}, func(i pool.DeviceIndex) pool.Use { return uses[p.Devices[i].Object.Name] })
	for i, want := range []struct {
		inUse, shared bool
		consumed      string
	}{{false, true, "3"}, {false, true, "0"}, {false, true, "1500m"}, {true, false, "0"}} {
		i := pool.DeviceIndex(i)
		if usage.InUse(i) != want.inUse || usage.Shared(i) != want.shared || usage.Consumed(i, "bandwidth") != number(want.consumed) {
			t.Errorf("device %d: in use %t, shared %t, consumed %s", i, usage.InUse(i), usage.Shared(i), usage.Consumed(i, "bandwidth"))
		}
		if !usage.Consumed(i, "memory").IsZero() {
			t.Errorf("device %d: memory is consumed", i)
		}
	}
	if usage.Left[0] != number("3") {
		t.Errorf("left %s, want 3: shares charge once", usage.Left[0])
	}
}

func TestEqualNamesAreInUseTogether(t *testing.T) {
	pool := Build(everything, objects{
		given.Slice("s1", "p", given.Count(3), given.OnNode("worker"), given.Device("a", given.Consumes("gpu-0", "5"))),
		given.Slice("s2", "p", given.Count(3), given.OnNode("other"), given.Device("b"), given.Device("a", given.Consumes("gpu-0", "2"))),
		given.Slice("s3", "p", given.Count(3), given.OnNode("other"), given.CounterSet("gpu-0", "8")),
	}).Pools()[0]
	if got := pool.Lookup("a"); len(got) != 2 || got[0] != 0 || got[1] != 2 {
		t.Errorf("Lookup = %v, want 0 and 2", got)
	}
	if got := pool.Lookup("none"); len(got) != 0 {
		t.Errorf("Lookup of an unknown name = %v", got)
	}
	usage := usageOf(pool, "a")
	if !usage.InUse(0) || usage.InUse(1) || !usage.InUse(2) || usage.Left[0] != number("1") {
		t.Errorf("in use %t %t %t, left %s", usage.InUse(0), usage.InUse(1), usage.InUse(2), usage.Left[0])
	}
}

// A device whose compatibility groups do not go with those in use cannot be had.
func TestObtainableByGroup(t *testing.T) {
	p := Build(everything, objects{
		given.Slice("s1", "p", given.Count(2), given.OnNode("worker"),
			given.Device("mig", given.Consumes("gpu-0", "1", "mig")), given.Device("both", given.Consumes("gpu-0", "1", "mps", "mig")),
			given.Device("mps", given.Consumes("gpu-0", "1", "mps")), given.Device("none", given.Consumes("gpu-0", "1")),
			given.Device("other-set", given.Consumes("gpu-1", "1", "mps"))),
		given.Slice("s2", "p", given.Count(2), given.OnNode("worker"), given.CounterSet("gpu-0", "8"), given.CounterSet("gpu-1", "8")),
	}).Pools()[0]
	for used, want := range map[string]string{
		"":     "mig both mps none other-set",
		"mig":  "both other-set",
		"both": "mig mps other-set",
		"none": "other-set",
	} {
		if got := obtainable(p, usageOf(p, used)); got != want {
			t.Errorf("%q in use: %v can be had, want %s", used, got, want)
		}
	}
}

func obtainable(p *pool.Pool, usage *pool.Usage) string {
	var names []string
	for i := range p.Devices {
		if usage.Obtainable(pool.DeviceIndex(i)) {
			names = append(names, p.Devices[i].Object.Name)
		}
	}
	return strings.Join(names, " ")
}

func TestObtainable(t *testing.T) {
	p := Build(everything, objects{
		given.Slice("s1", "p", given.Count(2), given.OnNode("worker"),
			given.Device("half", given.Consumes("gpu-0", "5")), given.Device("other-half", given.Consumes("gpu-0", "5")),
			given.Device("large", given.Consumes("gpu-0", "20")), given.Device("back", given.Consumes("gpu-0", "-12")),
			given.Device("other-set", given.Consumes("gpu-1", "1")), given.Device("apart")),
		given.Slice("s2", "p", given.Count(2), given.OnNode("worker"), given.CounterSet("gpu-0", "8"), given.CounterSet("gpu-1", "8")),
	}).Pools()[0]
	for used, want := range map[string]string{
		"":      "half other-half back other-set apart",
		"half":  "back other-set apart",
		"large": "back apart", // a counter is overdrawn, and one device gives enough back
	} {
		if got := obtainable(p, usageOf(p, used)); got != want {
			t.Errorf("%q in use: %v can be had, want %s", used, got, want)
		}
	}
}
