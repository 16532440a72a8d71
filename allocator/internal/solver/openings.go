// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"math/bits"
	"slices"

	"github.com/bits-and-blooms/bitset"
)

// opening is a request that is still to be decided, wholly or in part: how many devices it
// needs at least, and which are viable for it now. It takes a device at most once. Requests that want
// the same devices, each for itself, are one opening.
type opening struct {
	// request is the last of them.
	request int32
	options []Option
	slots   int
	viable  *bitset.BitSet
	// from is the first device that may be taken.
	from uint
	// rest is set for the request that is being decided.
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

// next is the first viable device from i on that is in neither of two sets, which are as large as
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

// openings lists what is open up to the next request at which looking can end the search.
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
			rest.from = 0 // what may come later is no range of devices
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

// joins reports whether a request wants devices as an opening does. Devices with shares can serve both,
// one that has begun has no use for the devices before, and each has its own totals.
func (s *search) joins(o *opening, r *Request) bool {
	of := &s.p.Requests[o.request]
	if len(s.ahead.shareable) > 0 || o.rest || of.Claim != r.Claim || len(of.Options) > 1 || len(r.Options) > 1 || r.Options[0].Count == 0 {
		return false
	}
	domain := r.Options[0].Domain
	return of.Options[0].Domain == domain && s.p.Domains[domain].Gives == nil
}

// addOpening adds a request: it needs at least as many devices as its smallest option, of those
// of all. Options with too few do not count; if there is no other, there is one slot and no device.
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

// union is an empty set, good until the openings are listed anew.
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

// covered adds the openings of which a relation covers all options to a list.
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
