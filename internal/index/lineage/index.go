package lineage

import (
	"runtime"
	"slices"
	"sync"
	"weak"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
)

// Index is that of package pools.
type Index struct {
	gates pool.Gates
	mu    sync.Mutex
	// known are the clusters that were asked for lately, the last one first.
	known []*remembered
	// cycle counts the garbage collections during which anything was held: there is no clock in
	// here. armed is set if the next one is going to be noticed.
	cycle int
	armed bool
}

const (
	// maxLineages is how many clusters an Index remembers: a live one and those that
	// a simulation has in the works.
	maxLineages = 4
	// minSimilarity is what part of two lists together must be in both for one to be
	// taken for the other after some changes. It decides about time, not about answers.
	minSimilarity = 0.25
	// patience is the number of garbage collections for which a lineage that nobody asks
	// for is kept nevertheless.
	patience = 3
)

// remembered is a lineage that is held, or merely known while somebody else holds it.
type remembered struct {
	weak weak.Pointer[lineage]
	held *lineage // nil after a while
	used int      // the cycle in which it was last asked for
}

func (r *remembered) value() *lineage {
	if r.held != nil {
		return r.held
	}
	return r.weak.Value()
}

// NewIndex returns an Index without slices.
func NewIndex(gates pool.Gates) *Index { return &Index{gates: gates} }

// Snapshot returns a Snapshot of exactly the given slices, as Build does. The list may
// be modified afterwards, the slices may not.
func (x *Index) Snapshot(list []*resourceapi.ResourceSlice) *cluster.Snapshot {
	if found := x.step(list); found != nil {
		return found
	}
	of := fingerprintOf(list)
	l, found := x.find(list, of)
	if found == nil {
		var ok bool
		if found, ok = l.follow(list, of); !ok {
			// A slice is in the list twice. That is a mistake, but one to be counted.
			found = cluster.Build(x.gates, list)
		}
	}
	runtime.KeepAlive(list) // until here, its addresses are those of its slices
	return found
}

// step returns the Snapshot if the list is the last one of the lineage used last, but for a few slices in
// one place. That is found out by comparing pointers, which costs a tenth of a fingerprint.
func (x *Index) step(list []*resourceapi.ResourceSlice) *cluster.Snapshot {
	last := x.last()
	if last == nil {
		return nil
	}
	found := last.step(list)
	if found != nil {
		x.mu.Lock()
		x.use(last)
		x.mu.Unlock()
	}
	return found
}

// last returns the lineage used last, nil if it is gone.
func (x *Index) last() *lineage {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.known) == 0 {
		return nil
	}
	return x.known[0].value()
}

// find returns the lineage that is at a list, with its Snapshot if that is built, or else the one which the
// list continues, which may be a new one.
func (x *Index) find(list []*resourceapi.ResourceSlice, of fingerprint) (*lineage, *cluster.Snapshot) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var best *lineage
	similarity := minSimilarity
	for _, l := range x.live() {
		now := l.current.Load()
		if now.of == of {
			x.use(l)
			return l, now.snapshot
		}
		if s := now.similarity(list, of.count); s >= similarity && (best == nil || s > similarity) {
			best, similarity = l, s
		}
	}
	if best == nil {
		best = newLineage(x.gates, of)
	}
	x.use(best)
	return best, nil
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
	if at < 0 {
		at = len(x.known)
		x.known = append(x.known, &remembered{weak: weak.Make(l)})
	}
	r := x.known[at]
	r.held, r.used = l, x.cycle
	x.known = slices.Insert(slices.Delete(x.known, at, at+1), 0, r)
	x.known = slices.Delete(x.known, min(len(x.known), maxLineages), len(x.known))
	x.arm()
}

// sentinel is garbage as soon as it is made. It holds a pointer, because small objects
// without any share their memory, and its life, with others.
type sentinel struct{ _ *sentinel }

// arm makes the next garbage collection call collected, unless one is going to already.
func (x *Index) arm() {
	if x.armed {
		return
	}
	x.armed = true
	// Weakly, so that an Index that is dropped does not wait to be used up.
	runtime.AddCleanup(new(sentinel), func(index weak.Pointer[Index]) {
		if x := index.Value(); x != nil {
			x.collected()
		}
	}, weak.Make(x))
}

// collected lets go of what was not asked for during the last few garbage collections.
func (x *Index) collected() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cycle++
	x.armed = false
	holding := false
	for _, r := range x.known {
		if r.held != nil && x.cycle-r.used > patience {
			r.held = nil
		}
		holding = holding || r.held != nil
	}
	x.known = slices.DeleteFunc(x.known, func(r *remembered) bool { return r.value() == nil })
	if holding {
		x.arm()
	}
}
