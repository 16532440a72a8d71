package diagnose

import (
	"fmt"
	"iter"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/solver"
)

// nearestMiss says what would have to change least: an attribute that is missing, or for
// a matchAttribute how close the candidates come, else the one reason that holds back
// the most devices all by itself.
func (n *narrator) nearestMiss() string {
	for _, p := range n.core {
		if !p.Constraint {
			continue
		}
		if missing := n.missingAttribute(p.Position); missing != "" {
			return missing
		}
		if largest := n.largestGroup(p.Position); largest != "" {
			return largest
		}
	}
	best, name := n.loneReason()
	if best.Devices == 0 {
		return ""
	}
	return fmt.Sprintf("%s would serve request %s but for one reason: %s", explain.Count(best.Devices, "more device"), name, best.Phrase())
}

// requests are those of the core.
func (n *narrator) requests() iter.Seq[*claims.Request] {
	return func(yield func(*claims.Request) bool) {
		for _, p := range n.core {
			if !p.Constraint && !yield(n.request(p)) {
				return
			}
		}
	}
}

// loneReason leaves out what nobody would change for a claim: the node, and what makes a
// device one of the class.
func (n *narrator) loneReason() (best explain.Rejection, name string) {
	for request := range n.requests() {
		for _, alt := range request.Alternatives {
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
func (n *narrator) missingAttribute(constraint int) string {
	what, compared := "attribute", &n.in.Problem.Constraints[constraint]
	if compared.Capacity {
		what = "capacity"
	}
	for request := range n.requests() {
		alt, lacks := request.Alternatives[0], true
		covered := n.candidates(alt, constraint, func(_ uint, values []int32) { lacks = lacks && values == nil })
		if covered && lacks {
			return fmt.Sprintf("none of the candidates for request %s has the %s %s", alt.Name, what, compared.Attribute)
		}
	}
	return ""
}

// largestGroup tells, for a matchAttribute, how many candidates for the requests of the
// core agree at most, if that is too few.
func (n *narrator) largestGroup(constraint int) string {
	match := n.in.Problem.Constraints[constraint]
	if match.Kind != solver.Match {
		return ""
	}
	groups, needed := make(map[int32]*bitset.BitSet), 0
	for request := range n.requests() {
		alt := request.Least()
		if n.candidates(alt, constraint, func(i uint, values []int32) {
			for _, v := range values {
				if groups[v] == nil {
					groups[v] = bitset.New(uint(len(n.in.Node.List)))
				}
				groups[v].Set(i)
			}
		}) {
			needed += n.in.Needed(alt)
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

// candidates visits those for an alternative, with the values that a constraint compares. It is false
// if the constraint does not cover the alternative.
func (n *narrator) candidates(alt *claims.Alternative, constraint int, visit func(i uint, values []int32)) bool {
	k := alt.Covered(constraint)
	if k < 0 {
		return false
	}
	d := &n.in.Domains[alt.Domain]
	for i, ok := d.Allowed.NextSet(0); ok; i, ok = d.Allowed.NextSet(i + 1) {
		visit(i, d.Columns[k].Values[i])
	}
	return true
}
