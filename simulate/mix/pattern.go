// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"context"
	"math"
	"slices"
)

// pattern is the number of pods of each kind in one bin.
type pattern struct {
	*bin
	counts []int // by kind of the problem
}

// knapsack searches for the most valuable patterns of a bin, given the value of a pod of each kind.
//
// The graph of devices gives an upper bound of the value, which ignores other resources. They are added by
// Lagrangian relaxation. Each resource has a weight, which is subtracted from the values of pods in proportion
// to their requests, and added once for what is free. Any weights give an upper bound. Good ones are found by
// the subgradient method with Polyak's step: it raises the weights of resources that the best pods exceed.
type knapsack struct {
	*problem
	*bin
	ctx     context.Context
	values  []float64 // of a pod, by position in bin.kinds
	wanted  []int     // largest number of pods, by position in bin.kinds
	order   []int     // stages: positions in bin.kinds
	net     []float64 // values minus the weights of the pod's resources
	weights []float64 // by resource: the value of all that is free of it
	rest    [][]float64
	counts  []int // by position in bin.kinds
	used    []int64
	// atLeast is the least value of a pattern that search reports. found is called for each, and returns the
	// next atLeast.
	atLeast float64
	found   func(worth float64) float64
	// patience is the remaining number of steps of the present search.
	patience int64
	err      error
}

const (
	// rounds is the largest number of iterations of the subgradient method.
	rounds = 12
	// costOfTake is the number of steps for asking package simulate once.
	costOfTake = 50
)

// newKnapsack returns a knapsack of a bin. Its stages are the kinds with a positive value, or all kinds.
func (p *problem) newKnapsack(ctx context.Context, b *bin, values []float64, wanted []int, all bool) *knapsack {
	s := &knapsack{problem: p, bin: b, ctx: ctx, net: make([]float64, len(b.kinds)), counts: make([]int, len(b.kinds)), used: make([]int64, len(b.free))}
	none := make([]int64, len(b.free))
	for i, k := range b.kinds {
		s.values, s.wanted = append(s.values, max(0, values[k])), append(s.wanted, b.most(i, wanted[k], none))
		if s.wanted[i] > 0 && (all || values[k] > 0) {
			s.order = append(s.order, i)
		}
	}
	return s
}

// best searches for the most valuable pattern with a value above the threshold. counts is by position in
// bin.kinds, or nil if none was found. most is an upper bound of the value of any pattern.
func (s *knapsack) best(threshold float64) (counts []int, worth, most float64, err error) {
	worth, most = threshold, math.Inf(1)
	keep := func(value float64) float64 {
		if value > worth+s.tolerance {
			worth, counts = value, slices.Clone(s.counts)
		}
		return worth + s.tolerance
	}
	weights := slices.Clone(s.bin.weights)
	for range rounds {
		s.weigh(weights)
		bound := s.restOf(0, 0) + sum(weights)
		if bound < most {
			most = bound
			copy(s.bin.weights, weights)
		}
		if s.err != nil || math.IsInf(bound, 1) || most <= worth+s.tolerance {
			break
		}
		if value, fits := s.trace(); fits {
			keep(value)
		}
		if most <= worth+s.tolerance || !s.shift(weights, bound-worth) {
			break
		}
	}
	if s.err == nil && !math.IsInf(most, 1) && most > worth+s.tolerance {
		s.weigh(s.bin.weights)
		s.restOf(0, 0)
		s.atLeast, s.found = worth+s.tolerance, keep
		clear(s.counts)
		clear(s.used)
		if s.search(0, 0, 0); s.patience > 0 && s.steps > 0 {
			most = min(most, worth+s.tolerance)
		}
	}
	return counts, worth, most, s.err
}

// all lists the maximal patterns with at least the given value. It is not complete if there are more than
// limit, or if the search was given up.
func (s *knapsack) all(atLeast float64, limit int) (list []pattern, complete bool, err error) {
	s.weigh(s.bin.weights)
	s.restOf(0, 0)
	s.atLeast, s.patience = atLeast, s.steps
	s.found = func(float64) float64 {
		counts := s.counted(s.counts)
		maximal, err := s.maximal(counts)
		if s.err = err; maximal {
			list = append(list, pattern{s.bin, counts})
		}
		if len(list) > limit {
			s.patience = 0
		}
		return atLeast
	}
	s.search(0, 0, 0)
	return list, s.patience > 0 && s.steps > 0, s.err
}

// counted converts counts by position in bin.kinds to counts by kind of the problem.
func (s *knapsack) counted(counts []int) []int {
	all := make([]int, len(s.problem.kinds))
	for i, k := range s.bin.kinds {
		all[k] = counts[i]
	}
	return all
}

// maximal reports whether no further pod that is wanted fits.
func (s *knapsack) maximal(counts []int) (bool, error) {
	for i, k := range s.bin.kinds {
		if counts[k] >= s.wanted[i] {
			continue
		}
		s.steps -= int64(len(s.order))
		counts[k]++
		fits, err := s.holds(s.ctx, counts)
		if counts[k]--; fits || err != nil {
			return false, err
		}
	}
	return true, nil
}

// weigh sets the weights of resources, and clears results for other weights.
func (s *knapsack) weigh(weights []float64) {
	s.weights = weights
	for _, i := range s.order {
		s.net[i] = s.values[i]
		for r, need := range s.needs[i] {
			if need > 0 {
				s.net[i] -= weights[r] * float64(need) / float64(s.free[r])
			}
		}
	}
	if s.rest == nil {
		s.rest = make([][]float64, len(s.order))
	}
	for stage := range s.rest {
		s.rest[stage] = s.rest[stage][:0]
	}
}

// restOf is an upper bound of the net value of pods of the stages from one on, in a state of the devices. It is
// infinite if the steps have run out.
func (s *knapsack) restOf(stage int, state int32) float64 {
	if stage == len(s.order) {
		return 0
	}
	if known := s.rest[stage]; int(state) < len(known) && !math.IsNaN(known[state]) {
		return known[state]
	}
	best := s.restOf(stage+1, state)
	s.chain(stage, state, func(count int, next int32) {
		best = max(best, float64(count)*s.net[s.order[stage]]+s.restOf(stage+1, next))
	})
	for int(state) >= len(s.rest[stage]) {
		s.rest[stage] = append(s.rest[stage], math.NaN())
	}
	s.rest[stage][state] = best
	if s.steps <= 0 {
		return math.Inf(1)
	}
	return best
}

// chain visits the states of devices after one, two and more pods of a stage's kind, up to the wanted number.
// If the pods take no devices, it visits the last number only.
func (s *knapsack) chain(stage int, state int32, visit func(count int, next int32)) {
	kind := s.order[stage]
	for count := 1; count <= s.wanted[kind]; count++ {
		next := s.take(state, kind)
		if next < 0 {
			return
		}
		if next == state {
			count = s.wanted[kind]
		}
		state = next
		visit(count, state)
	}
}

// take is bin.after, and counts the steps.
func (s *knapsack) take(state int32, kind int) int32 {
	if s.steps--; s.steps <= 0 || s.err != nil {
		return unfit
	}
	if s.next[state][kind] == unknown {
		s.steps -= costOfTake
	}
	next, err := s.after(s.ctx, state, kind)
	if err != nil {
		s.err = err
	}
	return next
}

// trace reconstructs the pods of restOf's bound in counts and used. It returns their value, and whether
// resources suffice for them.
func (s *knapsack) trace() (worth float64, fits bool) {
	clear(s.counts)
	clear(s.used)
	state := int32(0)
	for stage, kind := range s.order {
		best, count, at := s.restOf(stage+1, state), 0, state
		s.chain(stage, state, func(n int, next int32) {
			if value := float64(n)*s.net[kind] + s.restOf(stage+1, next); value > best {
				best, count, at = value, n, next
			}
		})
		s.counts[kind], state = count, at
		s.add(kind, count)
		worth += float64(count) * s.values[kind]
	}
	for r := range s.used {
		if s.used[r] > s.free[r] {
			return worth, false
		}
	}
	return worth, true
}

func (s *knapsack) add(kind, count int) {
	for r, need := range s.needs[kind] {
		s.used[r] += need * int64(count)
	}
}

// shift makes one step of the subgradient method. excess is the bound minus the best value found. It is false
// if the weights cannot be improved.
func (s *knapsack) shift(weights []float64, excess float64) bool {
	slopes, norm := make([]float64, len(weights)), 0.0
	for r := range weights {
		slopes[r] = 1 - float64(s.used[r])/float64(s.free[r])
		if weights[r] == 0 && slopes[r] > 0 {
			slopes[r] = 0
		}
		norm += slopes[r] * slopes[r]
	}
	if norm < 1e-12 {
		return false
	}
	for r := range weights {
		weights[r] = max(0, weights[r]-excess/norm*slopes[r])
	}
	return true
}

// search enumerates the patterns from a stage on by branch and bound, larger numbers of pods first.
func (s *knapsack) search(stage int, state int32, worth float64) {
	if s.patience--; s.patience <= 0 || s.err != nil {
		return
	}
	if s.steps--; s.steps <= 0 {
		return
	}
	if stage == len(s.order) {
		if worth >= s.atLeast {
			s.atLeast = s.found(worth)
		}
		return
	}
	bound := worth + s.restOf(stage, state)
	for r, weight := range s.weights {
		bound += weight * (1 - float64(s.used[r])/float64(s.free[r]))
	}
	if bound < s.atLeast {
		return
	}
	kind := s.order[stage]
	most := s.most(kind, s.wanted[kind], s.used)
	states := []int32{state}
	for count := 1; count <= most; count++ {
		next := s.take(states[count-1], kind)
		if next < 0 {
			break
		}
		states = append(states, next)
	}
	for count := len(states) - 1; count >= 0; count-- {
		s.counts[kind] = count
		s.add(kind, count)
		s.search(stage+1, states[count], worth+float64(count)*s.values[kind])
		s.add(kind, -count)
	}
	s.counts[kind] = 0
}

func sum(list []float64) (total float64) {
	for _, value := range list {
		total += value
	}
	return total
}
