// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"context"
	"slices"

	"github.com/bits-and-blooms/bitset"
)

// search decides requests one after the other, and the devices of each in ascending order. It only prunes
// choices under which there is neither a solution nor a stop.
type search struct {
	store
	ctx    context.Context
	budget int64
	rules  Rules
	stats  Stats
	picked []int32 // the option of each request
	// mayStop is set for requests at which looking at a device can end the search. lastStop is the position
	// after the last of them.
	mayStop  []bool
	lastStop int32
	// firstChoice is, by request, the number of devices chosen when the search reached it.
	firstChoice []int32
	// firstAttempt is set during the first attempt, which takes the first candidate of each slot.
	firstAttempt bool
	// emptyRequest is the last request for whose first slot no device could be chosen, -1 if there is none.
	emptyRequest int32
	ahead        *lookahead // nil during the first attempt
	// patience is the number of steps after which the search restarts with the rules for long searches.
	patience int64
	// rechecks counts checks during look-ahead that are not yet part of the steps.
	rechecks int64
	stop     Stop
}

// These are further results of parts of a search, besides End. End None means that there is no solution below.
const (
	// oversized means that the claim would have too many devices, whichever they are. Only another option of
	// the same claim can help.
	oversized End = iota + Cancelled + 1
	// deadEnd ends the first attempt.
	deadEnd
)

// failed reports whether a part of the search ended without a solution, so that the next one is tried.
func failed(end End) bool { return end == None || end == oversized }

// forget drops the last Problem but keeps buffers. It must run before the buffers are reset.
func (s *search) forget() {
	s.undo(mark{})
	clear(s.filled)
	*s = search{store: store{trail: s.trail, chosen: s.chosen[:0], filled: s.filled[:0]}}
}

func (s *search) begin(ctx context.Context, p *Problem, m *memory, budget int64, rules Rules) {
	s.store.begin(p, m)
	s.ctx, s.budget, s.rules = ctx, budget, rules
	s.picked, s.mayStop, s.firstChoice = m.counts.Take(len(p.Requests)), m.flags.Take(len(p.Requests)), m.counts.Take(len(p.Requests))
	s.findStops()
}

func (s *search) solve() End {
	if s.rules&RuleRoot != 0 && s.lastStop == 0 && s.infeasibleAtRoot() {
		return None
	}
	// Without negative draws, a refused device stays refused whatever else is chosen.
	s.firstAttempt = s.rules&RuleAhead != 0 && !s.p.Restores
	end := s.request(0)
	if end == deadEnd {
		end = s.restart()
	}
	return end
}

// restart undoes everything and begins again with look-ahead.
func (s *search) restart() End {
	s.takeBack(mark{}, 0)
	s.firstAttempt = false
	s.lookAhead()
	if s.infeasible(-1, 0, 0, 0) {
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

// persist begins once more, with rules that only pay off in long searches.
func (s *search) persist() End {
	s.ahead.longSearch, s.ahead.nogoods = true, nil
	for _, p := range s.newPackings() {
		s.add(RulePacking, p.fails)
	}
	if v := s.newServing(); v != nil {
		s.add(RuleServing, v.fails)
	}
	if s.rules&RuleCompletion != 0 {
		s.ahead.completion = s.newCompletion()
	}
	if s.infeasible(-1, 0, 0, 0) || s.incomplete(-1) {
		return None
	}
	return s.request(0)
}

// infeasibleAtRoot reports whether some request has fewer candidates than it needs, alone or together with requests for
// the same devices.
func (s *search) infeasibleAtRoot() bool {
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

// checkEvery is the number of steps between two checks of the context.
const checkEvery = 256

// step counts one step. It ends the search if the budget is spent or the context is cancelled.
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
		// That this claim has too many devices says nothing about the claims before.
		return None
	}
	return end
}

// anyOf tries the options of a request in order.
func (s *search) anyOf(p int32) End {
	s.firstChoice[p] = int32(len(s.chosen))
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

// slot chooses the device for slot n of an option, from position start in the order of its domain. The order of
// devices within a request does not matter, so positions ascend.
func (s *search) slot(p, o int32, n int, start uint) End {
	option := &s.p.Requests[p].Options[o]
	if n == option.Count {
		if !s.provides(p, o) {
			return None
		}
		return s.request(p + 1)
	}
	d := &s.p.Domains[option.Domain]
	var before []int32 // candidates that failed in this slot
	var pair *pairing  // a restriction, set after a device left the next request no candidate
	for at, ok := s.candidate(option, n, start); ok; at, ok = s.candidate(option, n, at+1) {
		device := int32(at)
		if d.Order != nil && !option.All {
			device = d.Order[at]
		}
		if s.taken(d, device) || s.skips(p, device, before) || s.deviceComesBefore(p, o, n, at) || pair != nil && !pair.admits(d, device) {
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
		s.emptyRequest = -1
		if option.All && n+1 < option.Count || !s.infeasible(p, o, n+1, at+1) {
			end = s.slot(p, o, n+1, at+1)
		}
		if !failed(end) {
			return end
		}
		s.takeBack(mark, len(s.chosen)-1)
		if s.firstAttempt {
			if pair = s.pairing(pair, p, d); pair == nil {
				return deadEnd
			}
			continue
		}
		if end == oversized {
			return end // another device in this slot does not help
		}
		before = append(before, device)
	}
	if n == 0 && pair == nil {
		s.emptyRequest = p
	}
	return None
}

// candidate returns the first position from start on of a device that must be tried for slot n.
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

// decide chooses a device that was accepted.
func (s *search) decide(p, o, device int32) {
	domain := s.p.Requests[p].Options[o].Domain
	paid := s.pays(device)
	s.choose(p, o, device)
	s.stats.Decisions++
	if s.ahead != nil {
		s.narrow(domain, device, paid)
	}
}

// takeBack undoes everything since a mark. choices is the number of choices at the mark.
func (s *search) takeBack(to mark, choices int) {
	s.undo(to)
	s.stats.Backtracks += int64(len(s.chosen) - choices)
	s.chosen, s.filled = s.chosen[:choices], s.filled[:choices]
}
