// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"slices"

	"github.com/dray-project/dray/allocator"
)

// fits reports whether a node takes a load. If that is not known, it is false and sets doubt.
func (p *planner) fits(l *load) (bool, error) {
	if l.fits == allocator.NoVerdict {
		var err error
		if l.fits, err = p.ask(l); err != nil {
			return false, err
		}
	}
	return l.fits == allocator.Satisfiable, nil
}

func (p *planner) ask(l *load) (allocator.Verdict, error) {
	// Units of one kind are interchangeable, so the first ones stand for all.
	units, pods, used := make([]int, len(l.items)), make([]int, 0, len(l.items)), make([]int, len(p.kinds))
	items := slices.Clone(l.items)
	slices.SortStableFunc(items, func(x, y item) int { return p.compareByAdmin(x.kind, y.kind) })
	for i, it := range items {
		units[i] = p.kinds[it.kind].units[used[it.kind]]
		used[it.kind]++
		pods = append(pods, p.units[units[i]].pods...)
	}
	claims, key := p.claimsOn(l.node, items, units)
	if claims == nil || !p.Room(l.node, pods) {
		return allocator.NotSatisfiable, nil
	}
	if len(claims) == 0 {
		return allocator.Satisfiable, nil
	}
	problem, err := p.problem(key, claims)
	if err != nil {
		return 0, err
	}
	found, fits, err := p.feasible(problem, p.State, l.node)
	if err != nil {
		return 0, err
	}
	if !fits && found.Verdict() == allocator.NoVerdict {
		return allocator.NotDecided, nil
	}
	return found.Verdict(), nil
}

// room is how many units of a kind, up to a limit, a node takes in addition to a load.
func (p *planner) room(l *load, k, limit int) (int, error) {
	if l.room == nil {
		l.room = make([]int, len(p.kinds))
		for i := range l.room {
			l.room[i] = -1
		}
	}
	if l.room[k] >= 0 {
		return min(l.room[k], limit), nil
	}
	add := item{k, open}
	most := len(p.kinds[k].units) - l.count(k)
	// Invariant: low units fit, high units do not.
	low, high := 0, most+1
	for step := 1; low+1 < high; {
		n := min(low+step, most)
		if high <= most {
			n = (low + high) / 2
		}
		fits, err := p.fits(l.withMany(add, n))
		if err != nil {
			return 0, err
		}
		if fits {
			low, step = n, 2*step
		} else {
			high = n
		}
	}
	l.room[k] = low
	return min(low, limit), nil
}

func (l *load) count(k int) int {
	n := 0
	for _, it := range l.items {
		if it.kind == k {
			n++
		}
	}
	return n
}

// pack looks for room for rest[k] units of each kind in addition to loads. It returns the number of units by
// node and kind; the entry of a node may be nil. It returns nil if there is no room, or the budget is spent.
func (p *planner) pack(loads []*load, rest []int) ([][]int, error) {
	return p.packWithin(loads, rest, p.Budget)
}

// packWithin is pack with a separate budget.
func (p *planner) packWithin(loads []*load, rest []int, steps int64) ([][]int, error) {
	s := &packing{planner: p, loads: slices.Clone(loads), rest: rest, found: make([][]int, len(loads)), limit: min(p.spent+steps, p.Budget)}
	var slack []float64
	for k, n := range rest {
		slack = append(slack, 0)
		if n == 0 {
			continue
		}
		total, err := s.total(k)
		if err != nil || total < n {
			return nil, err
		}
		s.order, slack[k] = append(s.order, k), float64(total)/float64(n)
	}
	// Kinds with the least room come first.
	slices.SortStableFunc(s.order, func(x, y int) int { return cmp.Compare(slack[x], slack[y]) })
	fits, err := s.kind(0)
	if err != nil || !fits {
		return nil, err
	}
	return s.found, nil
}

// knownNodes is how many nodes with known room are looked at for one step.
const knownNodes = 64

// packing is a search for room, kind by kind and node by node.
type packing struct {
	*planner
	loads []*load
	rest  []int
	order []int
	found [][]int
	// limit bounds asker.spent.
	limit int64
}

func (s *packing) over() bool { return s.spent > s.limit }

func (s *packing) total(k int) (int, error) {
	total := 0
	for _, l := range s.loads {
		n, err := s.room(l, k, s.rest[k])
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// kind places the kinds from a position of the order on.
func (s *packing) kind(at int) (bool, error) {
	if at == len(s.order) {
		return true, nil
	}
	k := s.order[at]
	s.spent += int64(len(s.loads) / knownNodes)
	var nodes, room []int
	total := 0
	for n, l := range s.loads {
		fit, err := s.room(l, k, s.rest[k])
		if err != nil {
			return false, err
		}
		if fit > 0 {
			nodes, room = append(nodes, n), append(room, fit)
			total += fit
		}
	}
	if total < s.rest[k] {
		return false, nil
	}
	return s.node(at, nodes, room, total, s.rest[k])
}

// node places the remaining units of a kind on nodes with known room. It first tries as many as the first node
// takes.
func (s *packing) node(at int, nodes, room []int, total, left int) (bool, error) {
	if left == 0 {
		return s.kind(at + 1)
	}
	if s.over() {
		return false, nil
	}
	k, n, before := s.order[at], nodes[0], s.loads[nodes[0]]
	total -= room[0]
	for c := min(room[0], left); c >= max(0, left-total); c-- {
		s.spent++
		s.loads[n] = before.withMany(item{k, open}, c)
		fits, err := s.node(at, nodes[1:], room[1:], total, left-c)
		if err != nil || fits {
			if s.found[n] == nil {
				s.found[n] = make([]int, len(s.rest))
			}
			s.found[n][k] = c
			return fits, err
		}
		s.loads[n] = before
		if at == len(s.order)-1 || s.over() {
			break // how the last kind is divided among nodes does not matter
		}
	}
	return false, nil
}
