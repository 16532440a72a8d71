// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import "github.com/dray-project/dray/alloctest"

// reduceTurns leaves out turns, and parts of turns, as long as the sequence fails. Fails
// also tells how many turns it took until then; the others are of no use.
func reduceTurns(turns []alloctest.Turn, fails func([]alloctest.Turn) (used int, failed bool)) {
	for changed := true; changed; {
		changed = false
		for i := 0; ; {
			edits := turnEdits(turns)
			if i >= len(edits) {
				break
			}
			smaller := edits[i](turns)
			if used, failed := fails(smaller); failed {
				turns, changed = smaller[:used], true
			} else {
				i++
			}
		}
	}
}

// turnEdits lists edits, those that leave out most first. Each returns new turns.
func turnEdits(turns []alloctest.Turn) []func([]alloctest.Turn) []alloctest.Turn {
	var all []func([]alloctest.Turn) []alloctest.Turn
	if len(turns) > 1 {
		all = append(all, withoutFirst)
	}
	for i := 1; i < len(turns); i++ {
		all = append(all, func(turns []alloctest.Turn) []alloctest.Turn {
			return append(append([]alloctest.Turn{}, turns[:i]...), turns[i+1:]...)
		})
	}
	edit := func(i int, change func(*alloctest.Turn)) {
		all = append(all, func(turns []alloctest.Turn) []alloctest.Turn {
			smaller := append([]alloctest.Turn{}, turns...)
			smaller[i] = turns[i].DeepCopy()
			change(&smaller[i])
			return smaller
		})
	}
	for i, turn := range turns {
		for n := range turn.Gone {
			edit(i, func(t *alloctest.Turn) { drop(&t.Gone, n) })
		}
		for n := range turn.Released {
			edit(i, func(t *alloctest.Turn) { drop(&t.Released, n) })
		}
		for _, change := range editsFor(turn.Case) {
			edit(i, func(t *alloctest.Turn) { change(t.Case) })
		}
	}
	return all
}

// withoutFirst starts with the second turn, on the cluster of the first one.
func withoutFirst(turns []alloctest.Turn) []alloctest.Turn {
	second := turns[1]
	second.Case = second.After(turns[0].First())
	second.Gone, second.Released = nil, nil
	return append([]alloctest.Turn{second}, turns[2:]...)
}
