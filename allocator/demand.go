package allocator

import (
	"slices"

	"github.com/bits-and-blooms/bitset"
)

// demand is what alternatives that ask for the same ask of each device. Requests by the
// dozen often do.
type demand struct {
	alt *alternative // one of them
	b   *bound
	// viable are the candidates that nothing stands against now. Refusals are for good,
	// so it only shrinks on the way down.
	viable *bitset.BitSet
	// values are numbers of the values that a device offers to each constraint of alt.
	values [][][]int32
}

// sameDemand reports whether two alternatives meet the same refusals.
func sameDemand(a, b *alternative) bool {
	if a.filter != b.filter || len(a.constraints) != len(b.constraints) {
		return false
	}
	if a.claim != b.claim && (len(a.constraints) > 0 || a.admin) {
		return false
	}
	return slices.Equal(a.constraints, b.constraints) && slices.EqualFunc(a.derived, b.derived, func(x, y derivedAttribute) bool {
		return x.name == y.name && x.expression == y.expression
	})
}

// addDemands sorts all alternatives that are not left out by what they demand.
func (f *foresight) addDemands(s *search) {
	f.demandOf = s.space.counts.take(len(s.in.alternatives))
	s.in.problem.alternatives(func(_ *claim, alt *alternative) {
		if s.omitted.request(alt.claim, alt.request) {
			return
		}
		for d := range f.demands {
			if sameDemand(f.demands[d].alt, alt) {
				f.demandOf[alt.id] = int32(d)
				return
			}
		}
		f.demandOf[alt.id] = int32(len(f.demands))
		b := &s.in.alternatives[alt.id]
		f.demands = append(f.demands, demand{alt: alt, b: b, viable: s.space.clone(b.domain.allowed)})
	})
}

func (f *foresight) demand(alt *alternative) *demand { return &f.demands[f.demandOf[alt.id]] }

// narrow takes from what is viable what a choice that was just committed stands against.
func (s *search) narrow(alt *alternative, device int32, charged bool) {
	f := s.foresight
	component := int32(-1)
	if charged {
		component = f.componentOf[device]
	}
	for d := range f.demands {
		other := &f.demands[d]
		switch {
		case related(alt, other.alt):
			s.recheckAll(other, other.viable)
		case component >= 0:
			f.scratch.ClearAll()
			f.scratch.InPlaceUnion(other.viable)
			f.scratch.InPlaceIntersection(f.components[component].members)
			s.recheckAll(other, f.scratch)
		}
		if other.viable.Test(uint(device)) {
			s.recheck(other, device)
		}
	}
}

// related reports whether some constraint covers both alternatives.
func related(a, b *alternative) bool {
	return a.claim == b.claim && slices.ContainsFunc(a.constraints, b.covered)
}

func (s *search) recheckAll(d *demand, devices *bitset.BitSet) {
	for i, ok := devices.NextSet(0); ok; i, ok = devices.NextSet(i + 1) {
		s.recheck(d, int32(i))
	}
}

// rechecksPerStep is how many devices are checked ahead for the price of a step.
const rechecksPerStep = 16

// pay counts rechecks as steps.
func (s *search) pay(rechecks int) {
	s.rechecks += int64(rechecks)
	s.stats.Steps += s.rechecks / rechecksPerStep
	s.rechecks %= rechecksPerStep
}

// recheck keeps devices at which looking is an error: they end the search, they do not fail.
func (s *search) recheck(d *demand, i int32) {
	s.pay(1)
	why, _ := s.refusal(d.alt, d.b, i)
	if why == refusedError {
		s.err = nil
	} else if why != accepted {
		words := d.viable.Words()
		s.words.set(&words[i/64], words[i/64]&^(1<<(i%64)))
	}
}
