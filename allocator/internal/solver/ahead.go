package solver

import (
	"slices"

	"github.com/bits-and-blooms/bitset"
)

// ahead is what a search works with once it has come to a dead end.
type ahead struct {
	// viable are the candidates by domain that nothing stands against. A refusal is for
	// good, so they only become fewer on the way down.
	viable      []*bitset.BitSet
	propagators []propagator
	rivals      []*bitset.BitSet // by domain
	flow        flow
	shareable   []int32 // devices
	// offering is room, by domain, for the viable devices that offer a value, served for what they serve.
	offering []*bitset.BitSet
	served   []opening
	// open and possible are what openings lists, unions the sets in it, of which used are in
	// use. covered is room for the openings of a relation.
	open, covered []opening
	possible      []*Option
	unions        []*bitset.BitSet
	used          int
}

// propagator finds out that the open requests cannot all be served. It may only look at what
// is open: what comes after may never be reached.
type propagator interface {
	// fails reports whether it can be excluded that all openings are served, and if so
	// which of them stand in each other's way. They are good until the next call.
	fails(s *search, open []opening) ([]opening, bool)
}

// lookAhead prepares for a search that looks ahead, from its root.
func (s *search) lookAhead() {
	a := &ahead{
		flow: s.newFlow(), viable: s.memory.setLists.Take(len(s.p.Domains)), offering: s.memory.setLists.Take(len(s.p.Domains)), rivals: s.newRivals(),
		open: s.memory.openings.Empty(len(s.p.Requests)), covered: s.memory.openings.Empty(len(s.p.Requests)), served: s.memory.openings.Empty(len(s.p.Requests)),
	}
	s.ahead = a
	for i := range s.p.Devices {
		if s.p.Devices[i].Shareable {
			a.shareable = append(a.shareable, int32(i))
		}
	}
	for d := range s.p.Domains {
		a.viable[d] = s.memory.sets.Clone(s.p.Domains[d].Allowed)
		a.offering[d] = s.memory.sets.New(len(s.p.Devices))
	}
	s.addPropagators()
	for d, viable := range a.viable {
		for i, ok := viable.NextSet(0); ok; i, ok = viable.NextSet(i + 1) {
			s.recheck(uint(d), i)
		}
	}
	if s.rules&RuleRootSupport != 0 && s.lastStop == 0 {
		s.dropUnsupported()
	}
}

// addPropagators is the register of propagators: a new kind is one line here.
func (s *search) addPropagators() {
	list := append(s.ahead.propagators, counting{})
	if s.rules&RuleFlow != 0 {
		list = append(list, assignment{})
	}
	if s.rules&RuleCumulative != 0 {
		list = append(list, s.newCumulatives()...)
	}
	if s.rules&RuleSums != 0 {
		list = append(list, sums{})
	}
	for r := range s.p.Relations {
		switch relation := &s.p.Relations[r]; {
		case relation.Off:
		case relation.Kind == Distinct && s.rules&RuleDistinct != 0:
			list = append(list, newDistinct(s, int32(r)))
		case relation.Kind == Match && s.rules&RuleSupport != 0:
			list = append(list, newSupport(s, int32(r)))
		}
	}
	s.ahead.propagators = list
}

// narrow takes out of all domains what a choice that was just made stands against.
func (s *search) narrow(domain, device int32, paid bool) {
	rivals := s.ahead.rivals[domain]
	for other, ok := rivals.NextSet(0); ok; other, ok = rivals.NextSet(other + 1) {
		viable := s.ahead.viable[other]
		related := slices.ContainsFunc(s.p.Domains[domain].Covers, func(c Cover) bool {
			return !s.p.Relations[c.Relation].Off && s.p.Domains[other].covers(c.Relation) != nil
		})
		if !related && !paid {
			if viable.Test(uint(device)) {
				s.recheck(other, uint(device))
			}
			continue
		}
		for i, ok := viable.NextSet(0); ok; i, ok = viable.NextSet(i + 1) {
			if related || int32(i) == device || s.competes(device, int32(i)) {
				s.recheck(other, i)
			}
		}
	}
}

// recheck checks a viable device of a domain. One at which looking ends the search stays: it does
// not fail.
func (s *search) recheck(domain, i uint) {
	s.look(1)
	s.stats.Checks++
	if why, _ := s.refuses(&s.p.Domains[domain], int32(i)); why == refused {
		word := &s.ahead.viable[domain].Words()[i/64]
		s.words.set(word, *word&^(1<<(i%64)))
	}
}

// rechecksPerStep is how many devices are checked ahead for the price of a step.
const rechecksPerStep = 16

func (s *search) look(rechecks int) {
	s.rechecks += int64(rechecks)
	s.stats.Steps += s.rechecks / rechecksPerStep
	s.rechecks %= rechecksPerStep
}

// starved reports whether what is open cannot be served any more, after n devices of an option
// of request p, of which the next one would be at position start or later. Before the first request, p is
// -1. Then conflict says why.
func (s *search) starved(p, o int32, n int, start uint) bool {
	if s.ahead == nil {
		return false
	}
	open := s.openings(p, o, n, start)
	if len(open) == 0 {
		return false
	}
	for _, propagator := range s.ahead.propagators {
		if some, fails := propagator.fails(s, open); fails {
			s.blameOpenings(some)
			return true
		}
	}
	return false
}
