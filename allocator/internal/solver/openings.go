package solver

import (
	"math/bits"
	"slices"

	"github.com/bits-and-blooms/bitset"
)

// opening is a request that is still to be decided, wholly or in part: how many devices it
// needs at least, and which are viable for it now. It takes a device at most once.
type opening struct {
	request int32
	// options are those that can still be picked. If none can, there is one slot and no
	// viable device.
	options []int32
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
	a.open, a.possible, a.used = a.open[:0], a.possible[:0], 0
	if p >= 0 && n < s.p.Requests[p].Options[o].Count {
		if s.mayStop[p] {
			return nil
		}
		option := &s.p.Requests[p].Options[o]
		a.possible = append(a.possible, o)
		rest := opening{
			request: p, options: a.possible[:1:1], slots: option.Count - n, viable: a.viable[option.Domain], from: start, rest: true,
		}
		if order := s.p.Domains[option.Domain].Order; order != nil && !option.All {
			rest.viable, rest.from = s.union(), 0
			for _, i := range order[start:] {
				rest.viable.SetTo(uint(i), a.viable[option.Domain].Test(uint(i)))
			}
		}
		a.open = append(a.open, rest)
	}
	for q := p + 1; int(q) < len(s.p.Requests) && !s.mayStop[q]; q++ {
		if !s.p.Requests[q].Off {
			a.open = s.addOpening(a.open, q, a.viable)
		}
	}
	return a.open
}

// addOpening adds a request: it needs at least as many devices as its smallest option, of those
// of all.
func (s *search) addOpening(open []opening, q int32, viable []*bitset.BitSet) []opening {
	a, options := s.ahead, s.p.Requests[q].Options
	first := len(a.possible)
	added := opening{request: q, slots: 1}
	for o := range options {
		option := &options[o]
		if option.All && option.Count == 0 || viable[option.Domain].Count() < uint(option.Count) {
			continue
		}
		if len(a.possible) == first || option.Count < added.slots {
			added.slots = option.Count
		}
		a.possible = append(a.possible, int32(o))
	}
	possible := len(a.possible) - first
	if possible == 0 {
		for o := range options {
			a.possible = append(a.possible, int32(o))
		}
	}
	added.options = a.possible[first:len(a.possible):len(a.possible)]
	if possible == 1 {
		added.viable = viable[options[added.options[0]].Domain]
	} else {
		added.viable = s.union()
		for _, o := range added.options[:possible] {
			added.viable.InPlaceUnion(viable[options[o].Domain])
		}
	}
	if added.slots == 0 {
		return open
	}
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

// domain is that of an option of an opening.
func (s *search) domain(o *opening, option int32) int32 {
	return s.p.Requests[o.request].Options[option].Domain
}

// filter appends the openings that are to be kept.
func filter(kept, open []opening, keep func(*opening) bool) []opening {
	for k := range open {
		if keep(&open[k]) {
			kept = append(kept, open[k])
		}
	}
	return kept
}

// covered are the openings of which a relation covers all options. They are good until it is
// asked for again.
func (s *search) covered(open []opening, relation int32) []opening {
	s.ahead.covered = filter(s.ahead.covered[:0], open, func(o *opening) bool {
		return !slices.ContainsFunc(o.options, func(option int32) bool {
			return s.p.Domains[s.domain(o, option)].covers(relation) == nil
		})
	})
	return s.ahead.covered
}

// counting fails if an opening has fewer viable devices than slots, or if neighbours of one
// domain have together, where each device serves one of them. A domain for admin access is that
// of one claim, and devices differ within a claim.
type counting struct{}

func (counting) fails(s *search, open []opening) ([]opening, bool) {
	for k := range open {
		if open[k].count() < open[k].slots {
			return open[k : k+1], true
		}
	}
	if s.ahead.shareable {
		return nil, false
	}
	for k := 0; k < len(open); {
		end, slots := k+1, open[k].slots
		for end < len(open) && open[end].viable == open[k].viable {
			slots += open[end].slots
			end++
		}
		if end > k+1 && int(open[k].viable.Count()) < slots {
			return open[k:end], true
		}
		k = end
	}
	return nil, false
}
