package solver

import (
	"maps"
	"slices"

	"github.com/dray-project/dray/internal/amount"
)

// cumulative fails if the openings need more of a kind of resource than is left of all resources
// of that kind together: each of their slots takes at least what the viable device takes that
// takes least.
type cumulative struct {
	// taken are, by domain and device, what a choice takes of the kind. Devices from which a
	// choice may take nothing, as it is not the first share, count with their shares only.
	taken [][]amount.Amount
	// resources are those of the kind.
	resources []int32
}

// newCumulatives returns one propagator for each kind of which different devices take different
// amounts. Where all take the same, counting devices is as good.
func (s *search) newCumulatives() (list []propagator) {
	byKind := make(map[int32][]int32)
	for r, kind := range s.p.KindOf {
		byKind[kind] = append(byKind[kind], int32(r))
	}
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		c := &cumulative{resources: byKind[kind], taken: s.memory.table.Take(len(s.p.Domains))}
		if c.measure(s, kind) {
			list = append(list, c)
		}
	}
	return list
}

// measure fills in what choices take, and reports whether that differs.
func (c *cumulative) measure(s *search, kind int32) (differs bool) {
	var least, most amount.Amount
	for k := range s.p.Domains {
		d := &s.p.Domains[k]
		for i, ok := d.Allowed.NextSet(0); ok; i, ok = d.Allowed.NextSet(i + 1) {
			takes := s.takes(d, int32(i), kind)
			if takes.Sign() <= 0 {
				continue
			}
			if c.taken[k] == nil {
				c.taken[k] = s.memory.amounts.Take(len(s.p.Devices))
			}
			c.taken[k][i] = takes
			if least.IsZero() || takes.Cmp(least) < 0 {
				least = takes
			}
			if takes.Cmp(most) > 0 {
				most = takes
			}
		}
	}
	return least != most
}

func (s *search) takes(d *Domain, i, kind int32) (sum amount.Amount) {
	for _, draws := range [...][]Draw{d.share(i), s.p.Devices[i].Draws} {
		for _, draw := range draws {
			if s.p.KindOf[draw.Resource] == kind {
				sum = sum.Add(draw.Amount)
			}
		}
		if s.p.Devices[i].Shareable {
			break
		}
	}
	return sum
}

func (c *cumulative) fails(s *search, open []opening) ([]opening, bool) {
	var left, needed amount.Amount
	for _, r := range c.resources {
		if s.left[r].Sign() > 0 {
			left = left.Add(s.left[r])
		}
	}
	for k := range open {
		least := c.least(s, &open[k])
		if least.Sign() <= 0 {
			continue
		}
		for range open[k].slots {
			needed = needed.Add(least)
		}
		if needed.Cmp(left) > 0 {
			return filter(nil, open[:k+1], func(o *opening) bool { return c.least(s, o).Sign() > 0 }), true
		}
	}
	return nil, false
}

// least is what a slot of an opening takes at least.
func (c *cumulative) least(s *search, o *opening) (least amount.Amount) {
	some := false
	for _, option := range o.options {
		domain := s.domain(o, option)
		taken := c.taken[domain]
		if taken == nil {
			return amount.Amount{}
		}
		viable := s.ahead.viable[domain]
		for i, ok := viable.NextSet(o.from); ok; i, ok = viable.NextSet(i + 1) {
			if !some || taken[i].Cmp(least) < 0 {
				least, some = taken[i], true
			}
			if least.IsZero() {
				return least
			}
		}
	}
	return least
}
