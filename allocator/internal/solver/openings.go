// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"math/bits"
	"slices"

	"github.com/bits-and-blooms/bitset"
)

// opening is a request that is wholly or partly undecided: how many devices it needs at least, and which are
// viable now. It takes a device at most once. Requests of a claim that want the same devices, not shared, are
// one opening.
type opening struct {
	// request is the last request of the opening.
	request int32
	options []Option
	slots   int
	viable  *bitset.BitSet
	// from is the first device that may be taken. Devices within a request ascend.
	from uint
	// rest is set for the request that is partly decided.
	rest bool
}

func (o *opening) count() int {
	n := o.viable.Count()
	if o.from > 0 {
		n -= o.viable.Rank(o.from - 1)
	}
	return int(n)
}

func (o *opening) has(i uint) bool { return i >= o.from && o.viable.Test(i) }

// next returns the first viable device from i on that is in neither of the sets a and b, which have the size of
// viable.
func (o *opening) next(i uint, a, b *bitset.BitSet) (uint, bool) {
	i = max(i, o.from)
	viable, x, y := o.viable.Words(), a.Words(), b.Words()
	mask := ^uint64(0) << (i % 64)
	for w := int(i / 64); w < len(viable); w++ {
		if word := viable[w] &^ (x[w] | y[w]) & mask; word != 0 {
			return uint(64*w + bits.TrailingZeros64(word)), true
		}
		mask = ^uint64(0)
	}
	return 0, false
}

// openings lists the openings after n devices of option o of request p. It stops before the next request at
// which looking can end the search.
func (s *search) openings(p, o int32, n int, start uint) []opening {
	a := s.ahead
	a.open, a.used = a.open[:0], 0
	if p >= 0 && n < s.p.Requests[p].Options[o].Count {
		if s.mayStop[p] {
			return nil
		}
		option := &s.p.Requests[p].Options[o]
		rest := opening{
			request: p, options: s.p.Requests[p].Options[o : o+1], slots: option.Count - n, viable: a.viable[option.Domain], from: start, rest: true,
		}
		if s.p.Domains[option.Domain].Order != nil && !option.All {
			rest.from = 0 // in another order, later devices are not a range
		}
		a.open = append(a.open, rest)
	}
	for q := p + 1; int(q) < len(s.p.Requests) && !s.mayStop[q]; q++ {
		switch r, last := &s.p.Requests[q], len(a.open)-1; {
		case r.Off || a.completion.isDone(q):
		case last >= 0 && s.joins(&a.open[last], r):
			a.open[last].request = q
			a.open[last].slots += r.Options[0].Count
		default:
			a.open = s.addOpening(a.open, q, a.viable)
		}
	}
	return a.open
}

// joins reports whether a request can be part of an opening. It cannot if a device can serve both by shares, if
// the opening is partly decided, or if the request has totals.
func (s *search) joins(o *opening, r *Request) bool {
	of := &s.p.Requests[o.request]
	if len(s.ahead.shareable) > 0 || o.rest || of.Claim != r.Claim || len(of.Options) > 1 || len(r.Options) > 1 || r.Options[0].Count == 0 {
		return false
	}
	domain := r.Options[0].Domain
	return of.Options[0].Domain == domain && s.p.Domains[domain].Gives == nil
}

// addOpening adds a request. Its slots are those of its smallest option with enough viable devices, and its
// viable devices those of all such options. If no option has enough, it gets one slot and no device, so that
// counting fails.
func (s *search) addOpening(open []opening, q int32, viable []*bitset.BitSet) []opening {
	added := opening{request: q, options: s.p.Requests[q].Options, slots: -1, viable: s.union()}
	for _, option := range added.options {
		if option.All && option.Count == 0 || viable[option.Domain].Count() < uint(option.Count) {
			continue
		}
		if added.slots < 0 || option.Count < added.slots {
			added.slots = option.Count
		}
		added.viable.InPlaceUnion(viable[option.Domain])
	}
	if added.slots == 0 {
		return open
	}
	added.slots = max(added.slots, 1)
	return append(open, added)
}

// union returns an empty set that is in use until the openings are listed again.
func (s *search) union() *bitset.BitSet {
	a := s.ahead
	if a.used == len(a.unions) {
		a.unions = append(a.unions, s.memory.sets.New(len(s.p.Devices)))
	}
	set := a.unions[a.used]
	set.ClearAll()
	a.used++
	return set
}

// covered appends the openings whose options are all covered by a relation.
func (s *search) covered(some, open []opening, relation int32) []opening {
	for _, o := range open {
		if s.coversAll(o, relation) {
			some = append(some, o)
		}
	}
	return some
}

func (s *search) coversAll(o opening, relation int32) bool {
	return !slices.ContainsFunc(o.options, func(option Option) bool { return s.p.Domains[option.Domain].covers(relation) == nil })
}

// counting fails if an opening has fewer viable devices than slots.
func counting(_ *search, open []opening) bool {
	return slices.ContainsFunc(open, func(o opening) bool { return o.count() < o.slots })
}
