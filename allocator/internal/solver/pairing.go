// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

// pairing is what the first attempt looks for in a device if the device before left none for the next request,
// which must match it: a value that a device for that request has. Pairs of devices on one bus are found without
// looking ahead.
type pairing struct {
	relation int32
	values   []int32
}

// pairing is for the device of request p after one failed, nil if that was not because the next request had none.
func (s *search) pairing(known *pairing, p int32, d *Domain) *pairing {
	switch {
	case s.empty != p+1 || s.rules&RulePairs == 0 || p < s.lastStop || len(s.p.Requests[p+1].Options) > 1:
		return nil
	case known != nil:
		return known
	}
	next := &s.p.Domains[s.p.Requests[p+1].Options[0].Domain]
	for k := range d.Covers {
		r := d.Covers[k].Relation
		of := next.covers(r)
		if of == nil || s.p.Relations[r].Off || !s.p.Relations[r].kind().common() || s.related[r].devices > 0 {
			continue
		}
		found := &pairing{relation: r, values: s.memory.counts.Empty(int(next.Allowed.Count()))}
		for i, ok := next.Allowed.NextSet(0); ok; i, ok = next.Allowed.NextSet(i + 1) {
			s.look(1)
			if why, _ := s.refuses(next, int32(i)); why == accepted {
				found.values = append(found.values, of.Values[i]...)
			}
		}
		return found
	}
	return nil
}

// admits reports whether a device of a domain has one of the values. Another one would fail as the one before
// did: what is refused without it is refused with it, and the rest by the relation.
func (w *pairing) admits(d *Domain, i int32) bool {
	return meet(d.covers(w.relation).Values[i], w.values)
}
