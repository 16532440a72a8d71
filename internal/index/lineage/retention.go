package lineage

import (
	"runtime"
	"slices"
	"weak"
)

// retention decides for how long an Index keeps what is not asked for. There is no
// clock in here: time is counted in garbage collections, which is when it matters.
type retention struct {
	// cycle counts the collections during which anything was held.
	cycle int
	// armed is set if the next collection is going to be noticed.
	armed bool
}

// patience is the number of garbage collections for which a lineage that nobody asks
// for is kept nevertheless.
const patience = 3

// remembered is a lineage that is held, or merely known while somebody else holds it.
type remembered struct {
	weak weak.Pointer[lineage]
	held *lineage // nil after a while
	used int      // the cycle in which it was last asked for
}

func newRemembered(l *lineage) *remembered { return &remembered{weak: weak.Make(l)} }

func (r *remembered) hold(l *lineage, cycle int) { r.held, r.used = l, cycle }

func (r *remembered) value() *lineage {
	if r.held != nil {
		return r.held
	}
	return r.weak.Value()
}

// sentinel is garbage as soon as it is made. It holds a pointer, because small objects
// without any share their memory, and its life, with others.
type sentinel struct{ _ *sentinel }

// arm makes the next garbage collection call collected, unless one is going to already.
func (r *retention) arm(x *Index) {
	if r.armed {
		return
	}
	r.armed = true
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
		x.arm(x)
	}
}
