// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"cmp"
	"math"
	"slices"
)

// completion tries to complete the choices made so far in another order: the open request with the least choice
// comes first. The order of requests does not change what can be chosen together. So if no completion exists in
// that order, none exists in the order of requests. With small parts before large ones, it takes long to see
// that the large ones do not fit; with large ones first it shows at once.
type completion struct {
	// done are the requests that completion has served out of order.
	done []bool
	// weights estimate the size of each request. An option's weight is what it needs at least of a kind of
	// resource, divided by what is left. The kind with the largest weight counts. The request has that of its
	// smallest option.
	weights []float64
	// cheapest lists the options of each request in ascending order of weight.
	cheapest [][]int32
	// notExchangeable are domains with an option for several devices, with allocationMode All, or with totals.
	// Another request cannot exchange its device for one of theirs. passed is a scratch buffer.
	notExchangeable, passed []bool
	// onlyShares is set if each request takes a share of any one device, and nothing else matters.
	onlyShares bool
	// ruledOut are devices that were ruled out for requests.
	ruledOut []ruledOut
	// found are the choices of the last completion, in the order of requests.
	found []Choice
	// failed are states from which no completion exists.
	failed *nogoods
	// running is set while a completion is searched for.
	running bool
	// wasted is the number of steps spent on completions without a result.
	wasted int64
}

const (
	// patience is the default of Solver.Patience: the steps after which a search tries rules for long searches.
	// Most searches take less.
	patience = 2_000
	// longestCompletion is the step limit of one completion.
	longestCompletion = 100_000
)

// incomplete reports whether the choices made so far, with all devices of request p, have no completion.
func (s *search) incomplete(p int32) bool {
	c := s.ahead.completion
	if c == nil || c.running || p+1 < s.lastStop || c.wasted > s.stats.Steps-c.wasted || c.startsWith(s.chosen) {
		return false
	}
	before, budget := s.stats.Steps, s.budget
	mark, choices := s.mark(), len(s.chosen)
	c.running, s.budget = true, min(budget, before+longestCompletion)
	end := s.complete(p)
	if end == Found {
		c.found = append(c.found[:0], s.chosen...)
		slices.SortStableFunc(c.found, func(a, b Choice) int { return cmp.Compare(a.Request, b.Request) })
	}
	c.running, s.budget = false, budget
	s.takeBack(mark, choices)
	clear(c.done)
	c.ruledOut = c.ruledOut[:0]
	if end != Found && end != None {
		c.wasted += s.stats.Steps - before
	}
	return end == None
}

// startsWith reports whether the last completion found begins with these choices.
func (c *completion) startsWith(chosen []Choice) bool {
	return len(c.found) > 0 && len(chosen) <= len(c.found) && slices.Equal(chosen, c.found[:len(chosen)])
}

// newCompletion returns nil if the order of requests matters.
func (s *search) newCompletion() *completion {
	if s.orderMatters() {
		return nil
	}
	c := &completion{
		done: s.memory.flags.Take(len(s.p.Requests)), failed: s.newNogoods(),
		notExchangeable: s.memory.flags.Take(len(s.p.Domains)), passed: s.memory.flags.Take(len(s.p.Domains)),
	}
	totals := make([]float64, len(s.ahead.cumulatives))
	for k, kind := range s.ahead.cumulatives {
		for r, of := range s.p.KindOf {
			if of == kind.kind {
				totals[k] += max(0, s.left[r].Float())
			}
		}
	}
	for p := range s.p.Requests {
		options := s.p.Requests[p].Options
		weights, order := make([]float64, len(options)), make([]int32, len(options))
		for o := range options {
			order[o] = int32(o)
			weights[o] = s.weigh(&options[o], totals)
			if options[o].Count != 1 || options[o].All || len(options[o].Totals) > 0 {
				c.notExchangeable[options[o].Domain] = true
			}
		}
		slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(weights[a], weights[b]) })
		c.cheapest, c.weights = append(c.cheapest, order), append(c.weights, slices.Min(weights))
	}
	c.onlyShares = s.wantOnlyShares()
	return c
}

// weigh returns the weight of an option, see completion.weights.
func (s *search) weigh(o *Option, totals []float64) (most float64) {
	for k, kind := range s.ahead.cumulatives {
		if taken := kind.taken[o.Domain]; taken != nil && totals[k] > 0 {
			least := kind.least(taken, s.ahead.viable[o.Domain], 0)
			most = max(most, float64(o.Count)*least.Float()/totals[k])
		}
	}
	return most
}

// complete serves the open requests after p out of order.
func (s *search) complete(p int32) End {
	c := s.ahead.completion
	q := s.mostConstrained(p)
	if q < 0 {
		return Found
	}
	if end, ends := s.step(); ends {
		return end
	}
	state := c.failed.stateOutOfOrder(s, p)
	if _, failed := c.failed.failed[state]; failed {
		return None
	}
	var end End
	if r, device := s.fullest(p, q); r >= 0 {
		end = s.completeWith(p, r, device)
	} else {
		end = s.completeRequest(p, q)
	}
	if end != None {
		return end
	}
	if c.failed.fail(state); c.failed.full() {
		c.failed = s.newNogoods()
	}
	return None
}

// completeRequest serves request q out of order, and then the other open requests after p.
func (s *search) completeRequest(p, q int32) End {
	c := s.ahead.completion
	c.done[q] = true
	defer func() { c.done[q] = false }()
	for _, o := range c.cheapest[q] {
		if end := s.completeOption(p, q, o); end != None {
			return end
		}
	}
	return None
}

// completeRest serves the open requests after p, unless a propagator fails.
func (s *search) completeRest(p int32) End {
	if s.infeasible(p, 0, math.MaxInt, 0) {
		return None
	}
	return s.complete(p)
}

func (s *search) completeOption(p, q, o int32) End {
	option := &s.p.Requests[q].Options[o]
	switch {
	case option.All && option.Count == 0 || int(s.claimed[s.p.Requests[q].Claim])+option.Count > s.p.MostOfClaim:
		return None
	case option.Count == 0:
		return s.complete(p)
	}
	return s.completeSlot(p, q, o, 0, 0)
}

// completeSlot is slot for a request that is served out of order.
func (s *search) completeSlot(p, q, o int32, n int, start uint) End {
	option := &s.p.Requests[q].Options[o]
	if n == option.Count {
		if !s.provides(q, o) {
			return None
		}
		return s.completeRest(p)
	}
	d := &s.p.Domains[option.Domain]
	var before []int32
	for at, ok := s.candidate(option, n, start); ok; at, ok = s.candidate(option, n, at+1) {
		device := int32(at)
		if d.Order != nil && !option.All {
			device = d.Order[at]
		}
		if s.taken(d, device) || s.skips(q, device, before) {
			continue
		}
		if end, ends := s.step(); ends {
			return end
		}
		s.stats.Checks++
		if why, _ := s.refusesFor(option, device); why != accepted {
			continue
		}
		mark, choices := s.mark(), len(s.chosen)
		s.decide(q, o, device)
		if end := s.completeSlot(p, q, o, n+1, at+1); end != None {
			return end
		}
		s.takeBack(mark, choices)
		before = append(before, device)
	}
	return None
}

// mostConstrained is the open request after p with the fewest spare candidates. Among equal ones it is that with the
// largest weight. It is -1 if no request is open.
func (s *search) mostConstrained(p int32) int32 {
	c, best, fewest := s.ahead.completion, int32(-1), 0
	for q := p + 1; int(q) < len(s.p.Requests); q++ {
		if s.p.Requests[q].Off || c.done[q] {
			continue
		}
		spare := math.MinInt
		for _, o := range s.p.Requests[q].Options {
			spare = max(spare, int(s.ahead.viable[o.Domain].Count())-o.Count)
		}
		if best < 0 || spare < fewest || spare == fewest && c.weights[q] > c.weights[best] {
			best, fewest = q, spare
		}
	}
	return best
}

// isDone reports whether a request was served out of order. The receiver may be nil.
func (c *completion) isDone(q int32) bool { return c != nil && c.done[q] }
