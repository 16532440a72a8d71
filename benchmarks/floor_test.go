// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"math/rand/v2"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	upstream "k8s.io/dynamic-resource-allocation/structured"
)

// BenchmarkFloor is what no allocator can do without. One is to learn something about each
// node, here by following one pointer to what is known of it and looking up the answer;
// the other is to build a result for a node, here by copying one.
func BenchmarkFloor(b *testing.B) {
	b.Run("floor/step=read/nodes=5000/impl=floor", func(b *testing.B) { floorRead(b, 5000) })
	b.Run("floor/step=result/impl=floor", floorResult)
}

// known stands for what is known of a node: a number for what matters of it, among other
// things.
type known struct {
	number int
	_      [15]int
}

func floorRead(b *testing.B, n int) {
	nodes := make([]*known, n)
	for i := range nodes {
		nodes[i] = &known{number: i % 8}
	}
	// Nodes are not asked about in the order in which they were made.
	rand.Shuffle(n, func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	answers := make([]*known, n)
	m := newMeter(b)
	for m.loop() {
		table := [8]*known{}
		for i, node := range nodes {
			answers[i] = table[node.number]
		}
	}
	m.report("node", n)
}

func floorResult(b *testing.B) {
	c := fleet(1, idle)
	c.claim("pending", request("gpu", "gpu", 1, gpuModel))
	a, err := newStructured(upstream.NewAllocator, c.Case).ask(b.Context(), c.Claims, c.Nodes)
	if err != nil {
		b.Fatal(err)
	}
	var built *resourceapi.AllocationResult
	m := newMeter(b)
	for m.loop() {
		built = a.results(0)[0].DeepCopy()
	}
	m.report("", 0)
	if len(built.Devices.Results) != 1 {
		b.Fatal("not the result")
	}
}
