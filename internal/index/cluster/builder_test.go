// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"pgregory.net/rapid"

	"github.com/dray-project/dray/internal/dev/given"
	"github.com/dray-project/dray/internal/index/pool"
)

// render prints everything of a snapshot that the views of some nodes show.
func render(t interface{ Fatal(...any) }, s *Snapshot) string {
	var b strings.Builder
	for _, p := range s.Pools() {
		fmt.Fprintf(&b, "%s %d %d/%d %q %q\n", p.ID, p.Generation, p.Present, p.SliceCount, p.Incomplete, p.Invalid)
		for i := range p.Devices {
			fmt.Fprintf(&b, "  %s %v %v\n", p.Devices[i].Object.Name, p.Devices[i].Uses, p.Lookup(p.Devices[i].Object.Name))
		}
		if s.Pool(p.ID) != p {
			t.Fatal("pool is not found", p.ID)
		}
	}
	for _, name := range []string{"n0", "n1", "n2", "elsewhere"} {
		view, err := s.GatherPools(given.Node(name, "zone", name))
		if err != nil {
			fmt.Fprintf(&b, "%s: %v\n", name, err)
		} else {
			fmt.Fprintf(&b, "%s:\n%s\n", name, describe(view))
		}
	}
	return b.String()
}

// Following a cluster step by step gives what building it all at once gives, and
// earlier snapshots stay as they were.
func TestBuilderAgreesWithBuild(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBuilder(everything)
		cluster := make(map[string]*resourceapi.ResourceSlice)
		copies := make(map[*resourceapi.ResourceSlice]*resourceapi.ResourceSlice)
		var snapshots []*Snapshot
		var rendered []string
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			for range rapid.IntRange(0, 4).Draw(t, "changes") {
				slice := given.DrawSlice(t)
				if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
					b.Delete(slice.Name)
					delete(cluster, slice.Name)
				} else {
					copies[slice] = slice.DeepCopy()
					b.Set(slice)
					cluster[slice.Name] = slice
				}
			}
			s := b.Snapshot()
			snapshots, rendered = append(snapshots, s), append(rendered, render(t, s))
			atOnce := Build(everything, shuffled(t, cluster))
			if diff := cmp.Diff(render(t, atOnce), rendered[len(rendered)-1]); diff != "" {
				t.Fatalf("at once (-), step by step (+):\n%s", diff)
			}
			if s.names != atOnce.names {
				t.Fatalf("%d names of nodes at once, %d step by step", atOnce.names, s.names)
			}
		}
		for i, s := range snapshots {
			if render(t, s) != rendered[i] {
				t.Fatal("an earlier snapshot changed")
			}
		}
		for slice, before := range copies {
			if !reflect.DeepEqual(slice, before) {
				t.Fatalf("slice %s was modified", slice.Name)
			}
		}
	})
}

func shuffled(t *rapid.T, cluster map[string]*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	names := make([]string, 0, len(cluster))
	for name := range cluster {
		names = append(names, name)
	}
	slices.Sort(names)
	list := make([]*resourceapi.ResourceSlice, len(names))
	for i, name := range rapid.Permutation(names).Draw(t, "order") {
		list[i] = cluster[name]
	}
	return list
}

func TestBuilderSharesUnchangedPools(t *testing.T) {
	b := NewBuilder(everything)
	first := given.Slice("s1", "p", given.OnNode("worker"), given.Devices("a"))
	b.Set(first, given.Slice("s2", "q", given.OnNode("worker"), given.Devices("b")))
	before := b.Snapshot()
	b.Set(first)
	if b.Snapshot() != before {
		t.Error("setting the same pointers made a new snapshot")
	}
	b.Set(given.Slice("s2", "q", given.OnNode("worker"), given.Devices("c")))
	after := b.Snapshot()
	p, q := pool.ID{Driver: given.Driver, Name: "p"}, pool.ID{Driver: given.Driver, Name: "q"}
	if after.Pool(p) != before.Pool(p) {
		t.Error("the untouched pool was rebuilt")
	}
	if after.Pool(q) == before.Pool(q) {
		t.Error("the changed pool was not rebuilt")
	}
	b.Set(given.Slice("s2", "p", given.Count(2), given.OnNode("worker"), given.Devices("c")))
	if moved := b.Snapshot(); moved.Pool(q) != nil || len(moved.Pool(p).Slices) != 2 {
		t.Error("a slice that moved to another pool is not in that pool alone")
	}
	b.Delete("s1")
	b.Delete("s2")
	b.Delete("s2")
	if got := b.Snapshot(); len(got.Pools()) != 0 || !got.byNode.IsEmpty() {
		t.Errorf("pools remain: %v", got.Pools())
	}
	if len(before.Pools()) != 2 || before.Gates() != everything {
		t.Error("the first snapshot changed")
	}
}

func TestPoolsOfANodeInEarlierSnapshots(t *testing.T) {
	b := NewBuilder(everything)
	var snapshots []*Snapshot
	for _, pool := range []string{"f", "e", "d", "c", "b", "a"} {
		b.Set(given.Slice(pool, pool, given.OnNode("worker")))
		snapshots = append(snapshots, b.Snapshot())
	}
	for i, s := range snapshots {
		view, err := s.GatherPools(given.Node("worker"))
		if err != nil {
			t.Fatal(err)
		}
		if len(view.Pools) != i+1 || view.Pools[0].Pool.ID.Name != string(rune('f'-i)) || view.Pools[i].Pool.ID.Name != "f" {
			t.Errorf("snapshot %d: %s", i, describe(view))
		}
	}
}

// Shapes of the devices of a slice survive changes of other slices of the pool.
func TestShapesLiveAsLongAsTheirSlice(t *testing.T) {
	b := NewBuilder(everything)
	slice := func(name string) *resourceapi.ResourceSlice {
		return given.Slice(name, "p", given.Count(2), given.OnNode("worker"), given.Devices(name))
	}
	b.Set(slice("s1"), slice("s2"))
	before := b.Snapshot().Pools()[0].Devices
	b.Set(slice("s2"))
	after := b.Snapshot().Pools()[0].Devices
	if before[0].Shape != after[0].Shape || before[1].Shape == after[1].Shape {
		t.Error("not exactly the devices of the changed slice have another shape")
	}
}

func TestSlotsAreUsedAgain(t *testing.T) {
	b := NewBuilder(everything)
	for i := range 50 {
		b.Set(given.Slice("s", fmt.Sprint("p", i), given.OnNode("worker"), given.Devices("a")))
		b.Snapshot()
	}
	if b.slots > 2 {
		t.Errorf("%d slots for one pool at a time", b.slots)
	}
}
