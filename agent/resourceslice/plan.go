// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// indexDigits is the number of hexadecimal digits at the start of a slice's name. Pools with more
// slices use more digits. So names sort in the order of slices.
const indexDigits = 5

// plan has the writes that make a pool as desired.
type plan struct {
	generation int64
	raised     bool // generation is above that of the stored slices
	obsolete   []*resourceapi.ResourceSlice
	rewrite    []rewrite // by index
	create     []int     // indexes
}

// wrong returns the stored slices that are not as desired.
func (p *plan) wrong() []*resourceapi.ResourceSlice {
	out := slices.Clone(p.obsolete)
	for _, rewrite := range p.rewrite {
		out = append(out, rewrite.stored)
	}
	return out
}

type rewrite struct {
	index  int
	stored *resourceapi.ResourceSlice
}

// newPlan computes the writes from the stored slices of a pool to the desired ones. unfinished is
// the generation of an incomplete write of the same desired pool, or zero.
//
// Slices below the highest generation are obsolete, because consumers ignore them. An exception is
// an incomplete write, which is resumed. Its finished slices stay, and the others are rewritten.
// The generation is raised again only if a slice of the highest generation is not as desired.
// Otherwise no consumer can combine slices of different versions.
func newPlan(desired *desiredPool, owner *metav1.OwnerReference, stored []*resourceapi.ResourceSlice, unfinished int64) *plan {
	var highest int64
	for _, slice := range stored {
		highest = max(highest, slice.Spec.Pool.Generation)
	}
	resume := unfinished != 0 && unfinished == highest && desired.generation <= highest
	p := desired.compare(owner, stored, highest, resume)
	if resume && p.edited {
		resume = false
		p = desired.compare(owner, stored, highest, false)
	}

	out := &plan{generation: highest, obsolete: p.obsolete, rewrite: p.changed, create: p.missing}
	switch {
	case desired.generation > highest:
		out.generation, out.raised, out.rewrite = desired.generation, true, p.matched
	case resume:
	case len(p.missing) == 0 && len(p.changed) <= 1:
	default:
		out.generation, out.raised, out.rewrite = highest+1, true, p.matched
	}
	return out
}

// comparison is the difference between stored and desired slices.
type comparison struct {
	obsolete []*resourceapi.ResourceSlice
	matched  []rewrite
	changed  []rewrite // slices among matched that are not as desired
	missing  []int
	// edited tells that a slice among changed has the highest generation.
	edited bool
}

func (p *desiredPool) compare(owner *metav1.OwnerReference, stored []*resourceapi.ResourceSlice, highest int64, resume bool) comparison {
	var out comparison
	byIndex := make([]*resourceapi.ResourceSlice, len(p.slices))
	digits := digitsFor(len(p.slices))
	for _, slice := range newestFirst(stored) {
		index, ok := indexOf(slice.Name, digits)
		lower := slice.Spec.Pool.Generation < highest
		if !ok || index >= len(byIndex) || byIndex[index] != nil || lower && !resume {
			out.obsolete = append(out.obsolete, slice)
			continue
		}
		byIndex[index] = slice
	}
	for i, slice := range byIndex {
		if slice == nil {
			out.missing = append(out.missing, i)
			continue
		}
		out.matched = append(out.matched, rewrite{i, slice})
		lower := slice.Spec.Pool.Generation < highest
		if current := p.current(i, slice) && isOwnedBy(slice.OwnerReferences, owner); lower || !current {
			out.changed = append(out.changed, rewrite{i, slice})
			out.edited = out.edited || !lower
		}
	}
	return out
}

// newestFirst sorts by generation and name, so that of several slices for one position, the same
// one is always used.
func newestFirst(stored []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	return slices.SortedFunc(slices.Values(stored), func(a, b *resourceapi.ResourceSlice) int {
		return cmp.Or(cmp.Compare(b.Spec.Pool.Generation, a.Spec.Pool.Generation), strings.Compare(a.Name, b.Name))
	})
}

// digitsFor returns the number of digits in the names of n slices.
func digitsFor(n int) int {
	return max(indexDigits, len(strconv.FormatInt(int64(max(n-1, 0)), 16)))
}

// namePrefix returns the GenerateName of slice i of n.
func namePrefix(i, n int, driver string, owner *Owner) string {
	prefix := fmt.Sprintf("%0*x-%s-", digitsFor(n), i, driver)
	if owner != nil {
		prefix += owner.Name + "-"
	}
	return prefix
}

// indexOf returns the position of a slice according to its name.
func indexOf(name string, digits int) (int, bool) {
	prefix, _, found := strings.Cut(name, "-")
	if !found || len(prefix) != digits {
		return 0, false
	}
	index, err := strconv.ParseUint(prefix, 16, 31)
	return int(index), err == nil
}
