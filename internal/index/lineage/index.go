package lineage

import (
	"runtime"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
)

// Index finds the Snapshot for a list of slices, given anew each time: what callers
// have who do not see what changed. It recognises slices by pointer, in any order. The
// list of an earlier call costs reading its pointers; one with a few changes costs the
// pools that changed and, if the order is another one, a look-up per slice. A few
// clusters may be asked for in turn. It is safe for concurrent use, and building for one
// cluster does not make the calls for another wait.
//
// What an Index knows of a cluster stays for as long as it is asked for between garbage
// collections, or a Snapshot of it is held. After that it keeps nothing alive.
type Index struct {
	gates pool.Gates
	mu    sync.Mutex
	// known are the clusters that were asked for lately, the last one first.
	known []*remembered
	retention
}

const (
	// maxLineages is how many clusters an Index remembers: a live one and those that
	// a simulation has in the works.
	maxLineages = 4
	// minSimilarity is what part of two lists together must be in both for one to be
	// taken for the other after some changes. It decides about time, not about answers.
	minSimilarity = 0.25
)

// NewIndex returns an Index without slices.
func NewIndex(gates pool.Gates) *Index { return &Index{gates: gates} }

// Snapshot returns a Snapshot of exactly the given slices, as Build does. The list may
// be modified afterwards, the slices may not.
func (x *Index) Snapshot(list []*resourceapi.ResourceSlice) *cluster.Snapshot {
	next := version{of: fingerprintOf(list)}
	if found := x.find(next.of); found != nil {
		runtime.KeepAlive(list) // until here, its addresses are those of its slices
		return found
	}
	next.sketch = sketchOf(list)
	if found, ok := x.choose(next).follow(list, next); ok {
		return found
	}
	// A slice is in the list twice. That is a mistake, but one to be counted.
	return cluster.Build(x.gates, list)
}

func (x *Index) find(of fingerprint) *cluster.Snapshot {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range x.live() {
		if found := l.snapshot(of); found != nil {
			x.use(l)
			return found
		}
	}
	return nil
}

// choose returns the lineage which a list continues, or else a new one.
func (x *Index) choose(next version) *lineage {
	x.mu.Lock()
	defer x.mu.Unlock()
	var best *lineage
	similarity := minSimilarity
	for _, l := range x.live() {
		if s := next.sketch.similarity(l.current.Load().sketch); s >= similarity && (best == nil || s > similarity) {
			best, similarity = l, s
		}
	}
	if best == nil {
		best = newLineage(x.gates, next)
	}
	x.use(best)
	return best
}

// live returns the lineages that are still there, the last used first.
func (x *Index) live() []*lineage {
	lineages := make([]*lineage, 0, maxLineages)
	for _, r := range x.known {
		if l := r.value(); l != nil {
			lineages = append(lineages, l)
		}
	}
	return lineages
}

// use puts a lineage in front and holds it.
func (x *Index) use(l *lineage) {
	at := slices.IndexFunc(x.known, func(r *remembered) bool { return r.value() == l })
	switch {
	case at == 0:
	case at > 0:
		r := x.known[at]
		x.known = slices.Insert(slices.Delete(x.known, at, at+1), 0, r)
	default:
		x.known = slices.Insert(x.known, 0, newRemembered(l))
		x.known = slices.Delete(x.known, min(len(x.known), maxLineages), len(x.known))
	}
	x.known[0].hold(l, x.cycle)
	x.arm(x)
}
