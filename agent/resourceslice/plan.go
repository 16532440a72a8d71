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

// indexDigits is how many hexadecimal digits a slice's name starts with, unless
// the pool has so many slices that it needs more: names sort like positions.
const indexDigits = 5

// plan is what to write so that a pool is as desired.
type plan struct {
	generation int64
	raised     bool // above what is stored
	obsolete   []*resourceapi.ResourceSlice
	rewrite    []rewrite // by index
	create     []int     // indexes
}

// wrong are the stored slices that are not as desired.
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

// newPlan decides how to get from the stored slices of a pool to the desired
// ones. Unfinished is the generation to which a write of the same desired pool
// that failed midway was raising it, or zero.
//
// Slices of a generation below the highest are obsolete: consumers ignore them.
// The exception is a write that failed midway, which is resumed: what it wrote
// stays, what it did not reach is rewritten. The generation need not be raised
// again for that, as long as all slices that have it are as desired: then no
// consumer can combine them with anything else.
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

// comparison relates stored slices to desired ones.
type comparison struct {
	obsolete []*resourceapi.ResourceSlice
	matched  []rewrite
	changed  []rewrite // those matched which are not as desired
	missing  []int
	// edited tells that one of changed has the highest generation already.
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

// newestFirst sorts so that of two slices for one position, the same one is
// always preferred.
func newestFirst(stored []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	return slices.SortedFunc(slices.Values(stored), func(a, b *resourceapi.ResourceSlice) int {
		return cmp.Or(cmp.Compare(b.Spec.Pool.Generation, a.Spec.Pool.Generation), strings.Compare(a.Name, b.Name))
	})
}

// digitsFor is how many digits the names of n slices start with.
func digitsFor(n int) int {
	return max(indexDigits, len(strconv.FormatInt(int64(max(n-1, 0)), 16)))
}

// namePrefix is what the name of slice i of n starts with, before a random end.
func namePrefix(i, n int, driver string, owner *Owner) string {
	prefix := fmt.Sprintf("%0*x-%s-", digitsFor(n), i, driver)
	if owner != nil {
		prefix += owner.Name + "-"
	}
	return prefix
}

// indexOf is the position that a slice's name says it has.
func indexOf(name string, digits int) (int, bool) {
	prefix, _, found := strings.Cut(name, "-")
	if !found || len(prefix) != digits {
		return 0, false
	}
	index, err := strconv.ParseUint(prefix, 16, 31)
	return int(index), err == nil
}
