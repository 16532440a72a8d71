package solver

import (
	"slices"

	"github.com/bits-and-blooms/bitset"
)

// A conflict is a set of domains: as long as requests keep what they chose from these, there is no
// solution, whatever is chosen from others. What devices, resources and relations domains have in common
// decides that, and not what was chosen, so a conflict can name more domains than it needs.

// newRivals lists by domain the domains from which a choice can stand against one of its own. Each is
// among its rivals.
func (s *search) newRivals() []*bitset.BitSet {
	domains, devices, resources := len(s.p.Domains), len(s.p.Devices), len(s.p.Left)
	touched, rivals := s.memory.setLists.Take(domains), s.memory.setLists.Take(domains)
	for k := range touched {
		d := &s.p.Domains[k]
		touched[k] = s.memory.sets.New(devices + resources + len(s.p.Relations))
		for i, ok := d.Allowed.NextSet(0); ok; i, ok = d.Allowed.NextSet(i + 1) {
			touched[k].Set(i)
			for _, draw := range s.p.Devices[i].Draws {
				touched[k].Set(uint(devices) + uint(draw.Resource))
			}
			for _, g := range s.p.Devices[i].Groups {
				touched[k].Set(uint(devices+resources) + uint(g.Relation))
			}
		}
		for _, c := range d.Covers {
			touched[k].SetTo(uint(devices+resources)+uint(c.Relation), !s.p.Relations[c.Relation].Off)
		}
	}
	for k := range rivals {
		rivals[k] = s.memory.sets.New(domains)
		for other := range touched {
			rivals[k].SetTo(uint(other), other == k || touched[k].IntersectionCardinality(touched[other]) > 0)
		}
	}
	return rivals
}

// blame makes the conflict a set with the rivals of a domain added: it has no candidate left.
func (s *search) blame(conflict *bitset.BitSet, domain int32) {
	if s.ahead != nil {
		conflict.InPlaceUnion(s.ahead.rivals[domain])
	}
	s.conflict = conflict
}

// blameOpenings makes the conflict what stands against openings.
func (s *search) blameOpenings(open []opening) {
	s.conflict = s.conflicts[len(s.p.Requests)].ClearAll()
	for k := range open {
		if open[k].rest {
			s.blame(s.conflict, open[k].options[0].Domain)
			continue
		}
		// What makes an option impossible is a reason, too.
		for _, option := range s.p.Requests[open[k].request].Options {
			s.blame(s.conflict, option.Domain)
		}
	}
}

// blamePicks adds the options that were picked in a claim up to a request: they decide how many
// devices it has.
func (s *search) blamePicks(p int32) {
	for q := p; q >= 0 && s.p.Requests[q].Claim == s.p.Requests[p].Claim; q-- {
		if options := s.p.Requests[q].Options; len(options) > 1 {
			s.conflict.Set(uint(options[s.picked[q]].Domain))
		}
	}
}

// blameAll makes the conflict all domains.
func (s *search) blameAll() {
	for d := range s.p.Domains {
		s.conflict.Set(uint(d))
	}
}

// jumps reports whether other choices from a domain, for request p, may be left out because the failure
// does not depend on them.
func (s *search) jumps(p, domain int32) bool {
	return s.ahead != nil && s.rules&RuleJump != 0 && !s.mayStop[p] && !s.conflict.Test(uint(domain))
}

// competes reports whether two devices draw on the same resource, or are in the same group
// relation.
func (s *search) competes(a, b int32) bool {
	x, y := &s.p.Devices[a], &s.p.Devices[b]
	if x.Pool < 0 || y.Pool < 0 {
		return false
	}
	return slices.ContainsFunc(x.Draws, func(draw Draw) bool {
		return slices.ContainsFunc(y.Draws, func(other Draw) bool { return draw.Resource == other.Resource })
	}) || slices.ContainsFunc(x.Groups, func(g Group) bool {
		return slices.ContainsFunc(y.Groups, func(other Group) bool { return g.Relation == other.Relation })
	})
}

// skips reports whether a candidate fails in a place because another one failed there: nothing in
// the problem tells them apart, and no choice involves them, so exchanging them turns a solution into
// a solution. Where the search can end, the order of devices matters.
func (s *search) skips(p, i int32, failed []int32) bool {
	return len(failed) > 0 && s.ahead != nil && s.rules&RuleSymmetry != 0 && p >= s.lastStop && s.uses[i] == 0 &&
		slices.ContainsFunc(failed, func(j int32) bool { return s.uses[j] == 0 && s.alike(i, j) })
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
