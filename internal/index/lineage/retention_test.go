// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package lineage

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
	"weak"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/dev/given"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
)

// manyPools are n slices, each the only one of a pool of its own.
func manyPools(name string, n int) objects {
	var list objects
	for i := range n {
		pool := fmt.Sprintf("%s-%d", name, i)
		list = append(list, given.Slice(pool, pool, given.OnNode(pool), given.Devices("d")))
	}
	return list
}

// collect runs garbage collections until done, and what follows from them.
func collect(done func() bool) bool {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		runtime.GC()
		// Cleanups run in a goroutine of the runtime.
		for range 100 {
			if done() {
				return true
			}
			time.Sleep(100 * time.Microsecond)
		}
	}
	return false
}

func TestIndexKeepsNothingDeadAlive(t *testing.T) {
	index := NewIndex(everything)
	var watched []weak.Pointer[resourceapi.ResourceSlice]
	func() {
		for i := range 2 * maxLineages {
			list := manyPools(fmt.Sprint("cluster", i), 100)
			index.Snapshot(list)
			for _, slice := range list {
				watched = append(watched, weak.Make(slice))
			}
		}
	}()
	if !collect(func() bool {
		for _, slice := range watched {
			if slice.Value() != nil {
				return false
			}
		}
		return true
	}) {
		t.Error("slices of a cluster that nobody uses are kept alive")
	}
	runtime.KeepAlive(index)
}

func TestDroppedIndexDies(t *testing.T) {
	list := manyPools("a", 10)
	watched := func() weak.Pointer[Index] {
		index := NewIndex(everything)
		index.Snapshot(list)
		return weak.Make(index)
	}()
	if !collect(func() bool { return watched.Value() == nil }) {
		t.Error("an index is kept alive by what it holds")
	}
}

func TestIndexFindsWhatOthersHold(t *testing.T) {
	index, list := NewIndex(everything), manyPools("a", 100)
	snapshot := index.Snapshot(list)
	// What others hold, and nobody asks for, is held by them alone.
	unheld := manyPools("b", 100)
	dropped := weak.Make(index.Snapshot(unheld))
	if !collect(func() bool { return dropped.Value() == nil }) {
		t.Fatal("the index holds what is not asked for")
	}
	if index.Snapshot(list) != snapshot {
		t.Error("a snapshot that is held was built again")
	}
}

func TestIndexKeepsWhatIsAskedFor(t *testing.T) {
	index, list := NewIndex(everything), manyPools("a", 100)
	first := weak.Make(index.Snapshot(list))
	for range 10 {
		runtime.GC()
		time.Sleep(time.Millisecond)
		if index.Snapshot(list) != first.Value() {
			t.Fatal("a cluster that is asked for all the time was built again")
		}
	}
}

// A simulator alternates between the live cluster and some hypothetical ones.
func TestIndexAlternatesBetweenClusters(t *testing.T) {
	index := NewIndex(everything)
	var lists []objects
	var snapshots []*cluster.Snapshot
	for i := range maxLineages {
		lists = append(lists, manyPools(fmt.Sprint("cluster", i), 300))
		snapshots = append(snapshots, index.Snapshot(lists[i]))
	}
	for turn := range 3 * maxLineages {
		i := turn % maxLineages
		if index.Snapshot(lists[i]) != snapshots[i] {
			t.Errorf("cluster %d was built again", i)
		}
	}
	grown := append(manyPools("new", 30), lists[0]...)
	if index.Snapshot(grown).Pool(pool.ID{Driver: given.Driver, Name: "cluster0-7"}) != snapshots[0].Pool(pool.ID{Driver: given.Driver, Name: "cluster0-7"}) {
		t.Error("a cluster with more nodes was built anew")
	}
	if index.Snapshot(lists[1]) != snapshots[1] {
		t.Error("a change of one cluster made the index forget another one")
	}
}

func TestIndexConcurrently(t *testing.T) {
	index := NewIndex(everything)
	var lists []objects
	for i := range 2 * maxLineages {
		lists = append(lists, manyPools(fmt.Sprint("cluster", i%maxLineages), 40))
	}
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 100 {
				list := lists[(worker*i)%len(lists)]
				list = list[i%5:]
				s := index.Snapshot(list)
				if got := len(s.Pools()); got != len(list) || s.Pool(pool.ID{Driver: given.Driver, Name: list[3].Name}).Slices[0].Object != list[3] {
					t.Errorf("a snapshot of another list, with %d pools", got)
				}
				if i%20 == 0 {
					runtime.GC()
				}
			}
		})
	}
	group.Wait()
}

// A driver that publishes its slices again, all the same, does not leave the old ones
// behind, although what is known of their devices goes on.
func TestReplacedSlicesAreCollected(t *testing.T) {
	builder := cluster.NewBuilder(everything)
	var old []weak.Pointer[string]
	var replacements objects
	func() {
		for n := range 50 {
			slice := fleetSlice(n)
			for i := range slice.Spec.Devices {
				for _, attribute := range slice.Spec.Devices[i].Attributes {
					if attribute.StringValue != nil {
						old = append(old, weak.Make(attribute.StringValue))
					}
				}
			}
			builder.Set(slice)
			replacements = append(replacements, slice.DeepCopy())
		}
		builder.Snapshot()
	}()
	builder.Set(replacements...)
	snapshot := builder.Snapshot()
	if !collect(func() bool {
		for _, attribute := range old {
			if attribute.Value() != nil {
				return false
			}
		}
		return true
	}) {
		t.Error("attributes of slices that were replaced are kept alive")
	}
	runtime.KeepAlive(snapshot)
	runtime.KeepAlive(replacements)
}
