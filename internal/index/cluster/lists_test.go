// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"testing"
)

// TestLists: who appends more to a list than it has room for does not write to the next one, and no list is nil.
func TestLists(t *testing.T) {
	made := newLists[int](4)
	none, first, second := made.next(0), made.next(1), made.next(2)
	if first == nil || none == nil || len(first)+len(none)+len(second) > 0 {
		t.Fatalf("lists %v, %v and %v, want empty ones", first, none, second)
	}
	second = append(second, 1, 2)
	first = append(first, 3, 4)
	none = append(none, 5)
	if third := append(made.next(3), 6, 7, 8); !slices.Equal(third, []int{6, 7, 8}) {
		t.Errorf("the third list is %v", third)
	}
	if !slices.Equal(first, []int{3, 4}) || !slices.Equal(none, []int{5}) || !slices.Equal(second, []int{1, 2}) {
		t.Errorf("lists %v, %v and %v, want [3 4], [5] and [1 2]", first, none, second)
	}
}
