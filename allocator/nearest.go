package allocator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/pools"
)

// nearestMiss says what would have to change least: an attribute that is missing, or for
// a matchAttribute how close the candidates come, else the one reason that holds back
// the most devices all by itself.
func (n *narrator) nearestMiss() string {
	for _, p := range n.core {
		if missing := n.missingAttribute(p); missing != "" {
			return missing
		}
		if group := n.largestGroup(p); group != "" {
			return group
		}
	}
	best, name := n.loneReason()
	if best.Devices == 0 {
		return ""
	}
	return fmt.Sprintf("one thing alone keeps %s from request %s: %s", count(best.Devices, "more device"), name, best.phrase())
}

// loneReason leaves out what nobody would change for a claim: the node, and what makes a
// device one of the class.
func (n *narrator) loneReason() (best Rejection, name string) {
	for _, p := range n.core {
		if p.constraint {
			continue
		}
		for _, alt := range n.in.problem.claims[p.claim].requests[p.position].alternatives {
			for _, r := range n.inspections[alt].lone {
				ofClass := r.Reason == RejectedBySelector && strings.HasPrefix(r.Detail, "class ")
				if r.Reason != RejectedByNode && !ofClass && r.Devices > best.Devices {
					best, name = r, alt.name
				}
			}
		}
	}
	return best, name
}

// missingAttribute tells of a request of the core none of whose candidates has the
// attribute that a constraint of the core compares.
func (n *narrator) missingAttribute(p part) string {
	if !p.constraint {
		return ""
	}
	for _, other := range n.core {
		if other.constraint || other.claim != p.claim {
			continue
		}
		c := &n.in.problem.claims[p.claim]
		alt := c.requests[other.position].alternatives[0]
		if n.in.lacks(alt, p.position) {
			return fmt.Sprintf("none of the candidates for request %s has the attribute %s", alt.name, c.constraints[p.position].attribute())
		}
	}
	return ""
}

// lacks reports whether a constraint covers an alternative all of whose candidates lack
// the attribute.
func (in *instance) lacks(alt *alternative, constraint int) bool {
	b := &in.alternatives[alt.id]
	k := slices.Index(alt.constraints, constraint)
	if k < 0 {
		return false
	}
	for i, ok := b.domain.allowed.NextSet(0); ok; i, ok = b.domain.allowed.NextSet(i + 1) {
		if b.values[k][i].found {
			return false
		}
	}
	return true
}

// largestGroup tells, for a matchAttribute, how many candidates for the requests of the
// core agree at most, if that is too few.
func (n *narrator) largestGroup(p part) string {
	c := &n.in.problem.claims[p.claim]
	if !p.constraint {
		return ""
	}
	match, ok := c.constraints[p.position].(matchAttribute)
	if !ok {
		return ""
	}
	groups, needed := make(map[pools.Value]*bitset.BitSet), 0
	for _, other := range n.core {
		if !other.constraint && other.claim == p.claim {
			needed += n.in.group(c.requests[other.position].alternatives[0], p.position, groups)
		}
	}
	most := 0
	for _, group := range groups {
		most = max(most, int(group.Count()))
	}
	if most >= needed {
		return ""
	}
	return fmt.Sprintf("%d candidates must agree in %s, at most %d do", needed, match.name, most)
}

// group sorts the candidates of an alternative by the values that a constraint
// compares. It returns how many devices the alternative needs, 0 if the constraint
// does not cover it.
func (in *instance) group(alt *alternative, constraint int, groups map[pools.Value]*bitset.BitSet) int {
	b := &in.alternatives[alt.id]
	k := slices.Index(alt.constraints, constraint)
	if k < 0 {
		return 0
	}
	for i, ok := b.domain.allowed.NextSet(0); ok; i, ok = b.domain.allowed.NextSet(i + 1) {
		for _, v := range b.values[k][i].value.Set {
			if groups[v] == nil {
				groups[v] = bitset.New(uint(len(in.devices)))
			}
			groups[v].Set(i)
		}
	}
	return b.needed
}
