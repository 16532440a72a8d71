// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package subsets

import "slices"

// Part is the sets that contain all Forced numbers and any of the Free ones.
type Part struct{ Forced, Free []int }

// With returns the sets of the part that contain some more numbers, none if one of them is in no set.
func (p Part) With(numbers ...int) []Part {
	next := Part{Forced: slices.Clone(p.Forced)}
	for _, n := range numbers {
		switch {
		case slices.Contains(next.Forced, n):
		case !slices.Contains(p.Free, n):
			return nil
		default:
			next.Forced = append(next.Forced, n)
		}
	}
	next.Free = slices.DeleteFunc(slices.Clone(p.Free), func(n int) bool { return slices.Contains(numbers, n) })
	return []Part{next}
}

// Without returns the sets of the part that do not contain a number, none if it is forced.
func (p Part) Without(number int) []Part {
	if slices.Contains(p.Forced, number) {
		return nil
	}
	return []Part{{Forced: p.Forced, Free: slices.DeleteFunc(slices.Clone(p.Free), func(n int) bool { return n == number })}}
}
