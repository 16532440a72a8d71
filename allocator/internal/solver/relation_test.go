// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver

import (
	"slices"
	"testing"
)

// offers are the lists of values that devices have.
var offers = [][]int32{{}, {0}, {1}, {2}, {3}, {0, 1}, {1, 2}}

// relationsOf are relations of each kind.
func relationsOf() (list []*Relation) {
	for k := range RelationKind(Kinds) {
		for most := 1; most <= 3; most++ {
			list = append(list, &Relation{Kind: k, Most: most})
		}
	}
	return list
}

// admitted tells of each sequence of up to n of some lists whether a relation admits it after a state.
func admitted(r *Relation, state relationState, n int, some [][]int32) (told []bool) {
	for _, offered := range some {
		ok := r.admits(state, offered)
		told = append(told, ok)
		if ok && n > 1 {
			told = append(told, admitted(r, after(r, state, offered), n-1, some)...)
		}
	}
	return told
}

// after is the state with one more device. It shares no memory with other states.
func after(r *Relation, state relationState, offered []int32) relationState {
	return r.join(relationState{state.devices, slices.Clip(state.values)}, offered)
}

// reached returns all states that up to n devices lead to.
func reached(r *Relation, state relationState, n int) []relationState {
	states := []relationState{state}
	for _, offered := range offers {
		if n > 0 && r.admits(state, offered) {
			states = append(states, reached(r, after(r, state, offered), n-1)...)
		}
	}
	return states
}

// States that are told apart by nothing that a kind tells of them, whichever devices may still come, admit the same of these.
// So a failure in one is a failure in the other.
func TestKindsTellStatesApart(t *testing.T) {
	for _, r := range relationsOf() {
		kind, states, equal := r.kind(), reached(r, r.begin(), 2), 0
		for first := range offers {
			for second := range first {
				some := [][]int32{offers[first], offers[second]}
				for _, a := range states {
					for _, b := range states {
						if kind.spent(a) != kind.spent(b) || slices.ContainsFunc(some, func(offered []int32) bool {
							joins := r.admits(a, offered)
							return joins != r.admits(b, offered) || joins && slices.ContainsFunc(offered, func(v int32) bool { return kind.counts(a, v) != kind.counts(b, v) })
						}) {
							continue
						}
						if !slices.Equal(a.values, b.values) {
							equal++
						}
						if !slices.Equal(admitted(r, a, 2, some), admitted(r, b, 2, some)) {
							t.Fatalf("kind %d, most %d: of %v, others are admitted after %v than after %v", r.Kind, r.Most, some, a, b)
						}
					}
				}
			}
		}
		if equal == 0 {
			t.Errorf("kind %d, most %d: all states are told apart", r.Kind, r.Most)
		}
	}
}

// A device that a relation kind refuses stays refused as devices are added, and the properties of the kind hold for all sequences that it admits.
func TestPropertiesOfRelationKindsAreTrue(t *testing.T) {
	for _, r := range relationsOf() {
		kind := r.kind()
		var walk func(state relationState, list [][]int32)
		walk = func(state relationState, list [][]int32) {
			if common := func(v int32) bool {
				return !slices.ContainsFunc(list, func(offered []int32) bool { return !slices.Contains(offered, v) })
			}; kind.needsCommonValue() && len(list) > 1 && !slices.ContainsFunc(state.values, common) {
				t.Fatalf("kind %d: admits %v, which have nothing in common", r.Kind, list)
			}
			if all := slices.Sorted(slices.Values(slices.Concat(list...))); kind.needsDistinctValues() && len(slices.Compact(slices.Clone(all))) < len(all) {
				t.Fatalf("kind %d: admits %v, which have something in common", r.Kind, list)
			}
			// No order of devices makes a difference, unless the kind says so.
			if turned := slices.Clone(list); !slices.ContainsFunc(list, kind.dependsOnOrder) {
				if slices.Reverse(turned); !r.Holds(turned) {
					t.Fatalf("kind %d: admits %v, but not in another order", r.Kind, list)
				}
			}
			if len(list) == 4 {
				return
			}
			for _, offered := range offers {
				if !r.admits(state, offered) {
					continue
				}
				next := after(r, state, offered)
				for _, later := range offers {
					if r.admits(next, later) && !r.admits(state, later) {
						t.Fatalf("kind %d: after %v, %v is refused, and with %v it is not", r.Kind, list, later, offered)
					}
				}
				walk(next, append(slices.Clip(list), offered))
			}
		}
		walk(r.begin(), nil)
	}
}
