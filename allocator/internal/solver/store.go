// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/internal/amount"
)

// store is the effect of the choices made so far. All writes go through the trail.
type store struct {
	trail
	memory *memory
	p      *Problem
	// left is what is left of each resource. overdrawn is, by pool, the number of resources below zero.
	left      []amount.Amount
	overdrawn []int32
	// chosen are the choices so far. filled are the draws with which each choice fills totals.
	chosen []Choice
	filled [][]Draw
	// uses is the number of choices by device. claimed is the number of choices by claim.
	uses, claimed []int32
	related       []relationState
	// provided is, by request, what its devices contribute to each total.
	provided [][]amount.Amount
}

func (s *store) begin(p *Problem, m *memory) {
	s.p, s.memory = p, m
	s.left = append(m.amounts.Empty(len(p.Left)), p.Left...)
	s.uses, s.claimed, s.provided = m.counts.Take(len(p.Devices)), m.counts.Take(p.Claims), m.table.Take(len(p.Requests))
	s.related = m.relations.Take(len(p.Relations))
	for r := range p.Relations {
		s.related[r] = p.Relations[r].begin()
	}
	for r, left := range p.Left {
		if pool := p.PoolOf[r]; pool >= 0 && left.Sign() < 0 {
			for int(pool) >= len(s.overdrawn) {
				s.overdrawn = append(s.overdrawn, 0)
			}
			s.overdrawn[pool]++
		}
	}
}

// has reports whether a device is in a set, which may be nil.
func has(set *bitset.BitSet, i int32) bool { return set != nil && set.Test(uint(i)) }

// taken reports whether an earlier choice keeps a device from a domain. Without admin access a device can be
// chosen once, with admin access once per claim.
func (s *store) taken(d *Domain, i int32) bool {
	if s.uses[i] == 0 || s.p.Devices[i].Shareable {
		return false
	}
	return !d.Admin || slices.ContainsFunc(s.chosen, func(c Choice) bool { return c.Device == i && s.p.Requests[c.Request].Claim == d.Claim })
}

// pays reports whether choosing a device takes its draws: only the first share does.
func (s *store) pays(i int32) bool {
	d := &s.p.Devices[i]
	return d.Pool >= 0 && !(d.Shareable && (s.uses[i] > 0 || has(s.p.Paid, i)))
}

// affords reports whether the draws and groups of a device allow choosing it.
func (s *store) affords(i int32) bool {
	if !s.pays(i) {
		return true
	}
	d := &s.p.Devices[i]
	for _, g := range d.Groups {
		if !s.p.Relations[g.Relation].admits(s.related[g.Relation], g.Values) {
			return false
		}
	}
	restored := int32(0)
	for _, draw := range d.Draws {
		before := s.left[draw.Resource]
		if before.Cmp(draw.Amount) < 0 {
			return false
		}
		if before.Sign() < 0 {
			restored++
		}
	}
	return int(d.Pool) >= len(s.overdrawn) || s.overdrawn[d.Pool] == restored
}

// hasRoom reports whether enough is left for a share of a device.
func (s *store) hasRoom(d *Domain, i int32) bool {
	for _, draw := range d.share(i) {
		if s.left[draw.Resource].Cmp(draw.Amount) < 0 {
			return false
		}
	}
	return true
}

// choose takes a device that was accepted.
func (s *store) choose(p, o, i int32) {
	claim, d := s.p.Requests[p].Claim, &s.p.Domains[s.p.Requests[p].Options[o].Domain]
	if s.pays(i) {
		s.pay(&s.p.Devices[i])
	}
	for k := range d.Covers {
		if c := &d.Covers[k]; !s.p.Relations[c.Relation].Off {
			s.join(c.Relation, c.Values[i])
		}
	}
	if s.p.Devices[i].Shareable {
		s.draw(d.share(i))
	}
	s.counts.set(&s.uses[i], s.uses[i]+1)
	s.counts.set(&s.claimed[claim], s.claimed[claim]+1)
	s.filled = append(s.filled, s.give(p, o, i))
	s.chosen = append(s.chosen, Choice{Request: p, Option: o, Device: i})
}

func (s *store) join(relation int32, values []int32) {
	s.relations.set(&s.related[relation], s.p.Relations[relation].join(s.related[relation], values))
}

func (s *store) pay(d *Device) {
	for _, draw := range d.Draws {
		if s.left[draw.Resource].Sign() < 0 {
			s.counts.set(&s.overdrawn[d.Pool], s.overdrawn[d.Pool]-1)
		}
	}
	s.draw(d.Draws)
	for _, g := range d.Groups {
		s.join(g.Relation, g.Values)
	}
}

func (s *store) draw(draws []Draw) {
	for _, draw := range draws {
		s.amounts.set(&s.left[draw.Resource], s.left[draw.Resource].Sub(draw.Amount))
	}
}

// refusal is the result of checking a candidate against the choices made so far.
type refusal uint8

const (
	accepted refusal = iota
	refused
	// stopsHere: looking at the device ends the search.
	stopsHere
	// violates: a relation does not admit a mandatory device, which ends the search.
	violates
)

// refuses checks a candidate of a domain. The second result is the position in Domain.Covers of the relation
// that refuses it or stops at it, else -1.
func (s *store) refuses(d *Domain, i int32) (refusal, int) {
	switch {
	case s.taken(d, i):
		return refused, -1
	case has(d.Stops, i):
		return stopsHere, -1
	case !s.hasRoom(d, i) || !s.affords(i):
		return refused, -1
	}
	return s.relates(d, i)
}

// relates checks the relations of a domain, in order.
func (s *store) relates(d *Domain, i int32) (refusal, int) {
	for k := range d.Covers {
		c := &d.Covers[k]
		r := &s.p.Relations[c.Relation]
		switch {
		case r.Off:
		case has(c.Stops, i):
			return stopsHere, k
		case !r.admits(s.related[c.Relation], c.Values[i]):
			return refused, k
		}
	}
	return accepted, -1
}

// refusesFor checks a candidate of an option. With All, a relation that does not admit the device ends the
// search. Resources of shares are checked only after the relations.
func (s *store) refusesFor(o *Option, i int32) (refusal, int) {
	d := &s.p.Domains[o.Domain]
	if !o.All {
		return s.refuses(d, i)
	}
	late := has(o.Late, i)
	if s.taken(d, i) || !late && !d.Allowed.Test(uint(i)) || !s.affords(i) {
		return refused, -1
	}
	switch why, k := s.relates(d, i); {
	case why == refused:
		return violates, k
	case why != accepted:
		return why, k
	case late || !s.hasRoom(d, i):
		return refused, -1
	}
	return accepted, -1
}

// trail records the old value of every write of the search, so that all writes can be undone alike.
type trail struct {
	counts    undoLog[int32]
	amounts   undoLog[amount.Amount]
	relations undoLog[relationState]
	words     undoLog[uint64]
}

// mark is a position in a trail.
type mark struct{ counts, amounts, relations, words int }

func (t *trail) mark() mark {
	return mark{len(t.counts), len(t.amounts), len(t.relations), len(t.words)}
}

// undo restores everything written since the mark.
func (t *trail) undo(to mark) {
	t.counts.undo(to.counts)
	t.amounts.undo(to.amounts)
	t.relations.undo(to.relations)
	t.words.undo(to.words)
}

// undoLog records the writes to variables of one type.
type undoLog[T any] []overwritten[T]

type overwritten[T any] struct {
	at  *T
	old T
}

func (l *undoLog[T]) set(at *T, value T) {
	*l = append(*l, overwritten[T]{at, *at})
	*at = value
}

func (l *undoLog[T]) undo(length int) {
	for i := len(*l) - 1; i >= length; i-- {
		write := &(*l)[i]
		*write.at = write.old
	}
	clear((*l)[length:])
	*l = (*l)[:length]
}
