// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"errors"
	"flag"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/internal/dev/oracle"
	"github.com/dray-project/dray/internal/dev/peer"
)

var (
	families      = flag.Int("families", 200, "how many inputs of each family to decide")
	firstOfFamily = flag.Uint64("first-of-family", 0, "the seed of the first of them")
)

// Each input of a family that people write is decided.
func TestFamiliesAreDecided(t *testing.T) {
	for _, family := range Families() {
		t.Run(family.Name, func(t *testing.T) {
			var meter peer.Meter
			fits, undecided, steps, most := 0, 0, int64(0), int64(0)
			for seed := *firstOfFamily; seed < *firstOfFamily+uint64(*families); seed++ {
				c := family.Build(seed)
				m, err := meter.Measure(t.Context(), c)
				if err != nil || m.Err != nil {
					t.Fatalf("seed %d: %v", seed, errors.Join(err, m.Err))
				}
				steps += m.Outcome.Stats().Steps
				most = max(most, m.Outcome.Stats().Steps)
				switch o := m.Outcome.(type) {
				case *allocator.Assignment:
					fits++
					if err := oracle.Verify(c, o.Results()); err != nil {
						t.Errorf("seed %d: %v", seed, err)
					}
				case *allocator.Undecided:
					undecided++
					t.Logf("seed %d is undecided", seed)
				}
			}
			t.Logf("of %d, %d fit and %d are undecided, in %d steps at the mean and %d at most", *families, fits, undecided, steps/int64(*families), most)
			if undecided > 0 {
				t.Errorf("%d of %d are undecided", undecided, *families)
			}
			if fits < *families/10 || fits > *families*9/10 {
				t.Errorf("%d of %d fit: the family is too easy", fits, *families)
			}
		})
	}
}

// Equal claims with lists are decided, however many there are: eight GPUs have partitions for 28 of them.
func TestEqualListsAreDecided(t *testing.T) {
	var meter peer.Meter
	for k := 9; k <= 48; k++ {
		c := partitionLists(k)
		m, err := meter.Measure(t.Context(), c)
		if err != nil || m.Err != nil {
			t.Fatalf("%d claims: %v", k, errors.Join(err, m.Err))
		}
		assignment, fits := m.Outcome.(*allocator.Assignment)
		if _, refused := m.Outcome.(*allocator.Unsatisfiable); fits != (k <= 28) || refused == fits || m.Outcome.Stats().Steps > 10_000 {
			t.Errorf("%d claims: %T after %d steps", k, m.Outcome, m.Outcome.Stats().Steps)
		}
		if fits {
			verifyCliff(t, c, assignment)
		}
	}
}

// benchmarkedInputs is how many inputs of each family are measured.
const benchmarkedInputs = 4

// BenchmarkFamily decides some inputs of each family, for pods that nobody asked for before. Upstream has some patience for
// each.
func BenchmarkFamily(b *testing.B) {
	for _, family := range Families() {
		for seed := range uint64(benchmarkedInputs) {
			b.Run(fmt.Sprintf("family=%s/seed=%d", family.Name, seed), func(b *testing.B) {
				c := family.Build(seed)
				nodes := []*corev1.Node{askedNode(c)}
				upstreamOnCliff(b, c, nodes)
				for _, impl := range implementations[1:] {
					s := impl.mustOpen(b, c)
					b.Run("impl="+impl.name, func(b *testing.B) { measure(b, &impl, s, NewPod, c, nodes, len(nodes)) })
				}
			})
		}
	}
}
