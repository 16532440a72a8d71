// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
)

// parallelWorkloads are a fleet of nodes in a few states of use, and nodes no two of
// which are alike.
var parallelWorkloads = []string{"fleet/state=used/nodes=5000", "unlike/nodes=1000"}

// BenchmarkParallel asks about all nodes of a cluster with one goroutine and with two.
// An equal pod has answers that are remembered for all nodes; a new one has to be
// searched for on each kind of node, which in the cluster without equal nodes is each.
// If goroutines do not stand in each other's way, cpu-ns/node stays what it is.
func BenchmarkParallel(b *testing.B) {
	for _, path := range parallelWorkloads {
		c := clusterAt(b, path)
		for _, pod := range []Pod{EqualPod, NewPod} {
			for _, workers := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/pod=%s/workers=%d", path, pod, workers), func(b *testing.B) {
					measureParallel(b, c, pod, workers)
				})
			}
		}
	}
}

func clusterAt(tb testing.TB, path string) *alloctest.Case {
	tb.Helper()
	for _, w := range Workloads() {
		if w.Path() == path {
			return w.Build()
		}
	}
	tb.Fatalf("there is no workload %s", path)
	return nil
}

func measureParallel(b *testing.B, c *alloctest.Case, pod Pod, workers int) {
	opened, err := openNative(false)(c)
	if err != nil {
		b.Fatal(err)
	}
	s := opened.(*native)
	want := s.fitting(b, s.problem(b, pod, c), c.Nodes, 1)
	m := newMeter(b)
	for m.loop() {
		var p *allocator.Problem
		m.aside(func() { p = s.problem(b, pod, c) })
		if got := s.fitting(b, p, c.Nodes, workers); got != want {
			b.Fatalf("with %d goroutines it fits on %d nodes, not %d", workers, got, want)
		}
	}
	m.report("node", len(c.Nodes))
}

// problem compiles the claims of another pod.
func (s *native) problem(tb testing.TB, pod Pod, c *alloctest.Case) *allocator.Problem {
	p, err := s.allocator.Compile(pod.Claims(c, nextPod()), s.classes)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// fitting counts the nodes with devices.
func (s *native) fitting(tb testing.TB, p *allocator.Problem, nodes []*corev1.Node, workers int) (fitting int) {
	evaluation, err := p.Evaluate(tb.Context(), s.ledger.State(), nodes, workers)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range nodes {
		if evaluation.Verdict(i) == allocator.Satisfiable {
			fitting++
		}
	}
	return fitting
}
