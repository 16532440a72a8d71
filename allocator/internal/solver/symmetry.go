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
	if a.Shareable != b.Shareable || a.Pool != b.Pool || has(s.p.Paid, i) != has(s.p.Paid, j) || !slices.Equal(a.Draws, b.Draws) {
		return false
	}
	if !slices.EqualFunc(a.Groups, b.Groups, func(g, h Group) bool { return g.Relation == h.Relation && slices.Equal(g.Values, h.Values) }) {
		return false
	}
	return !slices.ContainsFunc(s.p.Domains, func(d Domain) bool { return !s.alikeFor(&d, i, j) })
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
