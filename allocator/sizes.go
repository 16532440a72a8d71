package allocator

import (
	"slices"

	"github.com/bits-and-blooms/bitset"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/amount"
)

// Matchings count the shares of a device by the smallest that anybody asks for, so many
// requests for little hide that there is too little room for those who ask for much. What
// asks for much has to fit by itself, too: sizes are the sets of demands to look at alone. In the same
// way, shares of a device that draws on a counter set hide that there is too little left of
// the set for those who need several of its devices.

// maxSizes bounds how many sets are looked at for each decision.
const maxSizes = 8

// addSizes collects, for each demand and capacity, the demands that take at least as much.
func (f *foresight) addSizes() {
	var names []resourceapi.QualifiedName
	for d := range f.demands {
		for _, use := range f.demands[d].b.domain.uses {
			for _, part := range use.parts {
				if !slices.Contains(names, part.name) {
					names = append(names, part.name)
				}
			}
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for d := range f.demands {
			f.addSize(d, name)
		}
	}
}

func (f *foresight) addSize(d int, name resourceapi.QualifiedName) {
	size := f.space.set(len(f.demands))
	for other := range f.demands {
		if f.takesAsMuch(other, d, name) {
			size.Set(uint(other))
		}
	}
	if int(size.Count()) == len(f.demands) || len(f.sizes) >= maxSizes ||
		slices.ContainsFunc(f.sizes, func(known *bitset.BitSet) bool { return known.Equal(size) }) {
		return
	}
	f.sizes = append(f.sizes, size)
}

// takesAsMuch reports whether a demand takes no less of a capacity than another one does,
// whichever device both can have.
func (f *foresight) takesAsMuch(demand, other int, name resourceapi.QualifiedName) bool {
	more, less := &f.demands[demand], &f.demands[other]
	for i, use := range more.b.domain.uses {
		if than := less.b.domain.uses[i]; than != nil && takenOf(use, name).Cmp(takenOf(than, name)) < 0 {
			return false
		}
	}
	return true
}

func takenOf(use *consumption, name resourceapi.QualifiedName) amount.Amount {
	for _, part := range use.parts {
		if part.name == name {
			return part.taken
		}
	}
	return amount.Amount{}
}

// cramped tries a matching of those openings that take as much as some demand does, of what
// they all need beside shares, of the first party alone, and of those that need the devices of
// one bin. A solution serves any selection of openings.
func (s *search) cramped(open []opening) bool {
	for _, size := range s.foresight.sizes {
		if s.crampedAmong(open, func(o *opening) bool { return s.foresight.within(o, size) }) {
			return true
		}
	}
	m := &s.foresight.matching
	if m.shareable && s.scarce(open) {
		return true
	}
	if m.copied && s.crampedAmong(open, func(o *opening) bool { return o.party == 0 }) {
		return true
	}
	for b := range m.bins {
		if m.bins[b].shareable && s.crampedAmong(open, func(o *opening) bool { return m.drawsOn(o, int32(b)) }) {
			return true
		}
	}
	return false
}

// scarce tries a matching with the devices that are not shared. An alternative that asks for
// several devices needs some of them, though a share is enough for another one that asks for
// few, and the other way round.
func (s *search) scarce(open []opening) bool {
	if !slices.ContainsFunc(open, func(o opening) bool { return len(o.possible) > 1 }) {
		return false
	}
	f := s.foresight
	f.sized = f.sized[:0]
	for _, o := range open {
		if o.entry {
			continue
		}
		least := o.slots
		for _, alt := range o.possible {
			shares := f.demand(alt).viable.IntersectionCardinality(f.matching.multiple)
			least = min(least, s.neededBy(&o, alt)-int(shares))
		}
		if o.slots = least; least > 0 {
			viable := f.union(len(s.in.devices))
			o.viable.CopyFull(viable)
			viable.InPlaceDifference(f.matching.multiple)
			o.viable = viable
			f.sized = append(f.sized, o)
		}
	}
	return s.unmatchable(f.sized)
}

// crampedAmong tries a matching of some openings, and of those that need all devices which they
// can have: what these take of them is sure.
func (s *search) crampedAmong(open []opening, chosen func(*opening) bool) bool {
	f, some := s.foresight, false
	f.sized = f.sized[:0]
	for i := range open {
		o := &open[i]
		isChosen := chosen(o)
		some = some || isChosen
		if isChosen || !o.entry && o.count() == o.slots {
			f.sized = append(f.sized, *o)
		}
	}
	return some && len(f.sized) < len(open) && s.unmatchable(f.sized)
}

func (s *search) unmatchable(open []opening) bool {
	m := &s.foresight.matching
	m.begin(s, open)
	m.groupByCounters()
	return m.fails()
}

// drawsOn reports whether an opening needs devices of a bin, as there are too few others.
func (m *matching) drawsOn(o *opening, b int32) bool {
	others := 0
	for i, ok := o.next(0); ok && others < o.slots; i, ok = o.next(i + 1) {
		if m.binOf[i] != b {
			others++
		}
	}
	return others < o.slots
}

// within reports whether all that an opening can still ask for is in a set of demands.
func (f *foresight) within(o *opening, size *bitset.BitSet) bool {
	for _, alt := range o.possible {
		if !size.Test(uint(f.demandOf[alt.id])) {
			return false
		}
	}
	return true
}
