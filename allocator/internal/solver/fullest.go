// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/internal/amount"
)

// fullest returns a device that open requests after p may take, and the request q that takes most of it. It is the
// device with the least left. The search fills one device before it begins others, so that it fails early if that is
// impossible. q is -1 if no device takes of a resource, or if the most constrained request has no choice. Only requests
// for one device count.
func (s *search) fullest(p, hardest int32) (q, device int32) {
	if o := s.p.Requests[hardest].Options; len(o) == 1 && s.ahead.viable[o[0].Domain].Count() <= uint(o[0].Count) {
		return -1, -1
	}
	c := s.ahead.completion
	copy(c.passed, c.notExchangeable)
	q = -1
	leftOf, takenOf, counted := 0.0, 0.0, 0
	for r := p + 1; int(r) < len(s.p.Requests); r++ {
		d := s.p.Requests[r].Options[0].Domain
		if s.p.Requests[r].Off || c.done[r] || c.passed[d] || !s.p.Requests[r].wantsOne() {
			continue
		}
		c.passed[d] = true
		viable := s.ahead.viable[d]
		for i, ok := viable.NextSet(0); ok; i, ok = viable.NextSet(i + 1) {
			left, taken := 0.0, 0.0
			for _, draw := range s.takenBy(d, int32(i)) {
				left, taken = left+s.left[draw.Resource].Float(), taken+draw.Amount.Float()
				counted++
			}
			if taken > 0 && (q < 0 || left < leftOf || left == leftOf && taken > takenOf) {
				q, device, leftOf, takenOf = r, int32(i), left, taken
			}
		}
	}
	s.payForChecks(counted / takingsPerLook)
	return q, device
}

// completeWith serves request q with the device, or else rules the device out for all requests of its domain.
// Proof: a request of the same domain that has the device could exchange it for the device of q.
func (s *search) completeWith(p, q, device int32) End {
	c, option := s.ahead.completion, &s.p.Requests[q].Options[0]
	mark, choices := s.mark(), len(s.chosen)
	if end, ends := s.step(); ends {
		return end
	}
	s.stats.Checks++
	if why, _ := s.refusesFor(option, device); why == accepted && int(s.claimed[s.p.Requests[q].Claim]) < s.p.MostOfClaim && !s.replaces(q, device) {
		c.done[q] = true
		s.decide(q, 0, device)
		// If q takes all that is left, other requests on the device take no more than q, and can exchange their
		// devices with it.
		settled := c.onlyShares && s.left[s.p.Domains[option.Domain].share(device)[0].Resource].IsZero()
		end := s.completeRest(p)
		c.done[q] = false
		if end != None {
			return end
		}
		s.takeBack(mark, choices)
		if settled {
			return None
		}
	}
	viable := s.ahead.viable[option.Domain]
	for i, ok := viable.NextSet(0); ok; i, ok = viable.NextSet(i + 1) {
		if int32(i) == device || s.skips(q, int32(i), []int32{device}) {
			word := &viable.Words()[i/64]
			s.words.set(word, *word&^(1<<(i%64)))
		}
	}
	c.ruledOut = append(c.ruledOut, ruledOut{q, device, choices})
	end := s.completeRest(p)
	if end == None {
		c.ruledOut = c.ruledOut[:len(c.ruledOut)-1]
		s.takeBack(mark, choices)
	}
	return end
}

// ruledOut says that a device is ruled out for a request. choices is the number of choices made at that time.
type ruledOut struct {
	request, device int32
	choices         int
}

// mostSums bounds the subset sums that are tried for one device.
const mostSums = 1_000

// replaces reports whether request q, with others chosen for the device later, takes as much as a request that
// was ruled out there. Proof: exchanging them with that request gives a solution that was ruled out.
func (s *search) replaces(q, device int32) bool {
	c := s.ahead.completion
	if !c.onlyShares {
		return false
	}
	tried := 0
	defer func() { s.payForChecks(tried) }()
	for _, w := range c.ruledOut {
		if w.device == device && s.sumsTo(s.part(w.request).Sub(s.part(q)), s.chosen[w.choices:], device, &tried) {
			return true
		}
	}
	return false
}

// sumsTo reports whether a subset of the choices of a device takes exactly sum of it. It is false if there are
// too many subsets to try.
func (s *search) sumsTo(sum amount.Amount, chosen []Choice, device int32, tried *int) bool {
	*tried++
	switch {
	case sum.Sign() <= 0 || len(chosen) == 0 || *tried > mostSums:
		return sum.IsZero()
	case chosen[0].Device == device && s.sumsTo(sum.Sub(s.part(chosen[0].Request)), chosen[1:], device, tried):
		return true
	}
	return s.sumsTo(sum, chosen[1:], device, tried)
}

// part is what a request takes of any device, where all want only shares.
func (s *search) part(q int32) amount.Amount {
	d := &s.p.Domains[s.p.Requests[q].Options[0].Domain]
	first, _ := d.Allowed.NextSet(0)
	return d.share(int32(first))[0].Amount
}

// wantOnlyShares reports whether each request wants a share of any one device. Each share must take of one resource, and
// take the same amount on all devices.
func (s *search) wantOnlyShares() bool {
	var allowed *bitset.BitSet // those of the first request; all must be equal
	for p := range s.p.Requests {
		r := &s.p.Requests[p]
		if r.Off {
			continue
		}
		if !r.wantsOne() {
			return false
		}
		d := &s.p.Domains[r.Options[0].Domain]
		if allowed == nil {
			allowed = d.Allowed
		}
		if len(d.Covers) > 0 || !d.Allowed.Equal(allowed) {
			return false
		}
		first, _ := allowed.NextSet(0)
		for i, ok := allowed.NextSet(0); ok; i, ok = allowed.NextSet(i + 1) {
			share := d.share(int32(i))
			if s.p.Devices[i].Pool >= 0 || !s.p.Devices[i].Shareable || len(share) != 1 || share[0].Amount != d.share(int32(first))[0].Amount {
				return false
			}
		}
	}
	return true
}

// wantsOne reports whether a request has one option, for one device without totals.
func (r *Request) wantsOne() bool {
	o := &r.Options[0]
	return len(r.Options) == 1 && o.Count == 1 && !o.All && len(o.Totals) == 0
}
