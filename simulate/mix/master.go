// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// master is the restricted master problem of column generation: a linear programme over the patterns found so
// far. It chooses fractions of patterns that place all pods at least cost. Its duals are the value of a pod of
// each kind, and the price of each limit. Patterns whose value exceeds their cost are added until there is
// none.
type master struct {
	*problem
	// wanted is the number of pods by kind, caps the limits, of this programme.
	wanted, caps []int
	program      *program
	first        int // column of the first pattern
	patterns     []pattern
	known        map[string]bool
	best         lower
	// patience is the largest number of steps of one search for a pattern. impatient is set if a search has
	// used them up.
	patience  int64
	impatient bool
}

// lower is a lower bound of the cost of all choices: a feasible solution of the dual problem. No pattern is
// worth more than it costs.
type lower struct {
	cost float64
	// values are the duals of pods by kind, dues those of limits.
	values, dues []float64
}

// of is the lower bound for other numbers of pods and other limits.
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
		m.program.add(0, entry{k, -1}) // surplus: patterns may have room for more pods
	}
	m.first = len(m.program.columns)
	return m
}

// add adds a pattern, without pods that are not wanted. It is false if the pattern is not new or not available.
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

// seed adds, for each bin and kind, the pattern with as many pods of that kind as fit.
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

// generate adds patterns until none is worth more than it costs, in at most times rounds.
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

// improve adds the most valuable pattern of each bin if it is worth more than it costs, and updates the lower
// bound. The duals are smoothed towards those of the best bound, as they oscillate: that takes fewer rounds. If
// that finds no pattern, the duals themselves are used.
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

// smoothing is the weight of the best bound's duals in the values that are used to search for patterns.
const smoothing = 0.5

// values mixes the duals of the best bound, with weight part, with those of the programme.
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
			next.dues[b.limits[0]] = most // each class of real nodes has a limit of its own
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

// amounts returns the fraction of each pattern in the solution.
func (m *master) amounts() []float64 {
	list := make([]float64, len(m.patterns))
	for row, j := range m.program.basis {
		if j >= m.first {
			list[j-m.first] = math.Max(0, m.program.x[row])
		}
	}
	return list
}
