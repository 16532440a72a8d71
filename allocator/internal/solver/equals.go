// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import "slices"

// equal says that the requests from first on are interchangeable with as many requests before them. distance is
// the difference of their positions. They are requests of one claim, or all requests of equal claims.
//
// The search can require that the later request has no earlier choice than the other one. Otherwise exchanging
// their devices would give a solution that comes first. The rule applies as long as all choices before the two
// are equal. It also keeps nogoods valid: a state that fails under the rule has no solution at all, as
// exchanging would turn a solution into one that was found before.
type equal struct{ first, distance int32 }

// equals are the pairs of a request: with an earlier request of its claim, and through its claim with an
// earlier claim. A distance of zero means none.
type equals [2]equal

// findEqual returns the pairs by request, nil if the order of requests matters.
func (s *search) findEqual() []equals {
	if s.rules&RuleEqual == 0 || s.orderMatters() {
		return nil
	}
	list := make([]equals, len(s.p.Requests))
	m := exchange{p: s.p}
	for start := int32(0); int(start) < len(list); start = m.end(start) {
		end := m.end(start)
		for p := start; p < end; p++ {
			for q := p - 1; q >= max(start, s.lastStop); q-- {
				if m.sameRequest(q, p) {
					list[p][0] = equal{p, p - q}
					break
				}
			}
		}
		if before := m.sameClaim(start, s.lastStop); before >= 0 {
			for p := start; p < end; p++ {
				list[p][1] = equal{start, start - before}
			}
		}
	}
	return list
}

// orderMatters reports whether the order of requests affects what can be chosen.
func (s *search) orderMatters() bool {
	return s.orderOfDevicesMatters() || slices.ContainsFunc(s.p.Domains, func(d Domain) bool { return d.Admin })
}

// exchange compares requests. Relations of one claim are mapped to those of the other.
type exchange struct {
	p *Problem
	// claims are, by relation, the claims that it covers. Nil until they are needed.
	claims [][]int32
	// standsFor are the pairs of relations that were mapped so far.
	standsFor [][2]int32
}

// end is the position after the last request of the claim of request p.
func (m *exchange) end(p int32) int32 {
	of := m.p.Requests[p].Claim
	for int(p) < len(m.p.Requests) && m.p.Requests[p].Claim == of {
		p++
	}
	return p
}

// sameClaim finds the last claim before start whose requests equal those of the claim that begins at start. It
// returns the position of its first request, which is not before least, or -1.
func (m *exchange) sameClaim(start, least int32) int32 {
	n := m.end(start) - start
	for q := start - 1; q >= least; q-- {
		if q > 0 && m.p.Requests[q-1].Claim == m.p.Requests[q].Claim {
			continue
		}
		if m.end(q)-q == n && m.sameRequests(q, start, n) {
			return q
		}
	}
	return -1
}

// claimsOf returns the claims that a relation covers.
func (m *exchange) claimsOf(relation int32) []int32 {
	if m.claims == nil {
		m.claims = make([][]int32, len(m.p.Relations))
		for p := range m.p.Requests {
			r := &m.p.Requests[p]
			for o := range r.Options {
				for _, c := range m.p.Domains[r.Options[o].Domain].Covers {
					if of := &m.claims[c.Relation]; !slices.Contains(*of, r.Claim) {
						*of = append(*of, r.Claim)
					}
				}
			}
		}
	}
	return m.claims[relation]
}

// sameRequest reports whether two requests of a claim have the same options.
func (m *exchange) sameRequest(q, p int32) bool {
	a, b := &m.p.Requests[q], &m.p.Requests[p]
	return !a.Off && !b.Off && len(a.Options) == len(b.Options) && !slices.ContainsFunc(b.Options, func(o Option) bool { return o.All }) &&
		slices.EqualFunc(a.Options, b.Options, func(x, y Option) bool {
			return x.Domain == y.Domain && x.Count == y.Count && !x.All && slices.Equal(x.Totals, y.Totals)
		})
}

// sameRequests reports whether n requests from q on equal those from p on, one by one.
func (m *exchange) sameRequests(q, p, n int32) bool {
	m.standsFor = m.standsFor[:0]
	for k := range n {
		a, b := &m.p.Requests[q+k], &m.p.Requests[p+k]
		if a.Off || b.Off || !slices.EqualFunc(a.Options, b.Options, func(x, y Option) bool {
			return x.Count == y.Count && !x.All && !y.All && slices.Equal(x.Totals, y.Totals) && m.sameDomain(x.Domain, y.Domain)
		}) {
			return false
		}
	}
	return true
}

// sameDomain reports whether two domains are equal, with the relations of their claims mapped.
func (m *exchange) sameDomain(x, y int32) bool {
	a, b := &m.p.Domains[x], &m.p.Domains[y]
	return x == y || a.Stops == nil && b.Stops == nil && len(a.Gives)+len(b.Gives) == 0 && a.Allowed.Equal(b.Allowed) && slices.Equal(a.Order, b.Order) &&
		slices.EqualFunc(a.Shares, b.Shares, func(s, t []Draw) bool { return slices.Equal(s, t) }) &&
		slices.EqualFunc(a.Covers, b.Covers, func(c, d Cover) bool {
			return c.Column == d.Column && c.Stops == nil && d.Stops == nil && m.sameRelation(c.Relation, d.Relation)
		})
}

// sameRelation reports whether a relation can be mapped to another. Each covers devices of one claim only, and
// they agree in kind and limit. A relation that covers both claims is mapped to itself: exchanging their
// devices does not change it.
func (m *exchange) sameRelation(r, t int32) bool {
	if r == t {
		return true
	}
	if slices.Contains(m.standsFor, [2]int32{r, t}) {
		return true
	}
	if len(m.claimsOf(r)) > 1 || len(m.claimsOf(t)) > 1 || slices.ContainsFunc(m.standsFor, func(pair [2]int32) bool { return pair[0] == r || pair[1] == t }) {
		return false
	}
	m.standsFor = append(m.standsFor, [2]int32{r, t})
	a, b := &m.p.Relations[r], &m.p.Relations[t]
	return a.Kind == b.Kind && a.Most == b.Most && a.Off == b.Off && !a.Begun && !b.Begun
}

// comesBefore reports whether an option comes before the one that an earlier interchangeable request has.
func (s *search) comesBefore(p, o int32) bool {
	for _, e := range s.equalOf(p) {
		if e.distance > 0 && o < s.picked[p-e.distance] && s.agrees(e, p) {
			return true
		}
	}
	return false
}

// deviceComesBefore reports whether the device at a position comes before the one that an earlier
// interchangeable request has in its place.
func (s *search) deviceComesBefore(p, o int32, n int, at uint) bool {
	for _, e := range s.equalOf(p) {
		q := p - e.distance
		if e.distance == 0 || s.picked[q] != o {
			continue
		}
		mine, other := s.chosen[s.firstChoice[p]:], s.chosen[s.firstChoice[q]:s.firstChoice[q+1]]
		if n < len(other) && sameDevices(mine, other[:n]) && at < s.position(p, o, other[n].Device) && s.agrees(e, p) {
			return true
		}
	}
	return false
}

// position is that of a device in the order in which an option tries them.
func (s *search) position(p, o, device int32) uint {
	if order := s.p.Domains[s.p.Requests[p].Options[o].Domain].Order; order != nil {
		return uint(slices.Index(order, device))
	}
	return uint(device)
}

// equalOf returns the pairs of a request.
func (s *search) equalOf(p int32) []equal {
	if s.ahead == nil || s.ahead.equal == nil {
		return nil
	}
	return s.ahead.equal[p][:]
}

// agrees reports whether both parts of a pair have equal choices before request p.
func (s *search) agrees(e equal, p int32) bool {
	for k := e.first; k < p; k++ {
		q := k - e.distance
		if s.picked[k] != s.picked[q] || !sameDevices(s.chosen[s.firstChoice[k]:s.firstChoice[k+1]], s.chosen[s.firstChoice[q]:s.firstChoice[q+1]]) {
			return false
		}
	}
	return true
}

func sameDevices(a, b []Choice) bool {
	return slices.EqualFunc(a, b, func(x, y Choice) bool { return x.Device == y.Device })
}
