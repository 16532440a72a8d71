// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
)

// item is a unit of a kind on a node. choice is the position in kind.choices of the alternatives that it takes,
// or open.
type item struct{ kind, choice int }

// open leaves the choice of alternatives to the allocator.
const open = -1

// load is what is placed on a node. The loads of a node form a tree, so that equal loads are asked about once.
type load struct {
	node  int
	items []item
	fits  allocator.Verdict // NoVerdict until it is asked
	// room is how many more units fit, by kind; below zero until it is asked.
	room []int
	next map[item]*load
}

func (l *load) with(i item) *load {
	if known := l.next[i]; known != nil {
		return known
	}
	if l.next == nil {
		l.next = make(map[item]*load)
	}
	made := &load{node: l.node, items: append(slices.Clip(l.items), i)}
	l.next[i] = made
	return made
}

func (l *load) withMany(i item, n int) *load {
	for range n {
		l = l.with(i)
	}
	return l
}

// together looks for places for all units at once.
func (a *asker) together() (*Result, error) {
	p := &planner{asker: a, loads: make([]*load, len(a.Nodes))}
	for n := range p.loads {
		p.loads[n] = &load{node: n, fits: allocator.Satisfiable}
	}
	inexact := nodesShareDevices(a.State, a.Nodes) || slices.ContainsFunc(a.kinds, func(k kind) bool { return k.admin }) || a.Min < len(a.Pods) && len(a.units) < len(a.Pods)
	places, err := p.plan()
	if err != nil {
		return nil, err
	}
	r := a.result(allocator.Satisfiable, places)
	if r.Placed() < a.Min && inexact {
		if places, err = a.backtrack(); err != nil {
			return nil, err
		}
		if found := a.result(allocator.Satisfiable, places); found.Placed() > r.Placed() {
			r = found
		}
	}
	r.Steps = a.spent
	if r.Placed() >= a.Min {
		return r, nil
	}
	if before := a.result(0, a.most); before.Placed() > r.Placed() {
		r.Places = a.most
	}
	r.Verdict, r.Exact = allocator.NotSatisfiable, !inexact
	if a.doubt || a.exhausted() {
		r.Verdict, r.Exact = allocator.NotDecided, false
	}
	return r, nil
}

// planner decides which units go to which node.
type planner struct {
	*asker
	loads []*load // by node: what is placed so far
}

// plan returns places for all units, or else for as many as were found.
func (p *planner) plan() ([]Place, error) {
	rest := make([]int, len(p.kinds))
	for k := range p.kinds {
		rest[k] = len(p.kinds[k].units)
	}
	target := make([]bool, len(p.units))
	witness, err := p.pack(p.loads, rest)
	if err != nil {
		return nil, err
	}
	if witness != nil {
		for u := range target {
			target[u] = true
		}
	} else if witness, err = p.chooseUnits(rest, target); err != nil {
		return nil, err
	}
	chosen, err := p.prefer(target, rest, witness)
	if err != nil {
		return nil, err
	}
	return p.allocate(chosen)
}

// chooseUnits marks the units that have room together, found greedily. If these are too few, it looks for any set that
// is large enough. rest becomes the number of units of each kind.
func (p *planner) chooseUnits(rest []int, target []bool) ([][]int, error) {
	clear(rest)
	witness, err := p.addUnits(rest, nil)
	if err != nil {
		return nil, err
	}
	if p.pods(rest) < p.Min { // an early unit may exclude several later ones
		enough := make([]int, len(rest))
		found, err := p.reachMin(enough, 0)
		if err != nil {
			return nil, err
		}
		if found != nil {
			copy(rest, enough)
			if witness, err = p.addUnits(rest, found); err != nil {
				return nil, err
			}
		}
	}
	for k, n := range rest {
		for _, u := range p.kinds[k].units[:n] {
			target[u] = true
		}
	}
	return witness, nil
}

// addUnits adds units in order as long as there is room.
func (p *planner) addUnits(rest []int, witness [][]int) ([][]int, error) {
	seen, full := make([]int, len(rest)), make([]bool, len(rest))
	for u := range p.units {
		k := p.units[u].kind
		if seen[k]++; full[k] || seen[k] <= rest[k] {
			continue
		}
		rest[k]++
		found, err := p.pack(p.loads, rest)
		if err != nil {
			return nil, err
		}
		if found == nil {
			full[k] = true
			rest[k]--
			continue
		}
		witness = found
	}
	return witness, nil
}

// reachMin looks for numbers of units, from kind k on, that reach Min and have room. It takes no more units than
// necessary.
func (p *planner) reachMin(rest []int, k int) ([][]int, error) {
	if p.pods(rest) >= p.Min {
		return p.pack(p.loads, rest)
	}
	if k == len(rest) || p.exhausted() {
		return nil, nil
	}
	p.spent++
	most := len(p.kinds[k].units)
	for rest[k] < most && p.pods(rest) < p.Min {
		rest[k]++
	}
	for {
		if found, err := p.reachMin(rest, k+1); found != nil || err != nil {
			return found, err
		}
		if rest[k] == 0 {
			return nil, nil
		}
		rest[k]--
	}
}

// pods is the number of pods in the first units of each kind.
func (p *planner) pods(units []int) int {
	total := 0
	for k, n := range units {
		for _, u := range p.kinds[k].units[:n] {
			total += len(p.units[u].pods)
		}
	}
	return total
}

// placed is the node and the alternatives of a unit.
type placed struct{ node, choice int }

// prefer gives each unit in order the first alternatives with which the remaining units still fit, on the first
// such node. Once the budget is spent, it uses the known packing.
func (p *planner) prefer(target []bool, rest []int, witness [][]int) ([]placed, error) {
	chosen := make([]placed, len(p.units))
	last := make([]placed, len(p.kinds)) // a unit cannot have what an earlier one of its kind could not
	for u := range p.units {
		chosen[u].node = -1
		if !target[u] {
			continue
		}
		k := p.units[u].kind
		rest[k]--
		found, next, err := p.choose(k, last[k], rest, witness)
		if err != nil {
			return nil, err
		}
		if found.node < 0 { // not decided within the budget
			found.node = slices.IndexFunc(witness, func(counts []int) bool { return counts != nil && counts[k] > 0 })
			found.choice, next = open, witness
			next[found.node] = oneLess(witness[found.node], k)
		} else {
			last[k] = found
		}
		p.loads[found.node] = p.loads[found.node].with(p.item(k, found.choice))
		chosen[u], witness = found, next
	}
	return chosen, nil
}

// item returns a unit of a kind with a choice.
func (p *planner) item(k, choice int) item {
	if choice != open && p.kinds[k].choices[choice] == nil {
		choice = open
	}
	return item{k, choice}
}

// choose looks for the place of one unit of a kind, from a given place on. It returns a packing of the
// remaining units, too.
func (p *planner) choose(k int, from placed, rest []int, witness [][]int) (placed, [][]int, error) {
	none := placed{node: -1}
	for c := from.choice; c < len(p.kinds[k].choices); c++ {
		at, start := p.item(k, c), 0
		if c == from.choice {
			start = from.node
		}
		failed := make(map[string]int)
		for n := start; n < len(p.loads); n++ {
			before := p.loads[n]
			after := before.with(at)
			if fits, err := p.fits(after); err != nil {
				return none, nil, err
			} else if !fits {
				continue
			}
			if p.exhausted() {
				return none, nil, nil
			}
			if witness[n] != nil && witness[n][k] > 0 {
				left := oneLess(witness[n], k)
				fits, err := p.fits(after.plus(left))
				if err != nil {
					return none, nil, err
				}
				if fits {
					witness[n] = left
					return placed{n, c}, witness, nil
				}
			}
			alike, err := p.difference(before, after, rest)
			if err != nil {
				return none, nil, err
			}
			if failed[alike] > alikeTrials || failed[alike] > 0 && len(p.kinds) == 1 {
				continue
			}
			p.loads[n] = after
			next, err := p.packWithin(p.loads, rest, preferenceSteps)
			p.loads[n] = before
			if err != nil {
				return none, nil, err
			}
			if next != nil {
				return placed{n, c}, next, nil
			}
			failed[alike]++
		}
	}
	return none, nil, nil
}

// These bound how long preferences are tried with several kinds: the steps of one packing, and the number of
// failures on nodes with equal room before and after. With one kind, such nodes are interchangeable.
const (
	preferenceSteps = 4000
	alikeTrials     = 3
)

// difference is equal for nodes with equal room for each kind before and after a load changes.
func (p *planner) difference(before, after *load, rest []int) (string, error) {
	var key []byte
	for k, n := range rest {
		for _, l := range []*load{before, after} {
			room := 0
			if n > 0 {
				var err error
				if room, err = p.room(l, k, n); err != nil {
					return "", err
				}
			}
			key = append(strconv.AppendInt(key, int64(room), 10), ' ')
		}
	}
	return string(key), nil
}

// oneLess returns counts with one less of a kind.
func oneLess(counts []int, k int) []int {
	left := slices.Clone(counts)
	left[k]--
	return left
}

// plus adds units of each kind.
func (l *load) plus(counts []int) *load {
	for k, n := range counts {
		l = l.withMany(item{k, open}, n)
	}
	return l
}

// allocate allocates node by node; the first node takes devices that several nodes can reach. If the units of a
// node have no devices, none of them is placed.
func (p *planner) allocate(chosen []placed) ([]Place, error) {
	places := p.unplaced()
	w := &sequence{asker: p.asker, state: p.State, podsOn: make([][]int, len(p.Nodes)), reach: make(map[claimKey]*selector)}
	of := make([][]int, len(p.Nodes))
	for u := range chosen {
		if n := chosen[u].node; n >= 0 {
			of[n] = append(of[n], u)
		}
	}
	for n, units := range of {
		if len(units) == 0 {
			continue
		}
		slices.SortStableFunc(units, func(u, v int) int { return p.compareByAdmin(p.units[u].kind, p.units[v].kind) })
		items := make([]item, len(units))
		for i, u := range units {
			items[i] = p.item(p.units[u].kind, chosen[u].choice)
		}
		claims, key := p.claimsOn(n, items, units)
		var made []*resourceapi.ResourceClaim
		if len(claims) > 0 {
			problem, err := p.problem(key, claims)
			if err != nil {
				return nil, err
			}
			found, fits, err := p.feasible(problem, w.state, n)
			if err != nil {
				return nil, err
			}
			if !fits {
				continue
			}
			if made, err = w.take(p.claimsWithAlternatives(n, units), found.Results()); err != nil {
				return nil, err
			}
		}
		for _, u := range units {
			for _, pod := range p.units[u].pods {
				own := p.Pods[pod].Variants[p.variant(pod, n)]
				places[pod].Node = n
				for len(made) > 0 && slices.ContainsFunc(own, func(c *resourceapi.ResourceClaim) bool { return keyOf(c) == keyOf(made[0]) }) {
					places[pod].Claims, made = append(places[pod].Claims, made[0]), made[1:]
				}
			}
		}
	}
	return places, nil
}

// claimsWithAlternatives returns the claims of units on a node, with all alternatives.
func (p *planner) claimsWithAlternatives(node int, units []int) []*resourceapi.ResourceClaim {
	var list []*resourceapi.ResourceClaim
	for _, u := range units {
		claims, _, _ := p.unitOn(u, node, nil)
		list = append(list, claims...)
	}
	return list
}

// claimsOn returns the claims of units on a node, and a key that is equal for interchangeable claims. The list
// is nil if a unit cannot run there.
func (p *planner) claimsOn(node int, items []item, units []int) ([]*resourceapi.ResourceClaim, string) {
	list := []*resourceapi.ResourceClaim{}
	var key strings.Builder
	for i, it := range items {
		var chosen choice
		if it.choice != open {
			chosen = p.kinds[it.kind].choices[it.choice]
		}
		claims, of, ok := p.unitOn(units[i], node, chosen)
		if !ok {
			return nil, ""
		}
		list = append(list, claims...)
		key.WriteString(strconv.Itoa(it.kind))
		key.WriteByte(':')
		key.WriteString(strconv.Itoa(it.choice))
		key.WriteByte(':')
		key.WriteString(of)
	}
	return list, key.String()
}
