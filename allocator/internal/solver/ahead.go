// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/internal/amount"
)

// lookahead is the state of a search with look-ahead, which starts after the first dead end.
type lookahead struct {
	// viable are, by domain, the candidates that nothing refuses. A refusal holds for the whole subtree, so the
	// sets only shrink on the way down.
	viable      []*bitset.BitSet
	cumulatives []cumulative
	distincts   []distinct
	flow        flow
	shareable   []int32      // devices
	fails       []propagator // in the order in which they run
	// offering and served are scratch buffers of support: by domain the viable devices with a value, and the
	// openings served by these.
	offering []*bitset.BitSet
	served   []opening
	// open is the current list of openings. unions are sets for it, of which the first used are in use. The
	// others are scratch lists of the openings that a Distinct relation, a Match relation, and several Match
	// relations cover.
	open, covered, matched, wanting []opening
	unions                          []*bitset.BitSet
	used                            int
	// rooms, roomAt, needs and counted are scratch buffers of cardinality and cumulative. roomAt is by unit the
	// position in rooms, plus 1. needs are by relation, counted are resources.
	rooms           []int
	needs           []amount.Amount
	roomAt, counted []int32
	nogoods         *nogoods    // nil until the search fails below a choice
	equal           []equals    // by request
	drawsByResource [][]Draw    // by resource, nil until it is needed
	longSearch      bool        // set once the search has spent its patience
	completion      *completion // nil before that, and if the order of requests matters
}

// propagator reports whether the openings cannot all be served. It may only look at the openings: the search
// may end before it reaches later requests.
type propagator func(s *search, open []opening) bool

// add registers a propagator, unless its rule is off.
func (s *search) add(rule Rules, fails propagator) {
	if s.rules&rule != 0 {
		s.ahead.fails = append(s.ahead.fails, fails)
	}
}

// lookAhead prepares look-ahead at the root of the search.
func (s *search) lookAhead() {
	a := &lookahead{
		flow: s.newFlow(), viable: s.memory.setLists.Take(len(s.p.Domains)), offering: s.memory.setLists.Take(len(s.p.Domains)),
		roomAt: s.memory.counts.Take(len(s.p.Devices)),
	}
	for _, list := range [...]*[]opening{&a.open, &a.covered, &a.matched, &a.wanting, &a.served} {
		*list = s.memory.openings.Empty(len(s.p.Requests))
	}
	s.ahead = a
	a.equal = s.findEqual()
	if s.orderOfDevicesMatters() {
		s.rules &^= RuleSymmetry | RuleNogoods
	}
	a.cumulatives, a.distincts, a.fails = s.newCumulatives(), s.newDistincts(), s.memory.fails.Empty(5+2*len(s.p.Relations))
	for i := range s.p.Devices {
		if s.p.Devices[i].Shareable {
			a.shareable = append(a.shareable, int32(i))
		}
	}
	for d := range s.p.Domains {
		a.viable[d] = s.memory.sets.Clone(s.p.Domains[d].Allowed)
		a.offering[d] = s.memory.sets.New(len(s.p.Devices))
	}
	for d, viable := range a.viable {
		for i, ok := viable.NextSet(0); ok; i, ok = viable.NextSet(i + 1) {
			s.recheck(uint(d), i)
		}
	}
	s.addPropagators()
}

// addPropagators registers the propagators, each kind in one line.
func (s *search) addPropagators() {
	s.add(RuleAhead, counting)
	s.add(RuleFlow, assignment)
	s.add(RuleCumulative, cumulatives)
	s.add(RuleSums, sums)
	s.add(RuleDistinct, distincts)
	root := s.openings(-1, 0, 0, 0)
	for r := range s.p.Relations {
		if relation := &s.p.Relations[r]; !relation.Off && relation.kind().needsCommonValue() {
			s.add(RuleSupport, s.newSupport(int32(r), root).fails)
		}
	}
	for _, c := range s.newCardinalities() {
		s.add(RuleCardinality, c.fails)
	}
}

// narrow removes from all domains the devices that the last choice refuses. paid is set if that choice took the
// draws of its device.
func (s *search) narrow(domain, device int32, paid bool) {
	for other, viable := range s.ahead.viable {
		related := slices.ContainsFunc(s.p.Domains[domain].Covers, func(c Cover) bool {
			return !s.p.Relations[c.Relation].Off && s.p.Domains[other].covers(c.Relation) != nil
		})
		if !related && !paid {
			if viable.Test(uint(device)) {
				s.recheck(uint(other), uint(device))
			}
			continue
		}
		for i, ok := viable.NextSet(0); ok; i, ok = viable.NextSet(i + 1) {
			if related || int32(i) == device || s.competes(device, int32(i)) {
				s.recheck(uint(other), i)
			}
		}
	}
}

// competes reports whether two devices draw on a common resource, or take part in a common group relation.
func (s *search) competes(a, b int32) bool {
	x, y := &s.p.Devices[a], &s.p.Devices[b]
	if x.Pool < 0 || y.Pool < 0 {
		return false
	}
	return slices.ContainsFunc(x.Draws, func(draw Draw) bool {
		return slices.ContainsFunc(y.Draws, func(other Draw) bool { return draw.Resource == other.Resource })
	}) || slices.ContainsFunc(x.Groups, func(g Group) bool {
		return slices.ContainsFunc(y.Groups, func(other Group) bool { return g.Relation == other.Relation })
	})
}

// recheck removes a device from a viable domain if it is refused. A device at which looking ends the search
// stays, as that is no failure.
func (s *search) recheck(domain, i uint) {
	s.payForChecks(1)
	s.stats.Checks++
	if why, _ := s.refuses(&s.p.Domains[domain], int32(i)); why == refused {
		word := &s.ahead.viable[domain].Words()[i/64]
		s.words.set(word, *word&^(1<<(i%64)))
	}
}

// rechecksPerStep is how many checks during look-ahead cost one step.
const rechecksPerStep = 16

func (s *search) payForChecks(rechecks int) {
	s.rechecks += int64(rechecks)
	s.stats.Steps += s.rechecks / rechecksPerStep
	s.rechecks %= rechecksPerStep
}

// completed reports whether a request has all its devices.
func (s *search) completed(p, o int32, n int) bool {
	return p >= 0 && n == s.p.Requests[p].Options[o].Count
}

// infeasible reports whether a propagator fails for the open requests. The search has chosen n devices for option
// o of request p, and continues at position start. p is -1 before the first request.
func (s *search) infeasible(p, o int32, n int, start uint) bool {
	if s.ahead == nil {
		return false
	}
	open := s.openings(p, o, n, start)
	if len(open) == 0 {
		return false
	}
	return slices.ContainsFunc(s.ahead.fails, func(fails propagator) bool { return fails(s, open) }) || s.completed(p, o, n) && s.incomplete(p)
}
