package diagnose

import (
	"fmt"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/model"
	"github.com/dray-project/dray/allocator/internal/solver"
)

// nearestMiss says what would have to change least: an attribute that is missing, or for
// a matchAttribute how close the candidates come, else the one reason that holds back
// the most devices all by itself.
func (n *narrator) nearestMiss() string {
	for _, p := range n.core {
		if missing := n.missingAttribute(p); missing != "" {
			return missing
		}
		if largest := n.largestGroup(p); largest != "" {
			return largest
		}
	}
	best, name := n.loneReason()
	if best.Devices == 0 {
		return ""
	}
	return fmt.Sprintf("%s would serve request %s but for one reason: %s", explain.Count(best.Devices, "more device"), name, best.Phrase())
}

// loneReason leaves out what nobody would change for a claim: the node, and what makes a
// device one of the class.
func (n *narrator) loneReason() (best explain.Rejection, name string) {
	for _, p := range n.core {
		if p.Constraint {
			continue
		}
		for _, alt := range n.in.Problem.Claims[p.Claim].Requests[p.Position].Alternatives {
			if alt.Extra {
				continue
			}
			for _, r := range n.inspections[alt].lone {
				if r.Reason != explain.RejectedByNode && !r.OfClass() && r.Devices > best.Devices {
					best, name = r, alt.Name
				}
			}
		}
	}
	return best, name
}

// missingAttribute tells of a request of the core none of whose candidates has the
// attribute that a constraint of the core compares.
func (n *narrator) missingAttribute(p claims.Part) string {
	if !p.Constraint {
		return ""
	}
	for _, other := range n.core {
		if other.Constraint {
			continue
		}
		alt := n.in.Problem.Claims[other.Claim].Requests[other.Position].Alternatives[0]
		if lacks(n.in, alt, p.Position) {
			what, constraint := "attribute", &n.in.Problem.Constraints[p.Position]
			if constraint.Capacity {
				what = "capacity"
			}
			return fmt.Sprintf("none of the candidates for request %s has the %s %s", alt.Name, what, constraint.Attribute)
		}
	}
	return ""
}

// lacks reports whether a constraint covers an alternative all of whose candidates lack
// the attribute.
func lacks(in *model.Instance, alt *claims.Alternative, constraint int) bool {
	b := &in.Alternatives[alt.ID]
	k := alt.Covered(constraint)
	if k < 0 {
		return false
	}
	for i, ok := b.Domain.Allowed.NextSet(0); ok; i, ok = b.Domain.Allowed.NextSet(i + 1) {
		if b.Columns[k].Values[i] != nil {
			return false
		}
	}
	return true
}

// largestGroup tells, for a matchAttribute, how many candidates for the requests of the
// core agree at most, if that is too few.
func (n *narrator) largestGroup(p claims.Part) string {
	if !p.Constraint {
		return ""
	}
	match := n.in.Problem.Constraints[p.Position]
	if match.Kind != solver.Match {
		return ""
	}
	groups, needed := make(map[int32]*bitset.BitSet), 0
	for _, other := range n.core {
		if !other.Constraint {
			needed += group(n.in, n.in.Problem.Claims[other.Claim].Requests[other.Position].Least(), p.Position, groups)
		}
	}
	most := 0
	for _, devices := range groups {
		most = max(most, int(devices.Count()))
	}
	if most >= needed {
		return ""
	}
	return fmt.Sprintf("%d candidates must agree in %s, at most %d do", needed, match.Attribute, most)
}

// group sorts the candidates of an alternative by the values that a constraint
// compares. It returns how many devices the alternative needs, 0 if the constraint
// does not cover it.
func group(in *model.Instance, alt *claims.Alternative, constraint int, groups map[int32]*bitset.BitSet) int {
	b := &in.Alternatives[alt.ID]
	k := alt.Covered(constraint)
	if k < 0 {
		return 0
	}
	for i, ok := b.Domain.Allowed.NextSet(0); ok; i, ok = b.Domain.Allowed.NextSet(i + 1) {
		for _, v := range b.Columns[k].Values[i] {
			if groups[v] == nil {
				groups[v] = bitset.New(uint(len(in.Node.List)))
			}
			groups[v].Set(i)
		}
	}
	return b.Needed
}
