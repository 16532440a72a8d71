package pools

import (
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
)

// Index finds the Snapshot for a list of slices, given anew each time: what callers
// have who do not see what changed. It recognises slices by pointer, in any order, so
// that a list with a few changes costs the pools that changed and one look-up per slice,
// and the list of the last call next to nothing. It is safe for concurrent use.
//
// It keeps the slices of the last call alive.
type Index struct {
	mu      sync.Mutex
	builder *Builder
	held    map[*resourceapi.ResourceSlice]*heldSlice
	last    []*resourceapi.ResourceSlice
	round   int
}

// heldSlice is a slice of the last call, or of the one before while a call is served.
type heldSlice struct {
	source *source
	// round is that of the last call which had the slice.
	round int
}

// NewIndex returns an Index without slices.
func NewIndex(gates Gates) *Index {
	return &Index{builder: NewBuilder(gates), held: make(map[*resourceapi.ResourceSlice]*heldSlice)}
}

// Snapshot returns a Snapshot of exactly the given slices, as Build does. The list may
// be modified afterwards, the slices may not.
func (x *Index) Snapshot(list []*resourceapi.ResourceSlice) *Snapshot {
	x.mu.Lock()
	defer x.mu.Unlock()
	if slices.Equal(list, x.last) {
		return x.builder.last
	}
	if !x.hold(list) {
		return Build(x.builder.gates, list)
	}
	x.last = slices.Clone(list)
	return x.builder.Snapshot()
}

// hold makes the builder hold what is in the list. A list with a slice in it twice is
// refused, with the builder as it was: that is a mistake, but one to be counted.
func (x *Index) hold(list []*resourceapi.ResourceSlice) bool {
	x.round++
	kept := 0
	var added []*resourceapi.ResourceSlice
	for _, slice := range list {
		held := x.held[slice]
		switch {
		case slice == nil:
		case held == nil:
			added = append(added, slice)
			x.held[slice] = &heldSlice{round: x.round}
		case held.round == x.round:
			x.forget(added)
			return false
		default:
			held.round = x.round
			kept++
		}
	}
	// Adding first keeps the shapes that old and new slices share.
	for _, slice := range added {
		x.held[slice].source = x.builder.add(slice)
	}
	if kept+len(added) < len(x.held) {
		x.drop()
	}
	return true
}

func (x *Index) forget(added []*resourceapi.ResourceSlice) {
	for _, slice := range added {
		delete(x.held, slice)
	}
}

// drop removes the slices that the current call does not have.
func (x *Index) drop() {
	for slice, held := range x.held {
		if held.round != x.round {
			x.builder.remove(held.source)
			delete(x.held, slice)
		}
	}
}
