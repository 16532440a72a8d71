package allocator

import (
	"github.com/bits-and-blooms/bitset"
	resourceapi "k8s.io/api/resource/v1"
)

// foresight is what a search works with once it has come to a dead end: what is viable
// for the requests to come, which of them ask for the same, what cannot be told apart,
// and which states are known to fail.
type foresight struct {
	demands  []demand
	demandOf []int32 // by alternative
	twins    []int32 // by position of a request, see twins.go
	floors   []floor // by group of twins
	// positions numbers requests in first-fit order: that of a claim's first request.
	positions []int
	requests  []*request
	// dangers is the position after the last request at which looking can be an error.
	dangers int
	errs    []bool // by alternative
	// dead alternatives are under no solution, nor error, see probe.go and overfull.go. By
	// alternative.
	dead []bool
	// errorsAt are the devices at which the entry among the openings meets its error.
	errorsAt *bitset.BitSet
	// components are what devices that share counter sets have in common.
	components  []component
	componentOf []int32 // by device, -1 without counters
	// classes are interchangeable devices, nil until somebody wants to know.
	classes []int32
	known   keys
	// values are tables by claim and constraint, nil for one that was left out.
	values             [][]*valueTable
	matches, distincts []*valueTable
	// tables are those that there were, for use again.
	tables  []*valueTable
	nogoods nogoods
	focus   focus
	// sizes are sets of demands that ask for much, see sizes.go.
	sizes []*bitset.BitSet
	// atRisk tells of a claim that it may ask for more devices than it can hold.
	atRisk []bool
	// later are, by position of a request, the demands of it and those after it.
	later [][]int32

	// What follows is room to work in.
	space     *room
	open      []opening
	possible  []*alternative
	covered   []opening
	sized     []opening
	crowd     []opening
	sharing   []opening
	reserved  []opening
	narrowed  []opening
	differ    *bitset.BitSet
	ofValue   []int32
	supports  []support
	prospects []prospect
	unions    []*bitset.BitSet
	scratch   *bitset.BitSet
	matching  matching
	blamed    blamed
}

// claimConstraint is the position of a constraint.
type claimConstraint struct{ claim, position int }

// foresee prepares for a search that looks ahead, from its root.
func (s *search) foresee() {
	f := &s.ahead
	s.foresight = f
	f.space, f.scratch, f.errorsAt = s.space, s.space.set(len(s.in.devices)), s.space.set(len(s.in.devices))
	f.dead = s.space.flags.take(len(s.in.alternatives))
	f.number(s)
	f.focus.prepare(s, len(f.requests))
	f.addOversized(s)
	f.addDemands(s)
	f.components, f.componentOf = s.in.counters().components, s.in.counters().componentOf
	f.addSizes()
	f.addDangers(s)
	f.addTwins(s)
	f.addLater(s)
	f.addRisks(s)
	f.addValues(s)
	f.matching.prepare(s)
	for d := range f.demands {
		s.recheckAll(&f.demands[d], f.demands[d].viable)
	}
	s.dropUnsupported()
}

// clear leaves nothing but memory.
func (f *foresight) clear() {
	clear(f.demands)
	clear(f.requests)
	clear(f.matches)
	clear(f.distincts)
	clear(f.open[:cap(f.open)])
	clear(f.possible[:cap(f.possible)])
	clear(f.covered[:cap(f.covered)])
	clear(f.sized[:cap(f.sized)])
	clear(f.crowd[:cap(f.crowd)])
	clear(f.sharing[:cap(f.sharing)])
	clear(f.reserved[:cap(f.reserved)])
	clear(f.narrowed[:cap(f.narrowed)])
	clear(f.prospects[:cap(f.prospects)])
	clear(f.unions[:cap(f.unions)])
	clear(f.nogoods.residue.parts[:cap(f.nogoods.residue.parts)])
	for _, t := range f.tables {
		clear(t.ids)
		*t = valueTable{ids: t.ids, demands: t.demands[:0]}
	}
	f.known.clear()
	*f = foresight{
		known:   f.known,
		focus:   focus{blamed: f.focus.blamed[:0]},
		demands: f.demands[:0], requests: f.requests[:0], matches: f.matches[:0], distincts: f.distincts[:0],
		floors: f.floors[:0], positions: f.positions[:0],
		open: f.open[:0], possible: f.possible[:0], sized: f.sized[:0], crowd: f.crowd[:0], sharing: f.sharing[:0], reserved: f.reserved[:0], covered: f.covered[:0], narrowed: f.narrowed[:0], prospects: f.prospects[:0],
		supports: f.supports[:0], ofValue: f.ofValue[:0], unions: f.unions[:0], tables: f.tables,
		matching: f.matching.emptied(), nogoods: nogoods{residue: f.nogoods.residue.emptied()},
	}
}

// number gives requests their positions.
func (f *foresight) number(s *search) {
	for c := range s.in.problem.claims {
		f.positions = append(f.positions, len(f.requests))
		requests := s.in.problem.claims[c].requests
		for r := range requests {
			f.requests = append(f.requests, &requests[r])
		}
	}
}

func (f *foresight) position(alt *alternative) int { return f.positions[alt.claim] + alt.request }

// omits reports whether a request has been left out of the problem.
func (s *search) omits(position int) bool {
	alt := s.foresight.requests[position].alternatives[0]
	return s.omitted.request(alt.claim, alt.request)
}

// left reports whether a request has neither been left out nor set aside.
func (s *search) left(position int) bool {
	return !s.foresight.focus.aside[position] && !s.omits(position)
}

// addLater lists what is demanded from each request on.
func (f *foresight) addLater(s *search) {
	f.later = s.space.lists.take(len(f.requests) + 1)
	seen := s.space.set(len(f.demands))
	f.later[len(f.requests)] = s.space.counts.take(len(f.demands))[:0]
	for p := len(f.requests) - 1; p >= 0; p-- {
		f.later[p] = f.later[p+1] // that is the beginning of it
		if !s.left(p) {
			continue
		}
		for _, alt := range f.requests[p].alternatives {
			if d := f.demandOf[alt.id]; !seen.Test(uint(d)) {
				seen.Set(uint(d))
				f.later[p] = append(f.later[p], d)
			}
		}
	}
}

func (f *foresight) addRisks(s *search) {
	f.atRisk = s.space.flags.take(len(s.in.problem.claims))
	for c := range f.atRisk {
		most := 0
		for _, r := range s.in.problem.claims[c].requests {
			largest := 0
			for _, alt := range r.alternatives {
				largest = max(largest, s.in.alternatives[alt.id].needed)
			}
			most += largest
		}
		f.atRisk[c] = most > resourceapi.AllocationResultsMaxSize
	}
}
