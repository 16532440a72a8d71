// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestEditNodesOfTemplates compares nodes of a template, which are kept as runs of equal ones, with a list of all nodes.
func TestEditNodesOfTemplates(t *testing.T) {
	state, err := Open(Cluster{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	template, err := state.Template(TemplateSpec{Node: &corev1.Node{}})
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 3))
		sim := state.Sim()
		var want []int64 // what was written to each node; 0 if nothing was
		for mark := range int64(20) {
			number := random.IntN(len(want) + 6)
			for len(want) <= number {
				want = append(want, 0)
			}
			want[number] = mark + 1
			sim.edit(Node{template: template, index: number}).used = []int64{mark + 1}
		}
		var got []int64
		for _, r := range sim.group(template).runs {
			mark := int64(0)
			if len(r.used) == 1 {
				mark = r.used[0]
			}
			got = append(got, slices.Repeat([]int64{mark}, r.count)...)
		}
		if g := sim.group(template); !slices.Equal(got, want) || g.used != len(want) || g.total != len(want) {
			t.Fatalf("seed %d: nodes %v, want %v; %d in use of %d", seed, got, want, g.used, g.total)
		}
	}
}
