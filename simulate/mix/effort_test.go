// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package mix_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/dray-project/dray/internal/dev/effort"
	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/mix"
)

// TestEffort has what plans cost to find: for some hundred pods, and for small clusters of all kinds.
func TestEffort(t *testing.T) {
	counts := make(effort.Counts)
	find := func(name string, state *simulate.State, q mix.Question) {
		t.Helper()
		counts.Of(t.Context(), name, func(ctx context.Context) {
			steps, err := mix.Steps(ctx, state, q)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			counts[name+", steps"] += steps
		})
	}
	for seed := range uint64(4) {
		for _, size := range []struct{ types, kinds, pods int }{{5, 4, 40}, {10, 8, 120}, {10, 20, 120}} {
			l, pods := fleet(t, size.types, size.kinds, size.pods, seed)
			state, types := l.open()
			find(fmt.Sprintf("%d pods of %d kinds", size.pods, size.kinds), state, mix.Question{Pods: pods, Types: types})
		}
	}
	for seed := range uint64(60) {
		l := newLab(t)
		f := features{nics: true, cpu: true, aligned: true, limits: true, existing: seed%2 == 0, selectors: true, fractions: seed%3 == 0, halves: seed%4 == 0, lists: seed%5 == 0}
		state, q := l.generate(rand.New(rand.NewPCG(seed, 77)), f)
		find("small clusters", state, q)
	}
	counts.Compare(t)
}
