// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The node that is chosen by what is remembered of nodes is the one that looking at all nodes gives.
func TestRankedNodesAreThoseOfAllNodes(t *testing.T) {
	RunUsual(t)
	policies := []Policy{Pack, Spread}
	each := []Policy{Score(func(c NodeClass) float64 { return c.InUse }), Score(func(c NodeClass) float64 { return -c.InUse })}
	sets := []Nodes{Real(nil), Real(func(node *corev1.Node) bool { return node.Name != "node-1" })}
	seen := make(map[string]int)
	for seed := range uint64(60) {
		c := newCrowd(t, seed)
		sim := c.open().Sim()
		pods := []*corev1.Pod{c.pod("one"), c.pod("two"), c.pod("large"), c.pod("broken"), c.pod("cpu"), c.pod("network"), c.pod("shared")}
		for range 40 {
			c.change(sim)
			pod, n, on := pods[c.rand.IntN(len(pods))], c.rand.IntN(2), sets[c.rand.IntN(2)]
			other := sim.State().Sim()
			var got Result
			for range 1 + c.rand.IntN(3) {
				want, err := other.Place(t.Context(), pod, on, each[n])
				if err != nil {
					t.Fatal(err)
				}
				if got, err = sim.Place(t.Context(), pod, on, policies[n]); err != nil {
					t.Fatal(err)
				}
				if chosen(&got) != chosen(&want) || got.Undecided != want.Undecided {
					t.Fatalf("seed %d: %s is on %q (%d undecided), looking at all nodes on %q (%d)", seed, pod.Name, chosen(&got), got.Undecided, chosen(&want), want.Undecided)
				}
			}
			seen[chosen(&got)]++
			for _, r := range sim.ranked {
				if _, found := r.order.First(); found && !r.doubtful {
					seen["ranked"]++
				}
				if r.doubtful {
					seen["doubtful"]++
				}
			}
		}
	}
	for _, kind := range []string{"", "node-0", "node-3", "ranked", "doubtful"} {
		if seen[kind] == 0 {
			t.Errorf("never: %q; seen: %v", kind, seen)
		}
	}
}

func chosen(r *Result) string {
	for p := range r.Placements() {
		return p.Node.Name()
	}
	return ""
}
