// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/internal/amount"
)

// ahead is what a search works with once it has come to a dead end.
type ahead struct {
	// viable are the candidates by domain that nothing stands against. A refusal is for
	// good, so they only become fewer on the way down.
	viable    []*bitset.BitSet
	kinds     []cumulative
	distincts []distinct
	flow      flow
	shareable []int32      // devices
	fails     []propagator // in the order in which they are asked
	// offering is room, by domain, for the viable devices that offer a value, served for what they serve.
	offering []*bitset.BitSet
	served   []opening
	// open is what openings lists, unions the sets in it, of which used are in use. The others are room for the
	// openings of a Distinct relation, of a Match relation, and of several of these.
	open, covered, matched, wanting []opening
	unions                          []*bitset.BitSet
	used                            int
	// rooms is room for numbers, roomAt by unit where one is in it, from 1, needs for what relations take, and counted
	// for resources.
	rooms           []int
	needs           []amount.Amount
	roomAt, counted []int32
	nogoods         *nogoods    // nil until the search fails below a choice
	equal           []equals    // by request
	drawn           [][]Draw    // by resource, nil until it is asked for
	long            bool        // set once the search takes long
	completion      *completion // nil until the search takes long, or if there is none
}

// propagator reports whether it can be excluded that all openings are served. It may only look
// at what is open: what comes after may never be reached.
type propagator func(s *search, open []opening) bool

// add has the search ask a propagator, unless its rule is left out.
func (s *search) add(rule Rules, fails propagator) {
	if s.rules&rule != 0 {
		s.ahead.fails = append(s.ahead.fails, fails)
	}
}

// lookAhead prepares for a search that looks ahead, from its root.
func (s *search) lookAhead() {
	a := &ahead{
		flow: s.newFlow(), viable: s.memory.setLists.Take(len(s.p.Domains)), offering: s.memory.setLists.Take(len(s.p.Domains)),
		roomAt: s.memory.counts.Take(len(s.p.Devices)),
	}
	for _, list := range [...]*[]opening{&a.open, &a.covered, &a.matched, &a.wanting, &a.served} {
		*list = s.memory.openings.Empty(len(s.p.Requests))
	}
	s.ahead = a
	a.equal = s.findEqual()
	if s.ordered() {
		s.rules &^= RuleSymmetry | RuleNogoods
	}
	a.kinds, a.distincts, a.fails = s.newCumulatives(), s.newDistincts(), s.memory.fails.Empty(5+2*len(s.p.Relations))
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

// addPropagators has a line for each kind of propagator.
func (s *search) addPropagators() {
	s.add(RuleAhead, counting)
	s.add(RuleFlow, assignment)
	s.add(RuleCumulative, cumulatives)
	s.add(RuleSums, sums)
	s.add(RuleDistinct, distincts)
	root := s.openings(-1, 0, 0, 0)
	for r := range s.p.Relations {
		if relation := &s.p.Relations[r]; !relation.Off && relation.kind().common() {
			s.add(RuleSupport, s.newSupport(int32(r), root).fails)
		}
	}
	for _, c := range s.newCardinalities() {
		s.add(RuleCardinality, c.fails)
	}
}

// narrow takes out of all domains what a choice that was just made stands against.
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

// competes reports whether two devices draw on the same resource, or are in the same group
// relation.
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

// completed reports whether a request has all its devices.
func (s *search) completed(p, o int32, n int) bool {
	return p >= 0 && n == s.p.Requests[p].Options[o].Count
}

// starved reports whether what is open cannot be served any more, after n devices of an option
// of request p, of which the next one would be at position start or later. Before the first request, p is
// -1.
func (s *search) starved(p, o int32, n int, start uint) bool {
	if s.ahead == nil {
		return false
	}
	open := s.openings(p, o, n, start)
	if len(open) == 0 {
		return false
	}
	return slices.ContainsFunc(s.ahead.fails, func(fails propagator) bool { return fails(s, open) }) || s.completed(p, o, n) && s.incomplete(p)
}
