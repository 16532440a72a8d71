// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/dev/given"
)

// A number in a tally is that of the state in which the place is, whatever was allocated
// and released since it was given, and whoever else keeps tallies.
func TestTally(t *testing.T) {
	const nodes = 3 * 64
	list := append(manyPools("a", nodes), given.Slice("common", "common", given.Everywhere, given.Devices("c")))
	snapshot := Build(everything, list)
	var asked []*corev1.Node
	for i := range nodes {
		asked = append(asked, given.Node(fmt.Sprintf("a-%d", i)))
	}
	places, usage, random := snapshot.Places(asked), NewState(snapshot), rand.New(rand.NewPCG(1, 1))
	held := make(map[string]*resourceapi.ResourceClaim)
	known, given := 0, 0
	for range 400 {
		usage = flip(t, usage, held, random)
		of := []string{"x", "y"}[random.IntN(2)]
		tally := places.Tally(of, usage)
		if tally == nil {
			t.Fatal("no tally for the usage of the snapshot")
		}
		for i := range nodes {
			want := stateOf(places.At(i), usage, of)
			switch got := tally.Number(i); got {
			case want:
				known++
			case 0:
				given++
				tally.Set(i, want)
			default:
				t.Fatalf("node %d has number %d on behalf of %s, want %d", i, got, of, want)
			}
		}
		tally.Keep()
	}
	// A change of the common pool concerns all nodes, and is every 32nd or so.
	if known < 4*given {
		t.Errorf("%d numbers were known and %d were not", known, given)
	}
	other := NewState(Build(everything, manyPools("a", nodes)))
	if places.Tally("x", other) != nil {
		t.Error("a tally for the usage of another snapshot")
	}
}

// stateOf is a number that is different for different states.
func stateOf(place *Place, u *State, of string) uint32 {
	number := uint32(of[0])
	for _, v := range place.Pools {
		number = number<<8 + uint32(u.Pool(v.Pool).Serial%251) + 1
	}
	return number
}

// flip allocates or releases the device of a pool.
func flip(t *testing.T, u *State, held map[string]*resourceapi.ResourceClaim, random *rand.Rand) *State {
	t.Helper()
	pool, device := fmt.Sprintf("a-%d", random.IntN(192)), "d"
	if random.IntN(32) == 0 {
		pool, device = "common", "c"
	}
	change, claim := u.Forget, held[pool]
	delete(held, pool)
	if claim == nil {
		claim = given.Claim("of-"+pool, []string{device}, given.InPool(pool))
		change, held[pool] = u.Assume, claim
	}
	next, err := change(claim)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// The places of the last list are remembered for that list, and for no other one.
func TestPlacesOfOtherLists(t *testing.T) {
	snapshot := Build(everything, manyPools("a", 2))
	asked := []*corev1.Node{given.Node("a-0"), given.Node("a-1")}
	first := snapshot.Places(asked)
	if snapshot.Places(asked) != first {
		t.Error("the places of a list are found again")
	}
	asked[0], asked[1] = asked[1], asked[0] // the list is not kept
	if turned := snapshot.Places(asked); turned.At(0) != first.At(1) || turned.At(1) != first.At(0) || first.At(0) == first.At(1) {
		t.Error("the places are those of another list")
	}
}

// With many users, the latest are remembered.
func TestTalliesAreBounded(t *testing.T) {
	snapshot := Build(everything, manyPools("a", 2))
	places, usage := snapshot.Places([]*corev1.Node{given.Node("a-0"), given.Node("a-1")}), NewState(snapshot)
	for of := range 3 * maxTallies {
		tally := places.Tally(of, usage)
		tally.Set(0, 7)
		tally.Keep()
	}
	for of := range 3 * maxTallies {
		tally := places.Tally(of, usage)
		if remembered := tally.Number(0) == 7; remembered != (of >= 2*maxTallies) || tally.Number(1) != 0 {
			t.Errorf("user %d of %d: numbers %d and %d", of, 3*maxTallies, tally.Number(0), tally.Number(1))
		}
	}
}
