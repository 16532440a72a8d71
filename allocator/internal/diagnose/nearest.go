// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/solver"
)

// nearestMiss names the smallest change that would help. That is a missing attribute, or how many candidates
// agree in a matchAttribute. Otherwise it is the reason that alone rejects the most devices.
func (n *narrator) nearestMiss() string {
	for _, p := range n.core {
		if _, c := n.in.Compiled.Part(p); c != nil {
			if miss := n.disagreement(c, int(p)-len(n.in.Compiled.Requests)); miss != "" {
				return miss
			}
		}
	}
	best, name := n.loneReason()
	if best.Devices == 0 {
		return ""
	}
	return fmt.Sprintf("%s would serve request %s but for one reason: %s", explain.Count(best.Devices, "more device"), name, best.Phrase())
}

// loneReason returns the reason that alone rejects the most devices. Selectors of the class are left out, as
// nobody changes these for a claim. Selectors of the request come last, as devices do not change to match them.
func (n *narrator) loneReason() (best explain.Rejection, name string) {
	for _, request := range n.requests {
		for _, alt := range request.Alternatives {
			for _, r := range n.inspections[alt.ID].lone {
				if !r.OfClass() && (best.Devices == 0 || nearer(&r, &best)) {
					best, name = r, alt.Name
				}
			}
		}
	}
	return best, name
}

func nearer(r, than *explain.Rejection) bool {
	selected, before := r.Reason == explain.RejectedBySelector, than.Reason == explain.RejectedBySelector
	return !selected && before || selected == before && r.Devices > than.Devices
}

// disagreement describes how the candidates fail a constraint of the core. Either no candidate of a request has what is
// compared, or too few agree. For a limit, as many values as it permits count.
func (n *narrator) disagreement(compared *claims.Constraint, position int) string {
	what := "attribute"
	if compared.Capacity {
		what = "capacity"
	}
	agreeing, needed := make(map[int32]*bitset.BitSet), 0
	for _, request := range n.requests {
		alt := request.Least()
		k := alt.Covered(position)
		if k < 0 {
			continue
		}
		allowed, missing := n.in.Domain(alt).Allowed, true
		for i, ok := allowed.NextSet(0); ok; i, ok = allowed.NextSet(i + 1) {
			values := n.in.Values(alt, k)[i]
			missing = missing && values == nil
			for _, v := range values {
				if agreeing[v] == nil {
					agreeing[v] = bitset.New(uint(len(n.in.Node.List)))
				}
				agreeing[v].Set(i)
			}
		}
		if missing {
			return fmt.Sprintf("none of the candidates for request %s has the %s %s", alt.Name, what, compared.Attribute)
		}
		needed += n.in.Needed(alt)
	}
	switch most := commonest(agreeing, max(compared.Most, 1)); {
	case compared.Kind == solver.Match && most < needed:
		return fmt.Sprintf("%d candidates must agree in %s, at most %d do", needed, compared.Attribute, most)
	case compared.Kind == solver.AtMost && most < needed:
		return fmt.Sprintf("%d candidates must have no more than %d values of %s, and no more than %d have", needed, compared.Most, compared.Attribute, most)
	}
	return ""
}

// commonest is the sum of the n largest numbers of devices with one value.
func commonest(having map[int32]*bitset.BitSet, n int) (sum int) {
	var counts []int
	for _, devices := range having {
		counts = append(counts, int(devices.Count()))
	}
	slices.SortFunc(counts, func(a, b int) int { return b - a })
	for _, count := range counts[:min(n, len(counts))] {
		sum += count
	}
	return sum
}
