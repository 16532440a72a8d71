package solver

import "slices"

// Looking at a device can end the search, and the first one that the search comes to is its
// result, as is the first solution. So nothing may be left out below which the search could
// end: looking ahead only counts requests before the next one at which it can, and what fails
// there depends on all decisions.

// findStops finds the requests at which looking at a device can end the search.
func (s *search) findStops() {
	for p := range s.p.Requests {
		r := &s.p.Requests[p]
		if !r.Off && slices.ContainsFunc(r.Options, func(o Option) bool { return s.optionMayStop(int32(p), &o) }) {
			s.mayStop[p], s.lastStop = true, int32(p)+1
		}
	}
	if s.lastStop > 0 {
		s.spreadStops()
	}
}

// spreadStops treats all requests of a claim alike that may have too many devices. That ends an
// option without a look at its other devices; a failure found ahead would lead to these.
func (s *search) spreadStops() {
	most, stops := make([]int, s.p.Claims), make([]bool, s.p.Claims)
	for p, r := range s.p.Requests {
		if r.Off {
			continue
		}
		largest := 0
		for _, o := range r.Options {
			largest = max(largest, o.Count)
		}
		most[r.Claim] += largest
		stops[r.Claim] = stops[r.Claim] || s.mayStop[p]
	}
	for p, r := range s.p.Requests {
		if stops[r.Claim] && most[r.Claim] > s.p.MostOfClaim {
			s.mayStop[p], s.lastStop = true, max(s.lastStop, int32(p)+1)
		}
	}
}

func (s *search) optionMayStop(p int32, o *Option) bool {
	d := &s.p.Domains[o.Domain]
	if d.Stops != nil && d.Stops.Any() {
		return true
	}
	for k := range d.Covers {
		c := &d.Covers[k]
		if s.p.Relations[c.Relation].Off {
			continue
		}
		if c.Stops != nil && c.Stops.Any() || o.All && o.Count > 0 && !s.agree(p, o, c) {
			return true
		}
	}
	return false
}

// agree reports whether a relation is sure to admit the devices that an option must have: they
// are its first ones, and it admits one after the other.
func (s *search) agree(p int32, o *Option, c *Cover) bool {
	for q := range p {
		r := &s.p.Requests[q]
		if !r.Off && slices.ContainsFunc(r.Options, func(o Option) bool { return s.p.Domains[o.Domain].covers(c.Relation) != nil }) {
			return false
		}
	}
	r := &s.p.Relations[c.Relation]
	state := r.begin()
	for _, i := range o.Mandatory {
		if !r.admits(state, c.Values[i]) {
			return false
		}
		state = r.join(state, c.Values[i])
	}
	return true
}
