// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/memo"
)

// serving fails if components cannot serve all openings. A component is a set of devices that take of common
// resources, so that not all of them may be chosen together.
//
// Of n devices for an opening, each serves one n-th of it. The devices of a solution serve all openings. The
// devices of a component serve no more than the best choice among them that the resources allow.
type serving struct {
	// devices and resources are lists by component.
	devices, resources [][]int32
	// whole is what it takes to serve a request: a common multiple of the numbers of devices of all options.
	whole int64
	// parts are, by domain, what a device serves of a request. parts, items, left and key are scratch buffers.
	parts []int64
	items []served
	left  []amount.Amount
	key   memo.Key
	// known caches the most that a component serves. The key has its viable devices and what is left of its
	// resources.
	known map[string]int64
	tried int
}

// served is a device with what it serves at most. rest is the sum of part from this device on.
type served struct {
	device     int32
	part, rest int64
}

const (
	// mostTried bounds the choices that are tried of a component. Beyond it, the component is taken to serve
	// with all its devices.
	mostTried = 1_000
	// mostParts bounds serving.whole, the number of parts of a request.
	mostParts = 1 << 32
	// mostServing bounds the entries of known.
	mostServing = 1 << 14
)

// newServing returns nil if no component has several devices.
func (s *search) newServing() *serving {
	v := &serving{whole: 1, parts: make([]int64, len(s.p.Domains)), left: make([]amount.Amount, len(s.p.Left)), known: make(map[string]int64)}
	for p := range s.p.Requests {
		for _, o := range s.p.Requests[p].Options {
			if o.Count > 0 && o.Count <= s.p.MostOfClaim {
				v.whole *= int64(o.Count) / gcd(v.whole, int64(o.Count))
			}
			if v.whole > mostParts {
				return nil
			}
		}
	}
	ofResource, ofDevice := s.components()
	v.devices, v.resources = make([][]int32, len(ofResource)+len(ofDevice)), make([][]int32, len(ofResource)+len(ofDevice))
	for r, c := range ofResource {
		v.resources[c] = append(v.resources[c], int32(r))
	}
	some := false
	for i, c := range ofDevice {
		v.devices[c] = append(v.devices[c], int32(i))
		some = some || len(v.devices[c]) > 1
	}
	if !some {
		return nil
	}
	return v
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (v *serving) fails(s *search, open []opening) bool {
	clear(v.parts)
	needed := int64(0)
	for k := range open {
		needed += v.needs(s, &open[k])
	}
	for c := 0; needed > 0; c++ {
		if c == len(v.devices) {
			return true
		}
		if len(v.devices[c]) > 0 {
			needed -= v.serves(s, c)
		}
	}
	return false
}

// needs is what it takes to serve an opening. It is zero if a device could serve several openings.
func (v *serving) needs(s *search, o *opening) int64 {
	if s.admin(*o) || len(s.ahead.shareable) > 0 && s.anyShareable(o.viable) {
		return 0
	}
	part := int64(0)
	for _, option := range o.options {
		if option.Count > 0 && option.Count <= s.p.MostOfClaim {
			part = v.whole / int64(option.Count)
			v.parts[option.Domain] = max(v.parts[option.Domain], part)
		}
	}
	if len(o.options) == 1 {
		return int64(o.slots) * part
	}
	return v.whole
}

// serves is the most that a component can serve.
func (v *serving) serves(s *search, c int) int64 {
	v.items, v.key.Bytes = v.items[:0], v.key.Bytes[:0]
	v.key.Number(c)
	for _, i := range v.devices[c] {
		part := int64(0)
		for d, viable := range s.ahead.viable {
			if v.parts[d] > part && viable.Test(uint(i)) {
				part = v.parts[d]
			}
		}
		if part > 0 {
			v.items = append(v.items, served{device: i, part: part})
		}
		v.key.Number(int(part))
	}
	s.payForChecks(len(v.items))
	rest := int64(0)
	for k := len(v.items) - 1; k >= 0; k-- {
		rest += v.items[k].part
		v.items[k].rest = rest
	}
	if len(v.items) < 2 {
		return rest
	}
	for _, r := range v.resources[c] {
		v.left[r] = s.left[r]
		v.key.Amount(s.left[r])
	}
	most, known := v.known[string(v.key.Bytes)]
	if !known {
		v.tried = 0
		if most = v.most(s, v.items, 0, 0); v.tried > mostTried {
			most = rest
		}
		s.payForChecks(v.tried)
		if len(v.known) == mostServing {
			clear(v.known)
		}
		v.known[string(v.key.Bytes)] = most
	}
	return most
}

// most returns the larger of best and the most that can be served with the devices chosen before and any of
// items.
func (v *serving) most(s *search, items []served, chosen, best int64) int64 {
	best = max(best, chosen)
	if v.tried++; len(items) == 0 || chosen+items[0].rest <= best || v.tried > mostTried {
		return best
	}
	draws := s.p.Devices[items[0].device].Draws
	if v.affords(draws) {
		for _, draw := range draws {
			v.left[draw.Resource] = v.left[draw.Resource].Sub(draw.Amount)
		}
		best = v.most(s, items[1:], chosen+items[0].part, best)
		for _, draw := range draws {
			v.left[draw.Resource] = v.left[draw.Resource].Add(draw.Amount)
		}
	}
	return v.most(s, items[1:], chosen, best)
}

func (v *serving) affords(draws []Draw) bool {
	for _, draw := range draws {
		if v.left[draw.Resource].Cmp(draw.Amount) < 0 {
			return false
		}
	}
	return true
}
