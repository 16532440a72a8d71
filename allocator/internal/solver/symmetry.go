// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import "slices"

// skips reports whether a candidate must fail because an interchangeable one failed in the same place. No
// choice involves either of them, so exchanging them turns a solution into a solution. Before the last stop it
// is false, as the order of devices matters there.
func (s *search) skips(p, i int32, failed []int32) bool {
	return len(failed) > 0 && s.ahead != nil && s.rules&RuleSymmetry != 0 && p >= s.lastStop && s.uses[i] == 0 &&
		slices.ContainsFunc(failed, func(j int32) bool { return s.uses[j] == 0 && s.alike(i, j) })
}

// orderOfDevicesMatters reports whether the order of choices matters, so that not even equal devices are interchangeable.
// What fills a total depends on earlier choices, and some relations admit devices without values only first.
func (s *search) orderOfDevicesMatters() bool {
	return s.p.fills() || slices.ContainsFunc(s.p.Domains, func(d Domain) bool {
		return slices.ContainsFunc(d.Covers, func(c Cover) bool {
			r := &s.p.Relations[c.Relation]
			return !r.Off && slices.ContainsFunc(c.Values, r.kind().dependsOnOrder)
		})
	})
}

// alike reports whether a problem has the same content for two devices.
func (s *search) alike(i, j int32) bool {
	a, b := &s.p.Devices[i], &s.p.Devices[j]
	if a.Shareable != b.Shareable || a.Pool != b.Pool || has(s.p.Paid, i) != has(s.p.Paid, j) {
		return false
	}
	if !slices.Equal(a.Draws, b.Draws) && !(s.ahead.longSearch && s.exchanges(i, j)) {
		return false
	}
	if !slices.EqualFunc(a.Groups, b.Groups, func(g, h Group) bool { return g.Relation == h.Relation && slices.Equal(g.Values, h.Values) }) {
		return false
	}
	return !slices.ContainsFunc(s.p.Domains, func(d Domain) bool { return !s.alikeFor(&d, i, j) })
}

// exchanges reports whether two devices take equal amounts, except that each takes of resources that are
// interchangeable with those of the other. As much is left of both resources, and every other device takes as
// much of one as of the other. An example is partitions that each take one memory slice of a GPU, where larger
// ones take all.
//
// Both devices have as many draws left to compare, as each has one draw for each resource. Proof: a solution
// with one of the two devices stays a solution with the other one, as all other devices take as much of both
// resources. A solution with both stays one if they change places.
func (s *search) exchanges(i, j int32) bool {
	a, b := &s.p.Devices[i], &s.p.Devices[j]
	if len(a.Draws) != len(b.Draws) || a.Shareable {
		return false
	}
	var of []Draw // draws of the second device that the first does not have
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

// sameResource reports whether as much is left of two resources, and all devices except i and j take as much of
// both.
func (s *search) sameResource(r, t, i, j int32) bool {
	if s.left[r] != s.left[t] || s.p.PoolOf[r] != s.p.PoolOf[t] {
		return false
	}
	drawn := s.drawsByResource()
	others := func(list []Draw) []Draw {
		return slices.DeleteFunc(slices.Clone(list), func(d Draw) bool { return d.Resource == i || d.Resource == j })
	}
	return slices.Equal(others(drawn[r]), others(drawn[t]))
}

// drawsByResource lists, by resource, the draws of devices that some domain allows. Draw.Resource holds the device
// instead.
func (s *search) drawsByResource() [][]Draw {
	a := s.ahead
	if a.drawsByResource != nil {
		return a.drawsByResource
	}
	a.drawsByResource = make([][]Draw, len(s.p.Left))
	for i := range s.p.Devices {
		if slices.ContainsFunc(s.p.Domains, func(d Domain) bool { return d.Allowed.Test(uint(i)) }) {
			for _, draw := range s.takes(int32(i)) {
				a.drawsByResource[draw.Resource] = append(a.drawsByResource[draw.Resource], Draw{Resource: int32(i), Amount: draw.Amount})
			}
		}
	}
	return a.drawsByResource
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
	// Each device has separate resources for its shares.
	return slices.EqualFunc(d.share(i), d.share(j), func(x, y Draw) bool {
		return x.Amount == y.Amount && s.p.Left[x.Resource] == s.p.Left[y.Resource]
	})
}
