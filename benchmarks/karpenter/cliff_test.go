// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"context"
	"fmt"
	"testing"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/benchmarks"
	corev1 "k8s.io/api/core/v1"
)

// BenchmarkCliff decides small inputs that are hard, at growing sizes. Where Karpenter
// runs out of patience, at-least-ns/op says so and larger sizes are not tried. Cliffs
// that it refuses or gets wrong are left out.
func BenchmarkCliff(b *testing.B) {
	for _, cliff := range benchmarks.Cliffs() {
		for _, k := range cliff.Sizes {
			c := cliff.Build(k)
			c.Nodes = []*corev1.Node{nodeNamed(c, c.Node)}
			v := judgeCliff(b, c)
			if v != same && v != gaveUp {
				b.Logf("%s: %s", cliff.Name, v)
				break
			}
			name := fmt.Sprintf("cliff=%s/K=%d/impl=", cliff.Name, k)
			b.Run(name+"karpenter", func(b *testing.B) { measureCliff(b, &implementations[0], c, v) })
			b.Run(name+"dray", func(b *testing.B) { measureCliff(b, &implementations[1], c, same) })
			if v == gaveUp {
				break
			}
		}
	}
}

func judgeCliff(tb testing.TB, c *alloctest.Case) verdict {
	tb.Helper()
	problem, err := allocator.New(allocator.Options{Features: c.Features}).Compile(c.Claims, allocator.ClassMap(c.Classes...))
	if err != nil {
		tb.Fatal(err)
	}
	ledger := mustLedger(tb, c)
	outcome, err := problem.Allocate(context.Background(), ledger.State(), c.Nodes[0])
	if err != nil {
		tb.Fatal(err)
	}
	if undecided, ok := outcome.(*allocator.Undecided); ok {
		tb.Fatal(undecided)
	}
	return newSession(c, published(c.Slices)).compare(context.Background(), c.Claims, newExistingNode(c.Nodes[0]), chosen(outcome))
}

func measureCliff(b *testing.B, impl *implementation, c *alloctest.Case, v verdict) {
	if v != gaveUp {
		measure(b, impl, benchmarks.FirstPod, c) // nothing is remembered
		return
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(patience), "at-least-ns/op")
}
