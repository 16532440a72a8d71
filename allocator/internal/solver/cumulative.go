package solver

import (
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/internal/amount"
)

func cumulatives(s *search, open []opening) bool {
	return slices.ContainsFunc(s.ahead.kinds, func(c cumulative) bool { return c.fails(s, open) })
}

// cumulative fails if the openings need more of a kind of resource than is left of all resources
// of that kind together: each of their slots takes at least what the viable device takes that
// takes least.
type cumulative struct {
	kind int32
	// taken are, by domain and device, what a choice takes of the kind. Devices from which a
	// choice may take nothing, as it is not the first share, count with their shares only.
	taken [][]amount.Amount
}

// newCumulatives returns one for each kind of which some choice takes.
func (s *search) newCumulatives() []cumulative {
	list := make([]cumulative, 0, len(s.p.KindOf))
	for r, kind := range s.p.KindOf {
		if slices.Contains(s.p.KindOf[:r], kind) {
			continue
		}
		c := cumulative{kind: kind, taken: s.memory.table.Take(len(s.p.Domains))}
		takes := false
		for k := range s.p.Domains {
			takes = c.measure(s, k) || takes
		}
		if takes {
			list = append(list, c)
		}
	}
	return list
}

// measure fills in what choices of a domain take, and reports whether any takes something.
func (c *cumulative) measure(s *search, domain int) (takes bool) {
	d := &s.p.Domains[domain]
	for i, ok := d.Allowed.NextSet(0); ok; i, ok = d.Allowed.NextSet(i + 1) {
		var sum amount.Amount
		for _, draws := range [...][]Draw{d.share(int32(i)), s.p.Devices[i].Draws} {
			for _, draw := range draws {
				if s.p.KindOf[draw.Resource] == c.kind {
					sum = sum.Add(draw.Amount)
				}
			}
			if s.p.Devices[i].Shareable {
				break
			}
		}
		if sum.Sign() <= 0 {
			continue
		}
		if c.taken[domain] == nil {
			c.taken[domain] = s.memory.amounts.Take(len(s.p.Devices))
		}
		c.taken[domain][i], takes = sum, true
	}
	return takes
}

func (c cumulative) fails(s *search, open []opening) bool {
	var left, needed amount.Amount
	for r, kind := range s.p.KindOf {
		if kind == c.kind && s.left[r].Sign() > 0 {
			left = left.Add(s.left[r])
		}
	}
	for k := range open {
		needed = needed.Add(c.needs(s, &open[k]))
		if needed.Cmp(left) > 0 {
			return true
		}
	}
	return false
}

// serves is how many relations can have what is left of the resources that some devices take of: those whose openings
// take least.
func (c cumulative) serves(s *search, relations [][]opening, devices []int32) (n int) {
	needs, some := s.ahead.needs[:0], false
	for _, openings := range relations {
		var need amount.Amount
		for k := range openings {
			least := c.leastAmong(s, &openings[k], devices)
			some = some || !least.IsZero()
			for range openings[k].slots {
				need = need.Add(least)
			}
		}
		needs = append(needs, need)
	}
	s.ahead.needs = needs
	if !some {
		return len(relations)
	}
	slices.SortFunc(needs, amount.Amount.Cmp)
	left := c.leftFor(s, relations, devices)
	for n < len(needs) && needs[n].Cmp(left) <= 0 {
		left = left.Sub(needs[n])
		n++
	}
	return n
}

// leftFor is what is left of all resources of the kind that devices take of when openings have them.
func (c cumulative) leftFor(s *search, relations [][]opening, devices []int32) (sum amount.Amount) {
	counted := s.ahead.counted[:0]
	add := func(draws []Draw) {
		for _, draw := range draws {
			r := draw.Resource
			if s.p.KindOf[r] == c.kind && s.left[r].Sign() > 0 && !slices.Contains(counted, r) {
				counted, sum = append(counted, r), sum.Add(s.left[r])
			}
		}
	}
	for _, i := range devices {
		add(s.p.Devices[i].Draws)
	}
	for _, openings := range relations {
		for _, o := range openings {
			for _, option := range o.options {
				d := &s.p.Domains[option.Domain]
				for k := 0; k < len(devices) && len(d.Shares) > 0; k++ {
					add(d.share(devices[k]))
				}
			}
		}
	}
	s.ahead.counted = counted
	return sum
}

// leastAmong is what a slot of an opening takes at least, of some devices.
func (c cumulative) leastAmong(s *search, o *opening, devices []int32) (least amount.Amount) {
	some := false
	for _, option := range o.options {
		taken, viable := c.taken[option.Domain], s.ahead.viable[option.Domain]
		if taken == nil {
			return amount.Amount{}
		}
		for _, i := range devices {
			if uint(i) >= o.from && viable.Test(uint(i)) && (!some || taken[i].Cmp(least) < 0) {
				least, some = taken[i], true
			}
		}
	}
	return least
}

// needs is what an opening takes at least: that of one of its options, of which each device takes what the one
// takes that takes least.
func (c cumulative) needs(s *search, o *opening) (needs amount.Amount) {
	some := false
	for _, option := range o.options {
		slots, viable := o.slots, s.ahead.viable[option.Domain]
		if len(o.options) > 1 {
			slots = option.Count
			if option.All && slots == 0 || viable.Count() < uint(slots) {
				continue
			}
		}
		var sum amount.Amount
		if taken := c.taken[option.Domain]; taken != nil {
			least := c.least(taken, viable, o.from)
			for range slots {
				sum = sum.Add(least)
			}
		}
		if !some || sum.Cmp(needs) < 0 {
			needs, some = sum, true
		}
		if needs.IsZero() {
			return needs
		}
	}
	return needs
}

// least is what the device takes that takes least.
func (c cumulative) least(taken []amount.Amount, viable *bitset.BitSet, from uint) (least amount.Amount) {
	some := false
	for i, ok := viable.NextSet(from); ok; i, ok = viable.NextSet(i + 1) {
		if !some || taken[i].Cmp(least) < 0 {
			least, some = taken[i], true
		}
		if least.IsZero() {
			return least
		}
	}
	return least
}
