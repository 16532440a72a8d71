package lineage

import (
	"runtime"
	"sync"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
)

// lineage is one cluster, followed from list to list. It is safe for concurrent use:
// readers of the current version take no lock.
type lineage struct {
	current atomic.Pointer[version]
	mu      sync.Mutex // held while the lineage follows a list
	builder *cluster.Builder
	// list is the last list that was followed.
	list []*resourceapi.ResourceSlice
	// sources has the slices of the list, in no order, and places where each of them is.
	sources []*pool.Source
	places  map[*resourceapi.ResourceSlice]int
}

// version is a set of slices and its Snapshot. It is immutable. As long as it is the
// current version of its lineage, the slices live, so that the fingerprint is theirs.
type version struct {
	of     fingerprint
	sketch sketch
	// snapshot is nil in the version which says what a new lineage is going to follow.
	snapshot *cluster.Snapshot
}

// unplaced marks a slice that is about to be added.
const unplaced = -1

func newLineage(gates pool.Gates, first version) *lineage {
	l := &lineage{builder: cluster.NewBuilder(gates), places: make(map[*resourceapi.ResourceSlice]int)}
	l.builder.Keep(l)
	l.current.Store(&first)
	return l
}

// snapshot returns the Snapshot of the set if that is what the lineage is at.
func (l *lineage) snapshot(of fingerprint) *cluster.Snapshot {
	if now := l.current.Load(); now.of == of {
		return now.snapshot
	}
	return nil
}

// follow makes the list the lineage's current one, of the version next but for the
// Snapshot, which it returns. It is false, and the lineage as it was, if a slice is in the
// list twice.
func (l *lineage) follow(list []*resourceapi.ResourceSlice, next version) (*cluster.Snapshot, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.snapshot(next.of); known != nil {
		return known, true
	}
	arrived, departed, ok := l.compare(list)
	if !ok {
		return nil, false
	}
	// Adding first keeps the shapes that old and new slices share.
	for i, slice := range arrived {
		var old *pool.Source
		if i < len(departed) {
			old = l.sources[l.places[departed[i]]] // most likely what it replaces
		}
		l.add(slice, old)
	}
	for _, slice := range departed {
		l.remove(slice)
	}
	l.setList(list)
	next.snapshot = l.builder.Snapshot()
	l.current.Store(&next)
	runtime.KeepAlive(departed) // while the last version is the current one
	return next.snapshot, true
}

func (l *lineage) setList(list []*resourceapi.ResourceSlice) {
	if len(list) < len(l.list) {
		clear(l.list[len(list):])
	}
	l.list = append(l.list[:0], list...)
}

// compare tells what a list has more and less than the last one. It is false if a slice
// is in the list twice; otherwise new slices are marked as such.
func (l *lineage) compare(list []*resourceapi.ResourceSlice) (arrived, departed []*resourceapi.ResourceSlice, ok bool) {
	before, after := differing(l.list, list)
	seen := make([]bool, len(l.sources))
	kept := 0
	for _, slice := range after {
		place, known := l.places[slice]
		switch {
		case slice == nil:
		case !known:
			l.places[slice] = unplaced
			arrived = append(arrived, slice)
		case place == unplaced || seen[place]:
			l.unmark(arrived)
			return nil, nil, false
		default:
			seen[place] = true
			kept++
		}
	}
	departed, left := l.departed(before, seen)
	// A slice that was kept, and in the same place as well, is in the list twice.
	if kept != left {
		l.unmark(arrived)
		return nil, nil, false
	}
	return arrived, departed, true
}

// departed returns those that were not seen of a part of the last list, and how many were.
func (l *lineage) departed(before []*resourceapi.ResourceSlice, seen []bool) (departed []*resourceapi.ResourceSlice, left int) {
	if len(before) == len(l.list) {
		// Going by place spares looking all of them up.
		for place, s := range l.sources {
			if !seen[place] {
				departed = append(departed, s.Object)
			}
		}
		return departed, len(seen) - len(departed)
	}
	for _, slice := range before {
		switch {
		case slice == nil:
		case seen[l.places[slice]]:
			left++
		default:
			departed = append(departed, slice)
		}
	}
	return departed, left
}

func (l *lineage) unmark(arrived []*resourceapi.ResourceSlice) {
	for _, slice := range arrived {
		delete(l.places, slice)
	}
}

// differing leaves out what two lists have in the same place, counted from the start or
// from the end: between lists of one order, all that did not change. Lists of different
// orders are returned as they are.
func differing(a, b []*resourceapi.ResourceSlice) (x, y []*resourceapi.ResourceSlice) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a) != len(b) {
		return a, b
	}
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		if 16*len(x) > len(a) {
			return a, b
		}
		x, y = append(x, a[i]), append(y, b[i])
	}
	return x, y
}

func (l *lineage) add(slice *resourceapi.ResourceSlice, old *pool.Source) {
	l.places[slice] = len(l.sources)
	l.sources = append(l.sources, l.builder.Add(slice, old))
}

func (l *lineage) remove(slice *resourceapi.ResourceSlice) {
	place, last := l.places[slice], len(l.sources)-1
	l.builder.Remove(l.sources[place])
	l.sources[place] = l.sources[last]
	l.places[l.sources[place].Object] = place
	l.sources[last] = nil
	l.sources = l.sources[:last]
	delete(l.places, slice)
}
