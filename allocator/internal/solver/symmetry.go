// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import "slices"

// skips reports whether a candidate fails in a place because another one failed there: nothing in
// the problem tells them apart, and no choice involves them, so exchanging them turns a solution into
// a solution. Where the search can end, the order of devices matters.
func (s *search) skips(p, i int32, failed []int32) bool {
	return len(failed) > 0 && s.ahead != nil && s.rules&RuleSymmetry != 0 && p >= s.lastStop && s.uses[i] == 0 &&
		slices.ContainsFunc(failed, func(j int32) bool { return s.uses[j] == 0 && s.alike(i, j) })
}

// ordered reports whether it counts in which order devices are chosen, so that not even equal ones can be exchanged: what
// fills a total depends on what is chosen before, and some kinds of relations admit devices without values as the first
// ones only.
func (s *search) ordered() bool {
	return s.p.fills() || slices.ContainsFunc(s.p.Domains, func(d Domain) bool {
		return slices.ContainsFunc(d.Covers, func(c Cover) bool {
			r := &s.p.Relations[c.Relation]
			return !r.Off && slices.ContainsFunc(c.Values, r.kind().ordered)
		})
	})
}

// alike compares all that a problem says of two devices.
func (s *search) alike(i, j int32) bool {
	a, b := &s.p.Devices[i], &s.p.Devices[j]
	if a.Shareable != b.Shareable || a.Pool != b.Pool || has(s.p.Paid, i) != has(s.p.Paid, j) {
		return false
	}
	if !slices.Equal(a.Draws, b.Draws) && !(s.ahead.long && s.exchanges(i, j)) {
		return false
	}
	if !slices.EqualFunc(a.Groups, b.Groups, func(g, h Group) bool { return g.Relation == h.Relation && slices.Equal(g.Values, h.Values) }) {
		return false
	}
	return !slices.ContainsFunc(s.p.Domains, func(d Domain) bool { return !s.alikeFor(&d, i, j) })
}

// exchanges reports whether two devices take the same but of resources that can be exchanged with them: as much is left of
// each, and every other device takes as much of one as of the other. Such are the first slices of a GPU's memory, where
// partitions take one of them, or all. A device has one draw for each resource, so that as many of both are left to compare. Proof:
// a solution with one of the two has what the other takes in its place, as all others take as much of each resource; one with both stays
// the same when they change places.
func (s *search) exchanges(i, j int32) bool {
	a, b := &s.p.Devices[i], &s.p.Devices[j]
	if len(a.Draws) != len(b.Draws) || a.Shareable {
		return false
	}
	var of []Draw // what the second device takes beside the first
	for _, draw := range b.Draws {
		if !slices.Contains(a.Draws, draw) {
			of = append(of, draw)
		}
	}
	for _, draw := range a.Draws {
		if slices.Contains(b.Draws, draw) {
			continue
		}
		other := of[0]
		of = of[1:]
		if draw.Amount != other.Amount || !s.sameResource(draw.Resource, other.Resource, i, j) {
			return false
		}
	}
	return true
}

// sameResource reports whether as much is left of two resources, and all devices but two take as much of them.
func (s *search) sameResource(r, t, i, j int32) bool {
	if s.left[r] != s.left[t] || s.p.PoolOf[r] != s.p.PoolOf[t] {
		return false
	}
	drawn := s.drawn()
	others := func(list []Draw) []Draw {
		return slices.DeleteFunc(slices.Clone(list), func(d Draw) bool { return d.Resource == i || d.Resource == j })
	}
	return slices.Equal(others(drawn[r]), others(drawn[t]))
}

// drawn is what devices take of each resource, those that no domain allows left aside. A Draw has the device in the place of
// the resource.
func (s *search) drawn() [][]Draw {
	a := s.ahead
	if a.drawn != nil {
		return a.drawn
	}
	a.drawn = make([][]Draw, len(s.p.Left))
	for i := range s.p.Devices {
		if slices.ContainsFunc(s.p.Domains, func(d Domain) bool { return d.Allowed.Test(uint(i)) }) {
			for _, draw := range s.takes(int32(i)) {
				a.drawn[draw.Resource] = append(a.drawn[draw.Resource], Draw{Resource: int32(i), Amount: draw.Amount})
			}
		}
	}
	return a.drawn
}

func (s *search) alikeFor(d *Domain, i, j int32) bool {
	if d.Allowed.Test(uint(i)) != d.Allowed.Test(uint(j)) || has(d.Stops, i) != has(d.Stops, j) {
		return false
	}
	for k := range d.Covers {
		c := &d.Covers[k]
		v, w := c.Values[i], c.Values[j]
		if (v == nil) != (w == nil) || !slices.Equal(v, w) || has(c.Stops, i) != has(c.Stops, j) {
			return false
		}
	}
	for _, gives := range d.Gives {
		if gives[i] != gives[j] {
			return false
		}
	}
	// Each device has resources of its own for its shares.
	return slices.EqualFunc(d.share(i), d.share(j), func(x, y Draw) bool {
		return x.Amount == y.Amount && s.p.Left[x.Resource] == s.p.Left[y.Resource]
	})
}
