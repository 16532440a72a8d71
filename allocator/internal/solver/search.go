// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"context"
	"slices"

	"github.com/bits-and-blooms/bitset"
)

// search decides requests one after the other, and the devices of each in ascending order. It
// leaves out only choices under which there is neither a solution nor a stop.
type search struct {
	store
	ctx    context.Context
	budget int64
	rules  Rules
	stats  Stats
	picked []int32 // the option by request
	// mayStop tells of each request whether looking at a device for it can end the search;
	// lastStop is the position after the last such request.
	mayStop  []bool
	lastStop int32
	// begins has, by request, how many devices were chosen when the search came to it.
	begins []int32
	// first is set during the first attempt, which takes the first device that comes along.
	first bool
	// empty is the request that failed last, if no device could be chosen for it, else -1.
	empty int32
	ahead *ahead // nil until the search looks ahead
	// patience is how many steps are taken before the search tries to complete a solution without going back.
	patience int64
	// rechecks counts the devices that were checked while looking ahead, and are not in the steps yet.
	rechecks int64
	stop     Stop
}

// How a part of the search ends, besides with an End, which is None if there is no solution
// below.
const (
	// oversized: the claim would have too many devices, whichever they are. Only another
	// option of the same claim can help.
	oversized End = iota + Cancelled + 1
	// deadEnd ends the first attempt.
	deadEnd
)

// failed reports whether a part of the search ended without a solution, so that another may be tried.
func failed(end End) bool { return end == None || end == oversized }

// forget forgets the last Problem and keeps memory, before its parts are taken back.
func (s *search) forget() {
	s.undo(mark{})
	clear(s.filled)
	*s = search{store: store{trail: s.trail, chosen: s.chosen[:0], filled: s.filled[:0]}}
}

func (s *search) begin(ctx context.Context, p *Problem, m *memory, budget int64, rules Rules) {
	s.store.begin(p, m)
	s.ctx, s.budget, s.rules = ctx, budget, rules
	s.picked, s.mayStop, s.begins = m.counts.Take(len(p.Requests)), m.flags.Take(len(p.Requests)), m.counts.Take(len(p.Requests))
	s.findStops()
}

func (s *search) solve() End {
	if s.rules&RuleRoot != 0 && s.lastStop == 0 && s.hopeless() {
		return None
	}
	// Unless devices restore resources, what is refused stays refused whatever else is chosen.
	s.first = s.rules&RuleAhead != 0 && !s.p.Restores
	end := s.request(0)
	if end == deadEnd {
		end = s.restart()
	}
	return end
}

// restart takes everything back and begins again, looking ahead.
func (s *search) restart() End {
	s.takeBack(mark{}, 0)
	s.first = false
	s.lookAhead()
	if s.starved(-1, 0, 0, 0) {
		return None
	}
	root, budget := s.mark(), s.budget
	s.budget = min(budget, s.patience)
	end := s.request(0)
	s.budget = budget
	if end == Spent && budget > s.patience {
		s.takeBack(root, 0)
		end = s.persist()
	}
	return end
}

// persist begins once more, with rules that are worth their price in long searches only.
func (s *search) persist() End {
	s.ahead.long, s.ahead.nogoods = true, nil
	for _, p := range s.newPackings() {
		s.add(RulePacking, p.fails)
	}
	if v := s.newServing(); v != nil {
		s.add(RuleServing, v.fails)
	}
	if s.rules&RuleCompletion != 0 {
		s.ahead.completion = s.newCompletion()
	}
	if s.starved(-1, 0, 0, 0) || s.incomplete(-1) {
		return None
	}
	return s.request(0)
}

// hopeless reports whether some request has fewer candidates than it needs, or requests that want the same
// devices, each for itself, have together.
func (s *search) hopeless() bool {
	s.stats.Steps++
	wanted := s.memory.counts.Take(len(s.p.Domains))
	for p := range s.p.Requests {
		r := &s.p.Requests[p]
		if r.Off {
			continue
		}
		if !slices.ContainsFunc(r.Options, func(o Option) bool {
			return uint(o.Count) <= s.p.Domains[o.Domain].Allowed.Count()
		}) {
			return true
		}
		if o := &r.Options[0]; len(r.Options) == 1 && !s.p.Domains[o.Domain].Admin {
			allowed := s.p.Domains[o.Domain].Allowed
			same := slices.IndexFunc(s.p.Domains, func(d Domain) bool { return d.Allowed == allowed })
			wanted[same] += int32(o.Count)
			if uint(wanted[same]) > allowed.Count() && !s.anyShareable(allowed) {
				return true
			}
		}
	}
	return false
}

func (s *search) anyShareable(devices *bitset.BitSet) bool {
	for i, ok := devices.NextSet(0); ok; i, ok = devices.NextSet(i + 1) {
		if s.p.Devices[i].Shareable {
			return true
		}
	}
	return false
}

// checkEvery is how many steps pass between two looks at the context.
const checkEvery = 256

// step pays for one unit of work. It ends the search if it may take no more.
func (s *search) step() (end End, ends bool) {
	s.stats.Steps++
	switch {
	case s.stats.Steps > s.budget:
		return Spent, true
	case s.stats.Steps%checkEvery == 1 && s.ctx.Err() != nil:
		return Cancelled, true
	}
	return None, false
}

// request decides a request and everything after it.
func (s *search) request(p int32) End {
	if int(p) == len(s.p.Requests) {
		return Found
	}
	if end, ends := s.step(); ends {
		return end
	}
	end := s.unlessFailed(p)
	if end == oversized && (p == 0 || s.p.Requests[p-1].Claim != s.p.Requests[p].Claim) {
		// Too many devices for this claim says nothing about those before.
		return None
	}
	return end
}

// anyOf tries the options of a request by preference.
func (s *search) anyOf(p int32) End {
	s.begins[p] = int32(len(s.chosen))
	if s.p.Requests[p].Off {
		return s.request(p + 1)
	}
	result := oversized
	for o := range s.p.Requests[p].Options {
		if s.comesBefore(p, int32(o)) {
			result = None
			continue
		}
		s.picked[p] = int32(o)
		end := s.option(p, int32(o))
		if !failed(end) {
			return end
		}
		if end == None {
			result = None
		}
	}
	return result
}

func (s *search) option(p, o int32) End {
	option := &s.p.Requests[p].Options[o]
	switch {
	case option.All && option.Count == 0:
		return None
	case option.Count == 0:
		return s.request(p + 1)
	case int(s.claimed[s.p.Requests[p].Claim])+option.Count > s.p.MostOfClaim:
		return oversized
	}
	return s.slot(p, o, 0, 0)
}

// slot chooses the device for slot n of an option, from a position in the order of its domain on: the
// order of devices within a request does not matter, so it ascends.
func (s *search) slot(p, o int32, n int, start uint) End {
	option := &s.p.Requests[p].Options[o]
	if n == option.Count {
		if !s.provides(p, o) {
			return None
		}
		return s.request(p + 1)
	}
	d := &s.p.Domains[option.Domain]
	var before []int32 // that failed in this place
	var with *pairing  // for the next request, once a device failed because it had none
	for at, ok := s.candidate(option, n, start); ok; at, ok = s.candidate(option, n, at+1) {
		device := int32(at)
		if d.Order != nil && !option.All {
			device = d.Order[at]
		}
		if s.taken(d, device) || s.skips(p, device, before) || s.deviceComesBefore(p, o, n, at) || with != nil && !with.admits(d, device) {
			continue
		}
		if end, ends := s.step(); ends {
			return end
		}
		s.stats.Checks++
		why, cover := s.refusesFor(option, device)
		if why == stopsHere || why == violates {
			s.stop = Stop{Request: p, Option: o, Device: device, Cover: cover, Violated: why == violates}
			return Stopped
		}
		if why != accepted {
			continue
		}
		mark := s.mark()
		s.decide(p, o, device)
		end := None
		s.empty = -1
		if option.All && n+1 < option.Count || !s.starved(p, o, n+1, at+1) {
			end = s.slot(p, o, n+1, at+1)
		}
		if !failed(end) {
			return end
		}
		s.takeBack(mark, len(s.chosen)-1)
		if s.first {
			if with = s.pairing(with, p, d); with == nil {
				return deadEnd
			}
			continue
		}
		if end == oversized {
			return end // with another device in this place, too
		}
		before = append(before, device)
	}
	if n == 0 && with == nil {
		s.empty = p
	}
	return None
}

// candidate returns the first position from one on of a device that must be looked at for slot n.
func (s *search) candidate(option *Option, n int, start uint) (uint, bool) {
	if option.All {
		i := uint(option.Mandatory[n])
		return i, i >= start
	}
	d := &s.p.Domains[option.Domain]
	allowed := d.Allowed
	if s.ahead != nil {
		allowed = s.ahead.viable[option.Domain]
	}
	if d.Order != nil {
		for at, device := range d.Order[start:] {
			if i := uint(device); allowed.Test(i) || d.Stops != nil && d.Stops.Test(i) {
				return start + uint(at), true
			}
		}
		return 0, false
	}
	i, ok := allowed.NextSet(start)
	if d.Stops != nil {
		if j, stops := d.Stops.NextSet(start); stops && (!ok || j < i) {
			return j, true
		}
	}
	return i, ok
}

// decide commits to a device that was accepted.
func (s *search) decide(p, o, device int32) {
	domain := s.p.Requests[p].Options[o].Domain
	paid := s.pays(device)
	s.choose(p, o, device)
	s.stats.Decisions++
	if s.ahead != nil {
		s.narrow(domain, device, paid)
	}
}

// takeBack takes back what was chosen since a mark, up to which there were so many choices.
func (s *search) takeBack(to mark, choices int) {
	s.undo(to)
	s.stats.Backtracks += int64(len(s.chosen) - choices)
	s.chosen, s.filled = s.chosen[:choices], s.filled[:choices]
}
