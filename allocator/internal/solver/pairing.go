// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

// pairing restricts the candidates of a request in the first attempt. It is set if a device left no candidate
// for the next request, which must match it. Values are those of the devices that the next request can have. It
// finds pairs of devices on one bus without look-ahead.
type pairing struct {
	relation int32
	values   []int32
}

// pairing returns the restriction after a device of request p failed. It is nil if the failure was not that the
// next request had no candidate.
func (s *search) pairing(known *pairing, p int32, d *Domain) *pairing {
	switch {
	case s.emptyRequest != p+1 || s.rules&RulePairs == 0 || p < s.lastStop || len(s.p.Requests[p+1].Options) > 1:
		return nil
	case known != nil:
		return known
	}
	next := &s.p.Domains[s.p.Requests[p+1].Options[0].Domain]
	for k := range d.Covers {
		r := d.Covers[k].Relation
		of := next.covers(r)
		if of == nil || s.p.Relations[r].Off || !s.p.Relations[r].kind().needsCommonValue() || s.related[r].devices > 0 {
			continue
		}
		found := &pairing{relation: r, values: s.memory.counts.Empty(int(next.Allowed.Count()))}
		for i, ok := next.Allowed.NextSet(0); ok; i, ok = next.Allowed.NextSet(i + 1) {
			s.payForChecks(1)
			if why, _ := s.refuses(next, int32(i)); why == accepted {
				found.values = append(found.values, of.Values[i]...)
			}
		}
		return found
	}
	return nil
}

// admits reports whether a device has one of the values. A device without them leaves no candidate for the next
// request either, as the relation would refuse all that were accepted.
func (w *pairing) admits(d *Domain, i int32) bool {
	return meet(d.covers(w.relation).Values[i], w.values)
}
