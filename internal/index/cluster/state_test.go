// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/dev/given"
	"github.com/dray-project/dray/internal/index/pool"
)

// The usage of a pool is computed when it is first read, and not kept longer than the pool exists.
func TestRebaseComputesAhead(t *testing.T) {
	b := NewBuilder(everything)
	b.Set(given.Slice("s1", "p", given.Everywhere, given.Devices("a")))
	u, err := NewState(b.Snapshot()).Assume(given.Claim("c", []string{"a"}))
	if err != nil {
		t.Fatal(err)
	}
	b.Set(given.Slice("s1", "p", given.Everywhere, given.Devices("b", "a")), given.Slice("s2", "q", given.Everywhere, given.Devices("x")))
	s := b.Snapshot()
	u = u.Rebase(s)
	for _, p := range s.Pools() {
		if known := u.pools.Get(p.Slot); known == nil || known.Pool() != p {
			t.Errorf("the usage of %s was not computed ahead", p.ID)
		}
	}
	if p := s.Pool(pool.ID{Driver: given.Driver, Name: "p"}); u.Pool(p).InUse(0) || !u.Pool(p).InUse(1) {
		t.Error("the claim does not hold the device at its new position, or another one")
	}
	slot := s.Pool(pool.ID{Driver: given.Driver, Name: "q"}).Slot
	b.Delete("s2")
	if u = u.Rebase(b.Snapshot()); u.pools.Get(slot) != nil {
		t.Error("the usage of a pool that is gone is kept")
	}
}

// Claims of many pools, which come in any order, are assumed at once as one after the other, on a state that has some already.
func TestAssumeAllOfManyPools(t *testing.T) {
	const count = 3 * fewPools
	var list []*resourceapi.ResourceSlice
	for n := range count {
		list = append(list, given.Slice(fmt.Sprint("s", n), fmt.Sprint("p", n), given.Everywhere, given.Devices("a", "b", "c")))
	}
	var claims []*resourceapi.ResourceClaim
	for i, device := range []string{"a", "b"} {
		for n := range count + 1 { // the last pool is not there
			claims = append(claims, given.Claim(fmt.Sprint(i, "-", n), []string{device}, given.InPool(fmt.Sprint("p", n))))
		}
	}
	one := NewState(Build(everything, list))
	assumeAll := func(u *State, claims []*resourceapi.ResourceClaim) *State {
		u, err := u.AssumeAll(claims)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	all := assumeAll(one, claims[:3])
	all = assumeAll(all, claims[3:])
	for _, claim := range claims {
		one = assumeAll(one, []*resourceapi.ResourceClaim{claim})
	}
	for _, p := range one.Snapshot().Pools() {
		for i, device := range p.Devices {
			id := p.DeviceID(pool.DeviceIndex(i))
			if used := device.Object.Name != "c"; one.Pool(p).InUse(pool.DeviceIndex(i)) != used || all.Pool(p).InUse(pool.DeviceIndex(i)) != used {
				t.Errorf("%s is to be in use: %t", id, used)
			}
			if !slices.Equal(one.Holders(id), all.Holders(id)) {
				t.Errorf("%s is held by %v, one after the other by %v", id, all.Holders(id), one.Holders(id))
			}
		}
	}
}

// Nothing is in use in a nil State.
func TestNilState(t *testing.T) {
	p := Build(everything, given.PartitionedPool()).Pools()[0]
	var none *State
	if none.Pool(p) != p.Idle() {
		t.Error("a nil State has something in use")
	}
}

// Pools of one snapshot make another one, in which they can be in use as they are elsewhere.
func TestSnapshotOfPools(t *testing.T) {
	all := Build(everything, []*resourceapi.ResourceSlice{
		given.Slice("s1", "p", given.Everywhere, given.Devices("a", "b")), given.Slice("s2", "q", given.Everywhere, given.Devices("x")),
		given.Slice("s3", "r", given.Everywhere, given.Devices("y")),
	})
	elsewhere, err := NewState(all).Assume(given.Claim("c", []string{"b"}))
	if err != nil {
		t.Fatal(err)
	}
	p, q := all.Pools()[0], all.Pools()[1]
	some := Of(everything, []*pool.Pool{q, p})
	if got := some.Pools(); !slices.Equal(got, []*pool.Pool{p, q}) || some.Gates() != everything {
		t.Errorf("the pools are %v", got)
	}
	view, err := some.GatherPools(&corev1.Node{})
	if err != nil || len(view.Pools) != 2 || view.Pools[0].Pool != p || view.Pools[1].Pool != q {
		t.Errorf("a node reaches %v, %v", view.Pools, err)
	}
	u := NewUsedState(some, []*pool.Usage{elsewhere.Pool(p)})
	if u.Snapshot() != some || u.Pool(p) != elsewhere.Pool(p) || !u.Pool(p).InUse(1) || u.Pool(q) != q.Idle() {
		t.Error("other devices are in use than is given")
	}
}

func TestNumbersOfAPlace(t *testing.T) {
	s := Build(everything, []*resourceapi.ResourceSlice{given.Slice("s", "p", given.OnNode("worker"), given.Devices("d0", "d1"))})
	place := s.Place(given.Node("worker"))
	idle := NewState(s)
	used, err := idle.Assume(given.Claim("one", []string{"d0"}))
	if err != nil {
		t.Fatal(err)
	}
	check := func(of any, u *State, want uint32) {
		t.Helper()
		if number, known := place.Number(of, u); known != (want != 0) || known && number != want {
			t.Errorf("the number for %v is %d, %t, want %d", of, number, known, want)
		}
	}
	check("a", idle, 0)
	place.SetNumber("a", idle, 1)
	place.SetNumber("b", used, 2)
	check("a", idle, 1)
	check("a", used, 0)
	check("b", used, 2)
	place.SetNumber("a", used, 3)
	check("a", used, 3)
	check("a", idle, 0)
	check("b", used, 2)
	for i := range 2 * maxStateNotes {
		place.SetNumber(i, used, 4)
		check(i, used, 4)
	}
	check("a", used, 0)
}
