// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import "slices"

// Looking at a device can end the search. The first such device is its result, just as a first solution would
// be. So nothing may be pruned below which the search could end. Look-ahead only covers requests before the
// next one at which that can happen.

// findStops finds the requests at which looking at a device can end the search. If a claim with such a request
// may have too many devices, all its requests count. Too many devices end an option without a look at its other
// devices; a failure found by look-ahead would lead to these.
func (s *search) findStops() {
	most, stops := s.memory.counts.Take(s.p.Claims), s.memory.flags.Take(s.p.Claims)
	for p, r := range s.p.Requests {
		if r.Off {
			continue
		}
		largest := 0
		for o := range r.Options {
			largest = max(largest, r.Options[o].Count)
			s.mayStop[p] = s.mayStop[p] || s.optionMayStop(&r.Options[o])
		}
		most[r.Claim] += int32(largest)
		stops[r.Claim] = stops[r.Claim] || s.mayStop[p]
	}
	for p, r := range s.p.Requests {
		s.mayStop[p] = s.mayStop[p] || stops[r.Claim] && int(most[r.Claim]) > s.p.MostOfClaim
		if s.mayStop[p] {
			s.lastStop = int32(p) + 1
		}
	}
}

func (s *search) optionMayStop(o *Option) bool {
	d := &s.p.Domains[o.Domain]
	return d.Stops != nil && d.Stops.Any() || slices.ContainsFunc(d.Covers, func(c Cover) bool {
		return !s.p.Relations[c.Relation].Off && (o.All && o.Count > 0 || c.Stops != nil && c.Stops.Any())
	})
}
