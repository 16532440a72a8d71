// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver_test

import (
	"slices"

	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/amount"
)

// naive solves a Problem by trying every device for every slot in order. It keeps nothing but the
// list of choices, and works out from the whole list whether one more device may join.
type naive struct {
	p       *solver.Problem
	choices []solver.Choice
	options []int32
	stop    solver.Stop
	steps   int
}

type naiveEnd int

const (
	naiveNone naiveEnd = iota
	naiveFound
	naiveOversized
	naiveStopped
	naiveSpent
)

func solveNaively(p *solver.Problem) (naiveEnd, *naive) {
	n := &naive{p: p, options: make([]int32, len(p.Requests))}
	return n.request(0), n
}

func (n *naive) request(p int32) naiveEnd {
	if int(p) == len(n.p.Requests) {
		return naiveFound
	}
	r := &n.p.Requests[p]
	var end naiveEnd
	if r.Off {
		end = n.request(p + 1)
	} else {
		end = naiveOversized
		for o := range r.Options {
			n.options[p] = int32(o)
			switch found := n.option(p, int32(o)); found {
			case naiveFound, naiveStopped, naiveSpent:
				return found
			case naiveNone:
				end = naiveNone
			}
		}
	}
	if end == naiveOversized && (p == 0 || n.p.Requests[p-1].Claim != r.Claim) {
		return naiveNone
	}
	return end
}

func (n *naive) option(p, o int32) naiveEnd {
	option := &n.p.Requests[p].Options[o]
	held := 0
	for _, c := range n.choices {
		if n.p.Requests[c.Request].Claim == n.p.Requests[p].Claim {
			held++
		}
	}
	switch {
	case option.All && option.Count == 0:
		return naiveNone
	case option.Count == 0:
		return n.request(p + 1)
	case held+option.Count > n.p.MostOfClaim:
		return naiveOversized
	}
	return n.slot(p, o, 0, 0)
}

func (n *naive) slot(p, o int32, k int, from int32) naiveEnd {
	option := &n.p.Requests[p].Options[o]
	if k == option.Count {
		_, gives := n.filled()
		for t, total := range option.Totals {
			var given amount.Amount
			for i, c := range n.choices {
				if c.Request == p {
					given = given.Add(gives[i][t])
				}
			}
			if given.Cmp(total) < 0 {
				return naiveNone
			}
		}
		return n.request(p + 1)
	}
	if n.steps++; n.steps > *naiveSteps {
		return naiveSpent
	}
	candidates := []int32{}
	if option.All {
		candidates = append(candidates, option.Mandatory[k])
	} else {
		order := n.p.Domains[option.Domain].Order
		if order == nil {
			for i := range n.p.Devices {
				order = append(order, int32(i))
			}
		}
		candidates = order[from:]
	}
	for at, i := range candidates {
		choice := solver.Choice{Request: p, Option: o, Device: i}
		switch ok, stopped := n.joins(choice); {
		case stopped:
			return naiveStopped
		case !ok:
			continue
		}
		n.choices = append(n.choices, choice)
		end := n.slot(p, o, k+1, from+int32(at)+1)
		if end != naiveNone && end != naiveOversized {
			return end
		}
		n.choices = n.choices[:len(n.choices)-1]
		if end == naiveOversized {
			return end
		}
	}
	return naiveNone
}

// joins reports whether a choice is possible beside those made, or ends the search.
func (n *naive) joins(c solver.Choice) (ok, stopped bool) {
	option := &n.p.Requests[c.Request].Options[c.Option]
	d := &n.p.Domains[option.Domain]
	i := uint(c.Device)
	late := option.All && option.Late != nil && option.Late.Test(i)
	if n.taken(d, n.p.Requests[c.Request].Claim, c.Device) {
		return false, false
	}
	if !option.All && d.Stops != nil && d.Stops.Test(i) {
		n.stop = solver.Stop{Request: c.Request, Option: c.Option, Device: c.Device, Cover: -1}
		return false, true
	}
	if !late && !d.Allowed.Test(i) {
		return false, false
	}
	room := n.room(d, c.Device)
	if !option.All && !room || !n.affords(c.Device) {
		return false, false
	}
	for k := range d.Covers {
		cover := &d.Covers[k]
		if n.p.Relations[cover.Relation].Off {
			continue
		}
		if cover.Stops != nil && cover.Stops.Test(i) {
			n.stop = solver.Stop{Request: c.Request, Option: c.Option, Device: c.Device, Cover: k}
			return false, true
		}
		if !n.related(cover, c.Device) {
			if option.All {
				n.stop = solver.Stop{Request: c.Request, Option: c.Option, Device: c.Device, Cover: k, Violated: true}
			}
			return false, option.All
		}
	}
	return !late && room, false
}

func (n *naive) domain(c solver.Choice) *solver.Domain {
	return &n.p.Domains[n.p.Requests[c.Request].Options[c.Option].Domain]
}

func (n *naive) taken(d *solver.Domain, claim, i int32) bool {
	if n.p.Devices[i].Shareable {
		return false
	}
	return slices.ContainsFunc(n.choices, func(c solver.Choice) bool {
		return c.Device == i && (!d.Admin || n.p.Requests[c.Request].Claim == claim)
	})
}

// left is what the choices leave of a resource.
func (n *naive) left(resource int32) amount.Amount {
	left := n.p.Left[resource]
	var drawn []int32
	for _, c := range n.choices {
		if d := n.domain(c); int(c.Device) < len(d.Shares) && n.p.Devices[c.Device].Shareable {
			left = less(left, d.Shares[c.Device], resource)
		}
		if n.draws(c.Device) && !(n.p.Devices[c.Device].Shareable && slices.Contains(drawn, c.Device)) {
			left = less(left, n.p.Devices[c.Device].Draws, resource)
			drawn = append(drawn, c.Device)
		}
	}
	takes, _ := n.filled()
	for _, draws := range takes {
		left = less(left, draws, resource)
	}
	return left
}

// filled works out, choice by choice, what is taken to fill totals, and what is given to each. A share
// takes one step after the other until enough is given or too little is left.
func (n *naive) filled() (takes [][]solver.Draw, gives [][]amount.Amount) {
	left := make(map[int32]amount.Amount)
	for r := range n.p.Left {
		left[int32(r)] = n.p.Left[r]
	}
	for i, c := range n.choices {
		d, option := n.domain(c), &n.p.Requests[c.Request].Options[c.Option]
		if int(c.Device) < len(d.Shares) && n.p.Devices[c.Device].Shareable {
			for _, draw := range d.Shares[c.Device] {
				left[draw.Resource] = left[draw.Resource].Sub(draw.Amount)
			}
		}
		takes, gives = append(takes, nil), append(gives, nil)
		for t, total := range option.Totals {
			for before, other := range n.choices[:i] {
				if other.Request == c.Request {
					total = total.Sub(gives[before][t])
				}
			}
			given := d.Gives[t][c.Device]
			if d.Fills != nil && !d.Fills[t][c.Device].Step.IsZero() {
				f := d.Fills[t][c.Device]
				given = amount.Amount{}
				for given.Cmp(total) < 0 && left[f.Resource].Cmp(f.Step) >= 0 {
					given, left[f.Resource] = given.Add(f.Step), left[f.Resource].Sub(f.Step)
					takes[i] = append(takes[i], solver.Draw{Resource: f.Resource, Amount: f.Step})
				}
				if given.Cmp(total) > 0 {
					given = total
				}
				if given.Sign() < 0 {
					given = amount.Amount{}
				}
			}
			gives[i] = append(gives[i], given)
		}
	}
	return takes, gives
}

func less(left amount.Amount, draws []solver.Draw, resource int32) amount.Amount {
	for _, draw := range draws {
		if draw.Resource == resource {
			left = left.Sub(draw.Amount)
		}
	}
	return left
}

func (n *naive) draws(i int32) bool {
	return n.p.Devices[i].Pool >= 0 && !(n.p.Devices[i].Shareable && n.p.Paid != nil && n.p.Paid.Test(uint(i)))
}

func (n *naive) room(d *solver.Domain, i int32) bool {
	if int(i) >= len(d.Shares) {
		return true
	}
	return !slices.ContainsFunc(d.Shares[i], func(draw solver.Draw) bool { return n.left(draw.Resource).Cmp(draw.Amount) < 0 })
}

func (n *naive) affords(i int32) bool {
	d := &n.p.Devices[i]
	if !n.draws(i) || d.Shareable && slices.ContainsFunc(n.choices, func(c solver.Choice) bool { return c.Device == i }) {
		return true
	}
	for _, g := range d.Groups {
		lists := [][]int32{}
		if r := &n.p.Relations[g.Relation]; r.Begun {
			lists = append(lists, r.Left)
		}
		var drawn []int32
		for _, c := range n.choices {
			if n.draws(c.Device) && !slices.Contains(drawn, c.Device) {
				drawn = append(drawn, c.Device)
				for _, other := range n.p.Devices[c.Device].Groups {
					if other.Relation == g.Relation {
						lists = append(lists, other.Values)
					}
				}
			}
		}
		if !matches(append(lists, g.Values)) {
			return false
		}
	}
	for r := range n.p.Left {
		if n.p.PoolOf[r] == d.Pool && less(n.left(int32(r)), d.Draws, int32(r)).Sign() < 0 {
			return false
		}
	}
	return true
}

// related reports whether a device can join those that a relation covers already.
func (n *naive) related(cover *solver.Cover, i int32) bool {
	r := &n.p.Relations[cover.Relation]
	lists := [][]int32{}
	if r.Begun {
		lists = append(lists, r.Left)
	}
	for _, c := range n.choices {
		for _, other := range n.domain(c).Covers {
			if other.Relation == cover.Relation {
				lists = append(lists, other.Values[c.Device])
			}
		}
	}
	offered := cover.Values[i]
	if offered == nil || len(offered) == 0 && len(lists) > 0 {
		return false
	}
	switch r.Kind {
	case solver.Match:
		return len(lists) == 0 || matches(append(lists, offered))
	case solver.Distinct:
		return !slices.ContainsFunc(lists, func(list []int32) bool { return matches([][]int32{list, offered}) })
	case solver.AtMost:
		different := make(map[int32]bool)
		for _, v := range slices.Concat(append(lists, offered)...) {
			different[v] = true
		}
		return len(offered) > 0 && len(different) <= r.Most
	}
	panic("a kind of relation that is not known")
}

// matches reports whether lists have a value in common.
func matches(lists [][]int32) bool {
	for _, v := range lists[0] {
		if !slices.ContainsFunc(lists, func(list []int32) bool { return !slices.Contains(list, v) }) {
			return true
		}
	}
	return false
}
