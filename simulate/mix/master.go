// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// master is the choice among the patterns that were found so far, in parts: how much of each pattern, so that all pods have a
// place at least cost. Its duals say what a pod of each kind is worth, and what one more of a limit is. Patterns worth more than they cost
// are added until there is none.
type master struct {
	*problem
	// wanted are the pods and caps the limits of this choice.
	wanted, caps []int
	program      *program
	first        int // column of the first pattern
	patterns     []pattern
	known        map[string]bool
	best         lower
	// patience is how many steps one search for a pattern takes at most, impatient is set if one of them took as many.
	patience  int64
	impatient bool
}

// lower is a bound of what all plans cost: any amounts that are no more than a pod is worth in any pattern make one.
type lower struct {
	cost float64
	// values are by kind, dues by limit.
	values, dues []float64
}

// of is the bound for other pods and limits.
func (l *lower) of(wanted, caps []int) (cost float64) {
	for k, n := range wanted {
		cost += l.values[k] * float64(n)
	}
	for i, n := range caps {
		cost -= l.dues[i] * float64(n)
	}
	return cost
}

func (p *problem) newMaster(wanted, caps []int) *master {
	m := &master{problem: p, wanted: slices.Clone(wanted), caps: slices.Clone(caps), known: make(map[string]bool), patience: minPatience}
	m.best = lower{values: make([]float64, len(wanted)), dues: make([]float64, len(caps))}
	var sides, costs []float64
	for _, n := range wanted {
		sides, costs = append(sides, float64(n)), append(costs, p.penalty)
	}
	for _, n := range caps {
		sides, costs = append(sides, float64(n)), append(costs, 0)
	}
	m.program = newProgram(sides, costs)
	for k := range wanted {
		m.program.add(0, entry{k, -1}) // there may be room for more
	}
	m.first = len(m.program.columns)
	return m
}

// add adds a pattern, without pods that are not wanted. It is false if it is known.
func (m *master) add(b *bin, counts []int) bool {
	counts = slices.Clone(counts)
	var entries []entry
	for k := range counts {
		if counts[k] = min(counts[k], m.wanted[k]); counts[k] > 0 {
			entries = append(entries, entry{k, float64(counts[k])})
		}
	}
	key := fmt.Sprintf("%p %v", b, counts)
	if len(entries) == 0 || m.known[key] || !b.available(m.caps) {
		return false
	}
	m.known[key] = true
	for _, i := range b.limits {
		entries = append(entries, entry{len(m.wanted) + i, 1})
	}
	m.program.add(b.price, entries...)
	m.patterns = append(m.patterns, pattern{b, counts})
	return true
}

// seed adds, for each bin and kind, as many pods of that kind as fit.
func (m *master) seed(ctx context.Context) error {
	for _, b := range m.bins {
		none := make([]int64, len(b.free))
		for i, k := range b.kinds {
			counts := make([]int, len(m.wanted))
			state := int32(0)
			for range b.most(i, m.wanted[k], none) {
				m.steps--
				next, err := b.after(ctx, state, i)
				if err != nil {
					return err
				}
				if next < 0 {
					break
				}
				counts[k], state = counts[k]+1, next
			}
			m.add(b, counts)
		}
	}
	return nil
}

// generate adds patterns until none is worth more than it costs, at most so many times.
func (m *master) generate(ctx context.Context, times int) error {
	for range times {
		if !m.program.solve(m.tolerance) || m.steps <= 0 {
			return nil
		}
		m.impatient = false
		added, err := m.improve(ctx)
		switch {
		case err != nil:
			return err
		case added:
		case m.impatient && m.patience < maxPatience:
			m.patience *= 8
		default:
			return nil
		}
	}
	return nil
}

// improve adds the best pattern of each bin, if it is worth more than it costs, and notes the bound that follows. Values are between those of the
// best bound and the duals, which jump about: that takes fewer turns. Where no pattern is found so, the duals themselves are taken.
func (m *master) improve(ctx context.Context) (added bool, err error) {
	for _, part := range []float64{smoothing, 0} {
		next := m.values(part)
		added, err := m.improveAt(ctx, next)
		if added || err != nil || m.steps <= 0 || m.best.cost == 0 {
			return added, err
		}
	}
	return false, nil
}

const (
	minPatience = 30_000
	maxPatience = 8 * 8 * 8 * minPatience
)

// smoothing is the part of the best bound in the values that patterns are looked for with.
const smoothing = 0.5

// values are part of those of the best bound, and the rest the duals.
func (m *master) values(part float64) *lower {
	next := &lower{values: make([]float64, len(m.wanted)), dues: make([]float64, len(m.caps))}
	if m.best.cost == 0 {
		part = 0
	}
	for k := range next.values {
		next.values[k] = part*m.best.values[k] + (1-part)*min(m.penalty, max(0, m.program.duals[k]))
	}
	for i := range next.dues {
		next.dues[i] = part*m.best.dues[i] + (1-part)*max(0, -m.program.duals[len(m.wanted)+i])
	}
	return next
}

func (m *master) improveAt(ctx context.Context, next *lower) (added bool, err error) {
	scale := 1.0
	for _, b := range m.bins {
		if !b.available(m.caps) {
			continue
		}
		due := 0.0
		for _, i := range b.limits {
			due += next.dues[i]
		}
		search := m.newKnapsack(ctx, b, next.values, m.wanted, false)
		search.patience = m.patience
		counts, _, most, err := search.best(b.price + due)
		if err != nil {
			return false, err
		}
		m.impatient = m.impatient || search.patience <= 0
		if without := b.withoutDevices(next.values, m.wanted); b.doubt || without < most {
			most = without
		}
		if counts != nil && m.add(b, (&knapsack{problem: m.problem, bin: b}).counted(counts)) {
			added = true
		}
		switch {
		case most <= b.price+due:
		case b.template == nil:
			next.dues[b.limits[0]] = most // real nodes have a limit of their own
		default:
			scale = min(scale, b.price/(most-due))
		}
	}
	for k := range next.values {
		next.values[k] *= scale
	}
	for i := range next.dues {
		next.dues[i] *= scale
	}
	if next.cost = next.of(m.wanted, m.caps); next.cost > m.best.cost {
		m.best = *next
	}
	return added, nil
}

// amounts are how much of each pattern the choice has.
func (m *master) amounts() []float64 {
	list := make([]float64, len(m.patterns))
	for row, j := range m.program.basis {
		if j >= m.first {
			list[j-m.first] = math.Max(0, m.program.x[row])
		}
	}
	return list
}
