package solver

import (
	"context"
	"slices"
)

// search decides requests one after the other, and the devices of each in ascending order. It
// leaves out only choices under which there is neither a solution nor a stop.
type search struct {
	store
	ctx    context.Context
	budget int64
	rules  Rules
	stats  Stats
	// chosen is the solution so far, levels the decision level of each choice, depth the
	// number of decisions: devices, and options of requests with several.
	chosen []Choice
	levels []int32
	depth  int32
	// picked is the option by request, pickedAt the level at which it was picked.
	picked, pickedAt []int32
	// mayStop tells of each request whether looking at a device for it can end the search;
	// lastStop is the position after the last such request.
	mayStop  []bool
	lastStop int32
	// first is set during the first attempt, which takes the first device that comes along.
	first bool
	// conflict are the decisions which the last failure depends on. Spare are sets of levels
	// that nobody uses.
	conflict levels
	spare    []levels
	// ahead is there once the search looks ahead: then it is room.
	ahead *ahead
	room  ahead
	// rechecks counts looks at devices ahead that are not yet paid for.
	rechecks int64
	halt     halt
	stop     Stop
}

// ending is how a part of the search ended.
type ending uint8

const (
	// failed: there is no solution below.
	failed ending = iota
	// found: chosen is a solution.
	found
	// oversized: the claim would have too many devices, whichever they are. Only another
	// option of the same claim can help.
	oversized
	// halted: search.halt says why.
	halted
)

// halt is why a search does not go on.
type halt uint8

const (
	// deadEnd ends the first attempt.
	deadEnd halt = iota
	stopped
	spent
	cancelled
)

func (s *search) begin(ctx context.Context, p *Problem, m *memory, budget int64, rules Rules) {
	s.store.begin(p, m)
	s.ctx, s.budget, s.rules, s.stats, s.stop = ctx, budget, rules, Stats{}, Stop{}
	s.chosen, s.levels, s.depth, s.rechecks = s.chosen[:0], s.levels[:0], 0, 0
	s.conflict, s.ahead, s.first = s.conflict[:0], nil, false
	s.picked, s.pickedAt = m.counts.Take(len(p.Requests)), m.counts.Take(len(p.Requests))
	s.mayStop, s.lastStop = m.flags.Take(len(p.Requests)), 0
	s.findStops()
	if p.fills() {
		s.rules &^= RuleJump | RuleSymmetry
	}
}

func (s *search) solve() Verdict {
	if s.rules&RuleRoot != 0 && s.lastStop == 0 && s.hopeless() {
		return None
	}
	s.first = s.rules&RuleAhead != 0 && s.monotone()
	end := s.request(0)
	if end == halted && s.halt == deadEnd {
		end = s.restart()
	}
	switch end {
	case found:
		return Found
	case halted:
		return map[halt]Verdict{stopped: Stopped, spent: Spent, cancelled: Cancelled}[s.halt]
	}
	return None
}

// restart takes everything back and begins again, looking ahead.
func (s *search) restart() ending {
	s.stats.Backtracks += int64(len(s.chosen))
	s.undo(mark{})
	s.chosen, s.levels, s.depth, s.first = s.chosen[:0], s.levels[:0], 0, false
	s.lookAhead()
	if s.starved(-1, 0, 0, 0) {
		return failed
	}
	return s.request(0)
}

// monotone reports whether what is refused stays refused whatever else is chosen. It does if
// nothing that is taken is negative.
func (s *search) monotone() bool {
	for i := range s.p.Devices {
		for _, draw := range s.p.Devices[i].Draws {
			if draw.Amount.Sign() < 0 {
				return false
			}
		}
	}
	return true
}

// hopeless reports whether some request has fewer candidates than it needs.
func (s *search) hopeless() bool {
	s.stats.Steps++
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
	}
	return false
}

// checkEvery is how many steps pass between two looks at the context.
const checkEvery = 256

// step pays for one unit of work.
func (s *search) step() bool {
	s.stats.Steps++
	if s.stats.Steps > s.budget {
		s.halt = spent
		return false
	}
	if s.stats.Steps%checkEvery == 1 && s.ctx.Err() != nil {
		s.halt = cancelled
		return false
	}
	return true
}

// request decides a request and everything after it.
func (s *search) request(p int32) ending {
	if int(p) == len(s.p.Requests) {
		return found
	}
	if !s.step() {
		return halted
	}
	var end ending
	switch r := &s.p.Requests[p]; {
	case r.Off:
		end = s.request(p + 1)
	case len(r.Options) == 1:
		end = s.option(p, 0)
	default:
		end = s.anyOf(p)
	}
	if end == oversized && (p == 0 || s.p.Requests[p-1].Claim != s.p.Requests[p].Claim) {
		// Too many devices for this claim says nothing about those before.
		end = failed
	}
	if s.mayStop[p] && (end == failed || end == oversized) {
		// Another decision before might let the search get to where it ends.
		s.conflict.addAll(s.depth)
	}
	return end
}

// anyOf tries the options of a request by preference.
func (s *search) anyOf(p int32) ending {
	conflict := s.noLevels()
	level, result := s.depth, oversized
	s.pickedAt[p] = level
	s.depth++
	for o := range s.p.Requests[p].Options {
		s.picked[p] = int32(o)
		end := s.option(p, int32(o))
		if end == found || end == halted {
			return end
		}
		if end == failed {
			result = failed
			if s.mayJump(p) && !s.conflict.has(level) {
				s.depth = level
				s.drop(conflict)
				return failed
			}
		}
		conflict.addBelow(s.conflict, level)
	}
	s.depth = level
	s.blameOn(conflict)
	return result
}

// noLevels is an empty set of levels.
func (s *search) noLevels() levels {
	last := len(s.spare) - 1
	if last < 0 {
		return nil
	}
	set := s.spare[last]
	s.spare = s.spare[:last]
	return set[:0]
}

// blameOn makes a set of levels the conflict.
func (s *search) blameOn(conflict levels) {
	s.drop(s.conflict)
	s.conflict = conflict
}

// drop takes a set of levels that nobody uses any more.
func (s *search) drop(set levels) {
	if cap(set) > 0 {
		s.spare = append(s.spare, set)
	}
}

// mayJump reports whether other decisions for a request may be left out because a failure does
// not depend on them.
func (s *search) mayJump(p int32) bool {
	return s.ahead != nil && s.rules&RuleJump != 0 && !s.mayStop[p]
}

func (s *search) option(p, o int32) ending {
	option := &s.p.Requests[p].Options[o]
	switch {
	case option.All && option.Count == 0:
		conflict := s.noLevels()
		s.blamePick(&conflict, p)
		s.blameOn(conflict)
		return failed
	case option.Count == 0:
		return s.request(p + 1)
	case int(s.claimed[s.p.Requests[p].Claim])+option.Count > s.p.MostOfClaim:
		return s.oversize(p)
	case option.All:
		return s.every(p, o, 0)
	}
	return s.slot(p, o, 0, 0)
}

// oversize blames the options picked in the claim up to a request: they decide how many
// devices it has.
func (s *search) oversize(p int32) ending {
	conflict := s.noLevels()
	for q := p; q >= 0 && s.p.Requests[q].Claim == s.p.Requests[p].Claim; q-- {
		s.blamePick(&conflict, q)
	}
	s.blameOn(conflict)
	return oversized
}

// slot chooses the device for slot n of an option, from a position in the order of its domain on: the
// order of devices within a request does not matter, so it ascends.
func (s *search) slot(p, o int32, n int, start uint) ending {
	option := &s.p.Requests[p].Options[o]
	if n == option.Count {
		if !s.provides(p, o) {
			conflict := s.noLevels()
			s.blameSlot(&conflict, p, n) // which stands for the slots before it: each blames the one before
			s.blameOn(conflict)
			return failed
		}
		return s.request(p + 1)
	}
	d := &s.p.Domains[option.Domain]
	var failedAlike alikeSet
	conflict := s.noLevels()
	for at, ok := s.candidate(option, start); ok; at, ok = s.candidate(option, at+1) {
		device := int32(at)
		if d.Order != nil {
			device = d.Order[at]
		}
		if s.taken(d, device) || failedAlike.has(s, p, device) {
			continue
		}
		if !s.step() {
			return halted
		}
		s.stats.Checks++
		why, cover := s.refuses(d, device)
		if why == refusedStop {
			return s.stopAt(Stop{Request: p, Option: o, Device: device, Cover: cover})
		}
		if why != accepted {
			continue
		}
		before, level := s.decide(p, o, device)
		end := failed
		if !s.starved(p, o, n+1, at+1) {
			end = s.slot(p, o, n+1, at+1)
		}
		if end == found || end == halted {
			return end
		}
		if s.first {
			s.halt = deadEnd
			return halted
		}
		s.retract(before)
		if end == oversized || s.mayJump(p) && !s.conflict.has(level) {
			// Another device in this place fails in the same way.
			s.drop(conflict)
			return end
		}
		conflict.addBelow(s.conflict, level)
		failedAlike.add(s, p, device)
	}
	if s.ahead != nil {
		s.blameDomain(&conflict, option.Domain, start)
		s.blameSlot(&conflict, p, n)
		s.blameOn(conflict)
	}
	return failed
}

// candidate returns the first position from one on of a device that must be looked at.
func (s *search) candidate(option *Option, start uint) (uint, bool) {
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

// every chooses the devices of an option that must have certain ones, from the n-th on.
func (s *search) every(p, o int32, n int) ending {
	option := &s.p.Requests[p].Options[o]
	if n == option.Count {
		if s.starved(p, o, n, 0) {
			return failed
		}
		return s.request(p + 1)
	}
	if !s.step() {
		return halted
	}
	device := option.Mandatory[n]
	s.stats.Checks++
	why, cover := s.refusesMandatory(option, device)
	if why == refusedStop {
		violated := cover >= 0 && !s.stopsAt(option, cover, device)
		return s.stopAt(Stop{Request: p, Option: o, Device: device, Cover: cover, Violated: violated})
	}
	if why != accepted {
		conflict := s.noLevels()
		s.blameSlot(&conflict, p, n)
		s.blame(&conflict, option.Domain, device, why, cover)
		s.blameOn(conflict)
		return failed
	}
	before, level := s.decide(p, o, device)
	end := s.every(p, o, n+1)
	if end == found || end == halted {
		return end
	}
	if s.first {
		s.halt = deadEnd
		return halted
	}
	s.retract(before)
	if end == failed {
		// There is no other device for this place.
		conflict := s.noLevels()
		conflict.addBelow(s.conflict, level)
		s.blameSlot(&conflict, p, n)
		s.blameOn(conflict)
	}
	return end
}

func (s *search) stopsAt(option *Option, cover int, device int32) bool {
	stops := s.p.Domains[option.Domain].Covers[cover].Stops
	return stops != nil && stops.Test(uint(device))
}

func (s *search) stopAt(at Stop) ending {
	s.halt, s.stop = stopped, at
	return halted
}

// decide commits to a device that was accepted.
func (s *search) decide(p, o, device int32) (before mark, level int32) {
	before, level = s.mark(), s.depth
	domain := s.p.Requests[p].Options[o].Domain
	paid := s.pays(device)
	s.choose(&s.p.Domains[domain], s.p.Requests[p].Claim, device)
	_ = s.fill(p, o, device)
	s.chosen = append(s.chosen, Choice{Request: p, Option: o, Device: device})
	s.levels = append(s.levels, level)
	s.depth++
	s.stats.Decisions++
	if s.ahead != nil {
		s.narrow(domain, device, paid)
	}
	return before, level
}

// retract takes the last decision back.
func (s *search) retract(before mark) {
	s.undo(before)
	last := len(s.chosen) - 1
	s.depth = s.levels[last]
	s.chosen, s.levels = s.chosen[:last], s.levels[:last]
	s.stats.Backtracks++
}
