package pools

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"pgregory.net/rapid"
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
		view, err := s.GatherPools(newNode(name, "zone", name))
		if err != nil {
			fmt.Fprintf(&b, "%s: %v\n", name, err)
		} else {
			fmt.Fprintf(&b, "%s:\n%s\n", name, describe(view))
		}
	}
	return b.String()
}

func drawSlice(t *rapid.T) *resourceapi.ResourceSlice {
	options := []sliceOption{
		driver(rapid.SampledFrom([]string{"a.example.com", "b.example.com"}).Draw(t, "driver")),
		generation(rapid.Int64Range(1, 2).Draw(t, "generation"), rapid.Int64Range(1, 3).Draw(t, "count")),
	}
	node := rapid.SampledFrom([]string{"n0", "n1", "n2"}).Draw(t, "node")
	reach := []sliceOption{everywhere, onNode(node), onNode(node), selecting(inZone(node, "n0")), perDevice, func(*resourceapi.ResourceSlice) {}}
	if rapid.IntRange(0, 30).Draw(t, "unparsable") == 0 {
		reach = []sliceOption{selecting(unparsable())}
	}
	options = append(options, rapid.SampledFrom(reach).Draw(t, "reach"))
	for range rapid.IntRange(0, 3).Draw(t, "devices") {
		name := rapid.SampledFrom([]string{"d0", "d1", "d2", "d3", "d4", "d5"}).Draw(t, "device")
		options = append(options, device(name, rapid.SampledFrom([]func(*resourceapi.Device){
			deviceOnNode(node), multiple, binding("Ready"), consumes("set", "1"), attribute("model", resourceapi.DeviceAttribute{StringValue: &node}),
		}).Draw(t, "kind")))
	}
	if rapid.IntRange(0, 3).Draw(t, "counters") == 0 {
		options = append(options, counterSet("set", "4"))
	}
	name := rapid.SampledFrom([]string{"s0", "s1", "s2", "s3", "s4"}).Draw(t, "name")
	return newSlice(name, rapid.SampledFrom([]string{"p", "q"}).Draw(t, "pool"), options...)
}

// Following a cluster step by step gives what building it all at once gives, and
// earlier snapshots stay as they were.
func TestBuilderAgreesWithBuild(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBuilder(allGates)
		cluster := make(map[string]*resourceapi.ResourceSlice)
		copies := make(map[*resourceapi.ResourceSlice]*resourceapi.ResourceSlice)
		var snapshots []*Snapshot
		var rendered []string
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			for range rapid.IntRange(0, 4).Draw(t, "changes") {
				slice := drawSlice(t)
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
			if diff := cmp.Diff(render(t, Build(allGates, shuffled(t, cluster))), rendered[len(rendered)-1]); diff != "" {
				t.Fatalf("at once (-), step by step (+):\n%s", diff)
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
	b := NewBuilder(allGates)
	first := newSlice("s1", "p", onNode("worker"), devices("a"))
	b.Set(first, newSlice("s2", "q", onNode("worker"), devices("b")))
	before := b.Snapshot()
	b.Set(first)
	if b.Snapshot() != before {
		t.Error("setting the same pointers made a new snapshot")
	}
	b.Set(newSlice("s2", "q", onNode("worker"), devices("c")))
	after := b.Snapshot()
	p, q := PoolID{testDriver, "p"}, PoolID{testDriver, "q"}
	if after.Pool(p) != before.Pool(p) {
		t.Error("the untouched pool was rebuilt")
	}
	if after.Pool(q) == before.Pool(q) {
		t.Error("the changed pool was not rebuilt")
	}
	b.Set(newSlice("s2", "p", count(2), onNode("worker"), devices("c")))
	if moved := b.Snapshot(); moved.Pool(q) != nil || len(moved.Pool(p).Slices) != 2 {
		t.Error("a slice that moved to another pool is not in that pool alone")
	}
	b.Delete("s1")
	b.Delete("s2")
	b.Delete("s2")
	if got := b.Snapshot(); len(got.Pools()) != 0 || got.byNode.Len() != 0 {
		t.Errorf("pools remain: %v", got.Pools())
	}
	if len(before.Pools()) != 2 || before.Gates() != allGates {
		t.Error("the first snapshot changed")
	}
}

func TestPoolsOfANodeInEarlierSnapshots(t *testing.T) {
	b := NewBuilder(allGates)
	var snapshots []*Snapshot
	for _, pool := range []string{"f", "e", "d", "c", "b", "a"} {
		b.Set(newSlice(pool, pool, onNode("worker")))
		snapshots = append(snapshots, b.Snapshot())
	}
	for i, s := range snapshots {
		view, err := s.GatherPools(newNode("worker"))
		if err != nil {
			t.Fatal(err)
		}
		if len(view.Pools) != i+1 || view.Pools[0].Pool.ID.Name != string(rune('f'-i)) || view.Pools[i].Pool.ID.Name != "f" {
			t.Errorf("snapshot %d: %s", i, describe(view))
		}
	}
}

func TestShapesAreSharedAndForgotten(t *testing.T) {
	b := NewBuilder(allGates)
	model := func(name string) func(*resourceapi.Device) {
		return attribute("model", resourceapi.DeviceAttribute{StringValue: &name})
	}
	slice := func(name string, models ...string) *resourceapi.ResourceSlice {
		s := newSlice(name, name, onNode("worker"))
		for i, m := range models {
			device(fmt.Sprint(i), model(m), capacity("memory", "40Gi"))(s)
		}
		return s
	}
	b.Set(slice("s1", "a", "a", "b"), slice("s2", "b"))
	s := b.Snapshot()
	one, two := s.Pools()[0].Devices, s.Pools()[1].Devices
	if one[0].Shape != one[1].Shape || one[0].Shape == one[2].Shape || one[2].Shape != two[0].Shape {
		t.Error("not exactly the devices alike share a shape")
	}
	for i := range 100 {
		b.Set(slice("s1", "b", "a", fmt.Sprint("churn", i)))
	}
	if got := b.Snapshot().Pools()[0].Devices[0].Shape; got != two[0].Shape {
		t.Error("a shape that others use as well was replaced")
	}
	if got := len(b.shapes.byHash); got != 3 {
		t.Errorf("%d shapes are interned, want 3", got)
	}
	b.Delete("s1")
	b.Delete("s2")
	if got := len(b.shapes.byHash); got != 0 {
		t.Errorf("%d shapes are left over", got)
	}
}

func TestSlotsAreUsedAgain(t *testing.T) {
	b := NewBuilder(allGates)
	for i := range 50 {
		b.Set(newSlice("s", fmt.Sprint("p", i), onNode("worker"), devices("a")))
		b.Snapshot()
	}
	if b.slots > 2 {
		t.Errorf("%d slots for one pool at a time", b.slots)
	}
}
