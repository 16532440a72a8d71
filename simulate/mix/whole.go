// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// choice is a solution: the patterns of whole bins.
type choice struct {
	patterns []pattern
	// left are the numbers of pods that are left out, by kind. cost includes the penalty for each of them.
	left []int
	cost float64
	// bound is a lower bound of the cost of any choice, penalties included.
	bound float64
}

// cheapest searches for the cheapest choice. The linear programme gives the bound. Its solution is rounded to
// whole bins, and improved.
func (p *problem) cheapest(ctx context.Context) (*choice, error) {
	m := p.newMaster(p.demand, p.caps)
	if err := m.seed(ctx); err != nil {
		return nil, err
	}
	kept := p.steps / 4 // reserved for rounding and the exact search
	p.steps -= kept
	if err := m.generate(ctx, math.MaxInt); err != nil {
		return nil, err
	}
	p.steps = max(0, p.steps) + kept
	found, err := p.dive(ctx, m)
	if err != nil {
		return nil, err
	}
	if err := p.cheaper(ctx, found); err != nil {
		return nil, err
	}
	found.bound = p.roundUp(m.best.cost)
	if found.cost-found.bound > p.tolerance {
		err = p.exact(ctx, &m.best, found)
	}
	found.bound = min(found.bound, found.cost)
	return found, err
}

// roundUp rounds a lower bound up to the next possible cost of a choice.
func (p *problem) roundUp(cost float64) float64 {
	if p.unit == 0 {
		return cost
	}
	// The penalty is a multiple of the unit, too.
	return math.Ceil(cost/p.unit-1e-6) * p.unit
}

// dive rounds a solution of the linear programme. It fixes whole bins and solves the rest again, until no pod
// is left or nothing fits.
func (p *problem) dive(ctx context.Context, m *master) (*choice, error) {
	const further = 4 // rounds of column generation for the rest
	found := &choice{}
	for {
		taken := m.whole()
		for _, t := range taken {
			found.patterns = append(found.patterns, t)
			found.cost += t.price
		}
		if len(taken) == 0 || !slices.ContainsFunc(m.wanted, func(n int) bool { return n > 0 }) {
			break
		}
		next := p.newMaster(m.wanted, m.caps)
		for i := range m.patterns {
			next.add(m.patterns[i].bin, m.patterns[i].counts)
		}
		if m = next; m.program.solve(m.tolerance) {
			if err := m.generate(ctx, further); err != nil {
				return nil, err
			}
		}
	}
	found.left = m.wanted
	for _, n := range found.left {
		found.cost += p.penalty * float64(n)
	}
	return found, nil
}

// whole fixes the patterns of which the solution has at least one whole bin. If there is none, it fixes the
// pattern with the largest fraction. The demand and limits are reduced.
func (m *master) whole() (taken []pattern) {
	amounts := m.amounts()
	order := make([]int, len(amounts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(amounts[b], amounts[a]) })
	const enough = 1e-4
	for _, i := range order {
		times := int(amounts[i] + enough)
		if times == 0 && len(taken) == 0 && amounts[i] > enough {
			times = 1
		}
		for range times {
			one, useful := m.patterns[i], false
			one.counts = slices.Clone(one.counts)
			for k := range one.counts {
				one.counts[k] = min(one.counts[k], m.wanted[k])
				useful = useful || one.counts[k] > 0
			}
			if !useful || !one.available(m.caps) {
				break
			}
			m.subtract(&one)
			taken = append(taken, one)
		}
	}
	return taken
}

func (m *master) subtract(one *pattern) {
	for k, n := range one.counts {
		m.wanted[k] -= n
	}
	for _, i := range one.limits {
		m.caps[i]--
	}
}

// cheaper replaces each bin by the cheapest type into which the bin's pods fit.
func (p *problem) cheaper(ctx context.Context, c *choice) error {
	caps := slices.Clone(p.caps)
	for i := range c.patterns {
		for _, limit := range c.patterns[i].limits {
			caps[limit]--
		}
	}
	bins := slices.Clone(p.bins)
	slices.SortStableFunc(bins, func(a, b *bin) int { return cmp.Compare(a.price, b.price) })
	for i := range c.patterns {
		one := &c.patterns[i]
		for _, b := range bins {
			if b.price >= one.price {
				break
			}
			for _, limit := range one.limits {
				caps[limit]++
			}
			fits, err := false, error(nil)
			if b.available(caps) {
				p.steps -= int64(len(p.kinds))
				fits, err = b.holds(ctx, one.counts)
			}
			if fits {
				c.cost += b.price - one.price
				one.bin = b
			}
			for _, limit := range one.limits {
				caps[limit]--
			}
			if err != nil || fits {
				if err != nil {
					return err
				}
				break
			}
		}
	}
	return nil
}

// exact searches all patterns of a cheaper choice for the cheapest one. If the search is complete, it raises
// the lower bound.
//
// By linear programming duality, a choice costs at least the bound plus the reduced costs of its patterns. So a
// pattern whose reduced cost exceeds the possible saving is in no cheaper choice.
func (p *problem) exact(ctx context.Context, l *lower, c *choice) error {
	const (
		many = 20_000
		// part is the divisor of the remaining steps that the search may use, as many problems use all they get
		part = 10
	)
	kept := p.steps - p.steps/part
	p.steps -= kept
	defer func() { p.steps += kept }()
	step := max(p.unit, 10*p.tolerance)
	s := &exactly{problem: p, lower: l, best: c, step: step, wanted: slices.Clone(p.demand), caps: slices.Clone(p.caps)}
	for _, b := range p.bins {
		if !b.available(p.caps) {
			continue
		}
		if b.doubt {
			return nil // there may be more patterns
		}
		due := b.price - (c.cost - step - l.cost) - p.tolerance
		for _, i := range b.limits {
			due += l.dues[i]
		}
		list, complete, err := p.newKnapsack(ctx, b, l.values, p.demand, true).all(due, many-len(s.patterns))
		if err != nil || !complete {
			return err
		}
		s.patterns = append(s.patterns, list...)
	}
	s.index()
	s.search(0)
	if !s.gaveUp {
		c.bound = c.cost
	}
	return nil
}

// exactly is a branch and bound search. It branches on the pattern that takes a pod of the first kind with pods
// left.
type exactly struct {
	*problem
	*lower
	best     *choice
	step     float64
	patterns []pattern
	of       [][]int // by kind: the patterns that have pods of it
	banned   []bool  // patterns that were tried before for the same pod
	wanted   []int
	caps     []int
	taken    []int
	leftOut  [][2]int // kind and number of pods left out
	cost     float64
	gaveUp   bool
}

// index sorts the patterns by reduced cost.
func (s *exactly) index() {
	beyond := func(one *pattern) float64 {
		cost := one.price
		for k, n := range one.counts {
			cost -= s.values[k] * float64(n)
		}
		for _, i := range one.limits {
			cost += s.dues[i]
		}
		return cost
	}
	slices.SortStableFunc(s.patterns, func(a, b pattern) int { return cmp.Compare(beyond(&a), beyond(&b)) })
	s.of, s.banned = make([][]int, len(s.kinds)), make([]bool, len(s.patterns))
	for i := range s.patterns {
		for k, n := range s.patterns[i].counts {
			if n > 0 {
				s.of[k] = append(s.of[k], i)
			}
		}
	}
}

// search continues with the first kind from one on that has pods left. A pattern that was tried for a pod is
// excluded from the later branches for it.
func (s *exactly) search(kind int) {
	if s.steps--; s.steps <= 0 {
		s.gaveUp = true
		return
	}
	for kind < len(s.wanted) && s.wanted[kind] == 0 {
		kind++
	}
	if s.cost+max(0, s.lower.of(s.wanted, s.caps)) > s.best.cost-s.step+s.tolerance {
		return
	}
	if kind == len(s.wanted) {
		s.note()
		return
	}
	var tried []int
	for _, i := range s.of[kind] {
		if s.banned[i] || !s.patterns[i].available(s.caps) {
			continue
		}
		s.with(i, func() { s.search(kind) })
		s.banned[i] = true
		if tried = append(tried, i); s.gaveUp {
			break
		}
	}
	if !s.gaveUp {
		s.without(kind)
	}
	for _, i := range tried {
		s.banned[i] = false
	}
}

// with calls a function with one more pattern fixed.
func (s *exactly) with(i int, do func()) {
	one := &s.patterns[i]
	before := slices.Clone(s.wanted)
	for k, n := range one.counts {
		s.wanted[k] = max(0, s.wanted[k]-n)
	}
	for _, limit := range one.limits {
		s.caps[limit]--
	}
	s.cost, s.taken = s.cost+one.price, append(s.taken, i)
	do()
	s.cost, s.taken = s.cost-one.price, s.taken[:len(s.taken)-1]
	for _, limit := range one.limits {
		s.caps[limit]++
	}
	copy(s.wanted, before)
}

// without leaves out the remaining pods of a kind, and continues.
func (s *exactly) without(kind int) {
	left := s.wanted[kind]
	s.wanted[kind], s.cost = 0, s.cost+s.penalty*float64(left)
	s.leftOut = append(s.leftOut, [2]int{kind, left})
	s.search(kind + 1)
	s.leftOut = s.leftOut[:len(s.leftOut)-1]
	s.wanted[kind], s.cost = left, s.cost-s.penalty*float64(left)
}

// note stores the present choice as the best one.
func (s *exactly) note() {
	s.best.cost, s.best.patterns, s.best.left = s.cost, nil, make([]int, len(s.wanted))
	for _, i := range s.taken {
		s.best.patterns = append(s.best.patterns, s.patterns[i])
	}
	for _, out := range s.leftOut {
		s.best.left[out[0]] = out[1]
	}
}
