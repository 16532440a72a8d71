// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"slices"

	"github.com/dray-project/dray/internal/memo"
)

// nogoods are states below which the search has failed. A state is all that later requests depend on: their
// viable devices, what is left for these devices, and which values they offer.
//
// Devices that take of common resources are a component. A state describes components without the names of
// devices and resources, and of values that no other component has. Equal states thus differ in names only: if
// one has no solution, none has.
type nogoods struct {
	// devices and resources are lists by component. of is the component of a device.
	devices, resources [][]int32
	of                 []int32
	// static numbers the static content of devices. Devices with one number take the same of the resources of
	// their components, give the same to totals, and are in the same groups.
	static []int32
	// names are, by relation and value, numbers of the values that no other component has. They count from 1 in
	// each component; 0 is for other values.
	names [][]int32
	// last is, by domain, the last request that takes devices of it.
	last []int32
	// known numbers the descriptions of components. failed are the states. bytes is the size of the keys of
	// both.
	known  map[string]int32
	failed map[string]struct{}
	bytes  int
	// The rest is scratch: keys of a state and of a component, and the numbers of the components of a state.
	state, part memo.Key
	parts       []int32
}

// maxNogoods bounds the size of keys in bytes. When it is reached, all nogoods are dropped.
const maxNogoods = 4 << 20

// unlessFailed decides a request and everything after it, unless the search has failed in an equal state.
// Before the last stop it does not skip, as the names of devices matter there.
func (s *search) unlessFailed(p int32) End {
	a := s.ahead
	if a == nil || s.rules&RuleNogoods == 0 || p < s.lastStop {
		return s.anyOf(p)
	}
	n, state := a.nogoods, ""
	if n != nil {
		state = n.stateBefore(s, p)
		if _, found := n.failed[state]; found {
			return None
		}
	}
	end := s.anyOf(p)
	switch {
	case end != None || a.nogoods != n:
	case n == nil:
		a.nogoods = s.newNogoods()
	case n.full():
		a.nogoods = nil
	default:
		n.fail(state)
	}
	return end
}

func (n *nogoods) fail(state string) {
	n.failed[state] = struct{}{}
	n.bytes += len(state)
}

func (n *nogoods) full() bool { return n.bytes > maxNogoods }

func (s *search) newNogoods() *nogoods {
	devices, most := len(s.p.Devices), len(s.p.Left)+len(s.p.Devices)
	n := &nogoods{
		devices: make([][]int32, most), resources: make([][]int32, most), names: make([][]int32, len(s.p.Relations)),
		static: s.memory.counts.Take(devices), last: s.memory.counts.Take(len(s.p.Domains)),
		known: make(map[string]int32), failed: make(map[string]struct{}),
	}
	for p, r := range s.p.Requests {
		for _, o := range r.Options {
			n.last[o.Domain] = int32(p)
		}
	}
	n.connect(s)
	for i := range s.p.Devices {
		n.static[i] = n.numberStatic(s, int32(i))
	}
	for r := range s.p.Relations {
		if column := s.columnOf(int32(r)); column != nil {
			n.names[r] = n.nameValues(s, column)
		}
	}
	return n
}

// connect finds the components. A component has the number of one of its resources, or of its only device.
func (n *nogoods) connect(s *search) {
	var of []int32 // by resource
	of, n.of = s.components()
	if s.ahead.longSearch {
		n.joinValues(s, of)
	}
	for r, c := range of {
		n.resources[c] = append(n.resources[c], int32(r))
	}
	for i := range n.of {
		n.devices[n.of[i]] = append(n.devices[n.of[i]], int32(i))
	}
}

// components returns the component of each resource and each device.
func (s *search) components() (ofResource, ofDevice []int32) {
	ofResource, ofDevice = s.memory.counts.Take(len(s.p.Left)), s.memory.counts.Take(len(s.p.Devices))
	for r := range ofResource {
		ofResource[r] = int32(r)
	}
	for i := range ofDevice {
		taken := s.takes(int32(i))
		for _, draw := range taken {
			from, to := ofResource[draw.Resource], ofResource[taken[0].Resource]
			for r := 0; from != to && r < len(ofResource); r++ {
				if ofResource[r] == from {
					ofResource[r] = to
				}
			}
		}
	}
	for i := range ofDevice {
		ofDevice[i] = int32(len(ofResource) + i)
		if taken := s.takes(int32(i)); len(taken) > 0 {
			ofDevice[i] = ofResource[taken[0].Resource]
		}
	}
	return ofResource, ofDevice
}

// mostJoined is the largest number of components that a common value joins. A larger component would
// distinguish its devices by position, which makes fewer states equal than the value does.
const mostJoined = 4

// joinValues joins components whose devices have a common value in a relation, such as the devices on a bus.
// The value then needs no name, and states that exchange two buses are equal.
func (n *nogoods) joinValues(s *search, of []int32) {
	for r := range s.p.Relations {
		column := s.columnOf(int32(r))
		if column == nil || s.p.Relations[r].Off {
			continue
		}
		for v := range int32(column.count()) {
			var some []int32
			for _, i := range column.having(v) {
				if !slices.Contains(some, n.of[i]) {
					some = append(some, n.of[i])
				}
			}
			if len(some) < 2 || len(some) > mostJoined {
				continue
			}
			rename := func(list []int32) {
				for k, c := range list {
					if slices.Contains(some, c) {
						list[k] = some[0]
					}
				}
			}
			rename(of)
			rename(n.of)
		}
	}
}

// takes returns the draws of a device, with those of its shares.
func (s *search) takes(i int32) []Draw {
	list := slices.Clone(s.p.Devices[i].Draws)
	for d := range s.p.Domains {
		list = append(list, s.p.Domains[d].share(i)...)
	}
	return list
}

// numberStatic numbers the static content of a device. Resources are written by their positions in the component.
func (n *nogoods) numberStatic(s *search, i int32) int32 {
	k, d := &n.part, &s.p.Devices[i]
	k.Bytes = k.Bytes[:0]
	k.Flags(d.Shareable)
	n.draws(i, d.Draws)
	for o := range s.p.Domains {
		n.draws(i, s.p.Domains[o].share(i))
		for _, gives := range s.p.Domains[o].Gives {
			k.Amount(gives[i])
		}
	}
	k.Number(len(d.Groups))
	for _, g := range d.Groups {
		k.Number(int(g.Relation))
	}
	return n.number()
}

func (n *nogoods) draws(i int32, list []Draw) {
	n.part.Number(len(list))
	for _, draw := range list {
		n.part.Number(slices.Index(n.resources[n.of[i]], draw.Resource))
		n.part.Amount(draw.Amount)
	}
}

// nameValues numbers the values of a column that only devices of one component have.
func (n *nogoods) nameValues(s *search, column *Column) []int32 {
	names, count := make([]int32, column.count()), s.memory.counts.Take(len(n.devices))
	for v, devices := range column.devices {
		if len(devices) > 0 && !slices.ContainsFunc(devices, func(i int32) bool { return n.of[i] != n.of[devices[0]] }) {
			c := n.of[devices[0]]
			count[c]++
			names[v] = count[c]
		}
	}
	return names
}

// number returns the number of the description in nogoods.part.
func (n *nogoods) number() int32 {
	number, found := n.known[string(n.part.Bytes)]
	if !found {
		number = int32(len(n.known))
		n.known[string(n.part.Bytes)] = number
		n.bytes += len(n.part.Bytes)
	}
	return number
}

// stateOutOfOrder is the state before the requests after p are decided, without those that completion has served out of
// order.
func (n *nogoods) stateOutOfOrder(s *search, p int32) string {
	done := s.ahead.completion.done
	for d := range n.last {
		n.last[d] = -1
	}
	for q := p + 1; int(q) < len(s.p.Requests); q++ {
		if !s.p.Requests[q].Off && !done[q] {
			for _, o := range s.p.Requests[q].Options {
				n.last[o.Domain] = q
			}
		}
	}
	n.write(s, p+1)
	k := &n.state
	for q := p + 1; int(q) < len(s.p.Requests); q++ {
		k.Flags(done[q])
	}
	for _, claimed := range s.claimed {
		k.Number(int(claimed))
	}
	return string(k.Bytes)
}

// stateBefore is the state before request p is decided.
func (n *nogoods) stateBefore(s *search, p int32) string {
	n.write(s, p)
	return string(n.state.Bytes)
}

// write writes the state before request p into nogoods.state.
func (n *nogoods) write(s *search, p int32) {
	some := s.union()
	s.ahead.used--
	for d, viable := range s.ahead.viable {
		if n.last[d] >= p {
			some.InPlaceUnion(viable)
		}
	}
	n.parts = n.parts[:0]
	for c, devices := range n.devices {
		n.part.Bytes = n.part.Bytes[:0]
		for _, i := range devices {
			if some.Test(uint(i)) {
				n.describe(s, p, i)
			}
		}
		if len(n.part.Bytes) == 0 {
			continue
		}
		n.part.Number(0)
		for _, r := range n.resources[c] {
			n.part.Amount(s.left[r])
		}
		n.parts = append(n.parts, n.number())
	}
	slices.Sort(n.parts)
	s.payForChecks(int(some.Count()))
	k := &n.state
	k.Bytes = k.Bytes[:0]
	k.Number(int(p))
	k.Number(int(s.claimed[s.p.Requests[p].Claim]))
	for r := range s.related {
		k.Number(s.p.Relations[r].kind().spent(s.related[r]))
	}
	for _, part := range n.parts {
		k.Number(int(part))
	}
}

// describe adds a device to a description.
func (n *nogoods) describe(s *search, p, i int32) {
	n.part.Number(int(n.static[i]) + 1)
	n.part.Flags(s.pays(i))
	for _, g := range s.p.Devices[i].Groups {
		n.values(s, g.Relation, g.Values)
	}
	for d, viable := range s.ahead.viable {
		if n.last[d] < p || !viable.Test(uint(i)) {
			continue
		}
		n.part.Number(d + 1)
		for k := range s.p.Domains[d].Covers {
			if c := &s.p.Domains[d].Covers[k]; !s.p.Relations[c.Relation].Off {
				n.values(s, c.Relation, c.Values[i])
			}
		}
	}
	n.part.Number(0)
}

// values adds the values with which a relation may still admit a device.
func (n *nogoods) values(s *search, relation int32, values []int32) {
	related, names, kind := &s.related[relation], n.names[relation], s.p.Relations[relation].kind()
	for _, v := range values {
		worth := kind.counts(*related, v)
		switch {
		case worth == worthless:
			continue
		case int(v) < len(names) && names[v] > 0:
			n.part.Number(2 * int(names[v]))
		default:
			n.part.Number(2*int(v) + 1)
		}
		n.part.Number(int(worth))
	}
	n.part.Number(0)
}
