// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"math"
	"math/big"
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/internal/amount"
)

func cumulatives(s *search, open []opening) bool {
	return slices.ContainsFunc(s.ahead.cumulatives, func(c cumulative) bool { return c.fails(s, open) })
}

// cumulative fails if the openings need more of a kind of resource than is left of all resources of that kind
// together. A slot needs at least the minimum over its viable devices.
type cumulative struct {
	kind int32
	// taken are, by domain and device, the amounts of the kind that a choice takes. A shareable device counts
	// with its share only, as later shares do not take its draws.
	taken [][]amount.Amount
}

// newCumulatives returns one propagator for each kind of resource that choices take.
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

// measure fills in taken for a domain, and reports whether any choice takes something.
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

// serves is an upper bound on how many relations can be served from what is left of the resources of some
// devices. Relations with the smallest needs come first.
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

// leftFor is what is left of all resources of the kind that openings take of when they choose among the
// devices.
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

// leastAmong is the minimum that a slot of an opening takes if it chooses among the devices.
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

// needs is the minimum that an opening takes: that of its smallest option, with the minimum over viable devices
// for each slot.
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

// least is the minimum that a viable device takes, from a position on.
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

// packing fails if the openings need more of a kind of resource than they can take of its resources one by one.
// Of a single resource they can take at most the largest subset sum of their amounts that does not exceed what
// is left.
type packing struct {
	of cumulative
	// unit is the greatest common divisor of all amounts.
	unit float64
	// takes are, by domain and device, the units that a choice takes of each resource. draws are those of
	// devices that are not shareable, by device.
	takes [][][]taking
	draws [][]taking
	// sums is a scratch bit set of subset sums, one bit for each number of units.
	sums []uint64
	// items are, by resource, the amounts that openings may take. itemOf has, by resource and number of units,
	// the position in items plus 1, 0 if there is none. Both are scratch buffers.
	items  [][]item
	itemOf [][]int32
}

// taking is a number of units of a resource.
type taking struct {
	resource int32
	units    int
}

// item is a number of units of a resource that choices may take. It can be taken at most once for each slot,
// and once for each device. If shared is set, the number of devices is no bound, because of shares or admin
// access. opening is the last opening whose slots were counted.
type item struct {
	units, slots, opening, devices int
	shared                         bool
}

const (
	// mostUnits bounds the subset sums. If more units are left of a resource, its kind is not checked. So all
	// numbers are exact in a float64.
	mostUnits = 4096
	// takingsPerLook is how many takings are counted at the cost of one check of a device.
	takingsPerLook = 4
)

// newPackings returns one propagator for each kind of resource that choices take.
func (s *search) newPackings() (list []*packing) {
	for _, kind := range s.ahead.cumulatives {
		unit := new(big.Int)
		for d := range s.p.Domains {
			for i, ok := s.p.Domains[d].Allowed.NextSet(0); ok; i, ok = s.p.Domains[d].Allowed.NextSet(i + 1) {
				for _, draw := range s.takenBy(int32(d), int32(i)) {
					if s.p.KindOf[draw.Resource] == kind.kind && draw.Amount.Sign() > 0 {
						unit.GCD(nil, nil, unit, draw.Amount.Big())
					}
				}
			}
		}
		if unit.Sign() > 0 {
			list = append(list, s.newPacking(kind, amount.OfBig(unit).Float()))
		}
	}
	return list
}

func (s *search) newPacking(kind cumulative, unit float64) *packing {
	p := &packing{of: kind, unit: unit, items: make([][]item, len(s.p.KindOf)), itemOf: make([][]int32, len(s.p.KindOf))}
	takings := func(draws []Draw) (list []taking) {
		for _, draw := range draws {
			// More than mostUnits is never left, see fails.
			units := math.Round(draw.Amount.Float() / unit)
			if s.p.KindOf[draw.Resource] == kind.kind && units > 0 && units <= mostUnits {
				list = append(list, taking{draw.Resource, int(units)})
				if of := &p.itemOf[draw.Resource]; len(*of) <= int(units) {
					*of = append(*of, make([]int32, int(units)+1-len(*of))...)
				}
			}
		}
		return list
	}
	p.takes, p.draws = make([][][]taking, len(s.p.Domains)), make([][]taking, len(s.p.Devices))
	for d := range s.p.Domains {
		p.takes[d] = make([][]taking, len(s.p.Devices))
		for i, ok := s.p.Domains[d].Allowed.NextSet(0); ok; i, ok = s.p.Domains[d].Allowed.NextSet(i + 1) {
			p.takes[d][i] = takings(s.takenBy(int32(d), int32(i)))
		}
	}
	for i := range s.p.Devices {
		if !s.p.Devices[i].Shareable {
			p.draws[i] = takings(s.p.Devices[i].Draws)
		}
	}
	return p
}

// takenBy returns the draws that every choice of a device makes.
func (s *search) takenBy(domain, device int32) []Draw {
	if s.p.Devices[device].Shareable {
		return s.p.Domains[domain].share(device)
	}
	if share := s.p.Domains[domain].share(device); len(share) > 0 {
		return append(slices.Clone(share), s.p.Devices[device].Draws...)
	}
	return s.p.Devices[device].Draws
}

func (p *packing) fails(s *search, open []opening) bool {
	needed := 0.0
	for r := range p.items {
		for k := range p.items[r] {
			p.itemOf[r][p.items[r][k].units] = 0
		}
		p.items[r] = p.items[r][:0]
	}
	some := s.union() // the viable devices that count
	s.ahead.used--
	for k := range open {
		if needs := p.of.needs(s, &open[k]); !needs.IsZero() {
			needed += math.Round(needs.Float() / p.unit)
			p.offer(s, k, &open[k])
			some.InPlaceUnion(open[k].viable)
		}
	}
	if needed == 0 {
		return false
	}
	p.count(some)
	for r, items := range p.items {
		if len(items) == 0 {
			continue
		}
		// Rounding errors must not make less of what is left: add a small margin.
		left := math.Floor(s.left[r].Float()/p.unit + 1e-6)
		if left > mostUnits {
			return false
		}
		if needed -= float64(p.largest(int(max(left, 0)), items)); needed <= 0 {
			return false
		}
	}
	return true
}

// offer adds the slots of an opening to each item that they may take.
func (p *packing) offer(s *search, k int, o *opening) {
	counted := 0
	for _, option := range o.options {
		d, viable, takes := &s.p.Domains[option.Domain], s.ahead.viable[option.Domain], p.takes[option.Domain]
		for i, ok := viable.NextSet(o.from); ok; i, ok = viable.NextSet(i + 1) {
			for _, t := range takes[i] {
				it := p.item(t)
				it.shared = it.shared || d.Admin || len(d.share(int32(i))) > 0
				if it.opening != k {
					it.opening = k
					it.slots += p.slots(o)
				}
			}
			counted += max(1, len(takes[i]))
		}
	}
	s.payForChecks(counted / takingsPerLook)
}

// slots is an upper bound on the devices of an opening.
func (p *packing) slots(o *opening) int {
	most := o.slots
	for i := range o.options {
		most = max(most, o.options[i].Count)
	}
	return most
}

// count counts the devices of each item that are not shareable.
func (p *packing) count(devices *bitset.BitSet) {
	for i, ok := devices.NextSet(0); ok; i, ok = devices.NextSet(i + 1) {
		for _, t := range p.draws[i] {
			p.item(t).devices++
		}
	}
}

func (p *packing) item(t taking) *item {
	at := &p.itemOf[t.resource][t.units]
	if *at == 0 {
		p.items[t.resource] = append(p.items[t.resource], item{units: t.units, opening: -1})
		*at = int32(len(p.items[t.resource]))
	}
	return &p.items[t.resource][*at-1]
}

// largest is the largest subset sum of items that does not exceed what is left.
func (p *packing) largest(left int, items []item) int {
	n := left
	sums := append(p.sums[:0], make([]uint64, n/64+1)...)
	p.sums, sums[0] = sums, 1
	for _, it := range items {
		times := it.slots
		if !it.shared {
			times = min(times, it.devices)
		}
		for t := 0; t < times && (t+1)*it.units <= n; t++ {
			shift(sums, it.units)
		}
	}
	for sums[n/64]>>(n%64)&1 == 0 {
		n--
	}
	return n
}

// shift adds each number of a set plus n to the set, up to its size.
func shift(set []uint64, n int) {
	words, bits := n/64, n%64
	for w := len(set) - 1; w >= words; w-- {
		moved := set[w-words] << bits
		if bits > 0 && w > words {
			moved |= set[w-words-1] >> (64 - bits)
		}
		set[w] |= moved
	}
}
