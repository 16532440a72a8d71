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
	// list is the last list that was followed, known has its slices.
	list  []*resourceapi.ResourceSlice
	known map[*resourceapi.ResourceSlice]*followed
	turn  int // counts the lists
}

// followed is a slice of a lineage.
type followed struct {
	source *pool.Source // nil until it is added
	turn   int          // of the last list in which it was seen
}

// version is a set of slices and its Snapshot. It is immutable. As long as it is the
// current version of its lineage, the slices live, so that the fingerprint is theirs.
type version struct {
	of     fingerprint
	sketch sketch
	// drift is how many slices came or went since the sketch was made.
	drift int
	// snapshot is nil in the version which says what a new lineage is going to follow.
	snapshot *cluster.Snapshot
}

func newLineage(gates pool.Gates, first version) *lineage {
	l := &lineage{builder: cluster.NewBuilder(gates), known: make(map[*resourceapi.ResourceSlice]*followed)}
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

// maxDrift is what part of the slices, as a divisor, may come or go before there is a new sketch.
const maxDrift = 8

// step follows a list that differs from the last one in a few slices in one place. It is nil, and the
// lineage as it was, if there is more to it, or somebody else changes the lineage at the moment.
func (l *lineage) step(list []*resourceapi.ResourceSlice) *cluster.Snapshot {
	if !l.mu.TryLock() {
		return nil
	}
	defer l.mu.Unlock()
	now := l.current.Load()
	before, after := differing(l.list, list)
	changed := len(before) + len(after)
	switch {
	case now.snapshot == nil || now.drift+changed > len(list)/maxDrift:
		return nil
	case changed == 0:
		return now.snapshot
	}
	found, _ := l.move(list, version{of: now.of.change(before, after), sketch: now.sketch, drift: now.drift + changed})
	return found
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
	return l.move(list, next)
}

// move is follow for a list that is another one, with mu held.
func (l *lineage) move(list []*resourceapi.ResourceSlice, next version) (*cluster.Snapshot, bool) {
	arrived, departed, ok := l.compare(list)
	if !ok {
		return nil, false
	}
	for _, slice := range arrived {
		l.known[slice].source = l.builder.Add(slice)
	}
	for _, slice := range departed {
		l.builder.Remove(l.known[slice].source)
		delete(l.known, slice)
	}
	same := 0
	for same < min(len(l.list), len(list)) && l.list[same] == list[same] {
		same++
	}
	clear(l.list[same:]) // lest a longer list keeps its slices
	l.list = append(l.list[:same], list[same:]...)
	next.snapshot = l.builder.Snapshot()
	l.current.Store(&next)
	runtime.KeepAlive(departed) // while the last version is the current one
	return next.snapshot, true
}

// compare tells what a list has more and less than the last one. It is false if a slice
// is in the list twice; otherwise new slices are known, but not added.
func (l *lineage) compare(list []*resourceapi.ResourceSlice) (arrived, departed []*resourceapi.ResourceSlice, ok bool) {
	l.turn++
	before, after := differing(l.list, list)
	stayed, twice := 0, false
	for _, slice := range after {
		switch known := l.known[slice]; {
		case slice == nil:
		case known == nil:
			l.known[slice] = &followed{turn: l.turn}
			arrived = append(arrived, slice)
		case known.turn == l.turn:
			twice = true
		default:
			known.turn = l.turn
			stayed++
		}
	}
	for _, slice := range before {
		switch {
		case slice == nil:
		case l.known[slice].turn == l.turn:
			stayed--
		default:
			departed = append(departed, slice)
		}
	}
	// One that stayed, and is in what the lists have in common as well, is in the list twice.
	if twice || stayed != 0 {
		for _, slice := range arrived {
			delete(l.known, slice)
		}
		return nil, nil, false
	}
	return arrived, departed, true
}

// differing leaves out how two lists begin and end alike: between lists of one order, most of what did
// not change.
func differing(a, b []*resourceapi.ResourceSlice) (x, y []*resourceapi.ResourceSlice) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}
