// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/oracle"
)

// BenchmarkCliff decides small inputs that are hard, at growing sizes, for pods that
// nobody asked for before. Upstream has some patience; at-least-ns/op says that this
// was not enough, and larger sizes are not tried.
func BenchmarkCliff(b *testing.B) {
	for _, cliff := range Cliffs() {
		hopeless := false
		for _, k := range cliff.Sizes {
			b.Run(fmt.Sprintf("cliff=%s/K=%d", cliff.Name, k), func(b *testing.B) {
				c := cliff.Build(k)
				nodes := []*corev1.Node{askedNode(c)}
				var want answers
				if !hopeless {
					want, hopeless = upstreamOnCliff(b, c, nodes)
				}
				for _, impl := range implementations[1:] {
					s := impl.mustOpen(b, c)
					checkCliff(b, &cliff, s, c, nodes, want)
					b.Run("impl="+impl.name, func(b *testing.B) { measure(b, &impl, s, NewPod, c, nodes, len(nodes)) })
				}
			})
		}
	}
}

func askedNode(c *alloctest.Case) *corev1.Node {
	for _, node := range c.Nodes {
		if node.Name == c.Node {
			return node
		}
	}
	panic(c.Name + " asks about a node that it does not have")
}

// upstreamOnCliff measures upstream if it has an answer in time. One answer has to do where
// it takes long.
func upstreamOnCliff(b *testing.B, c *alloctest.Case, nodes []*corev1.Node) (want answers, hopeless bool) {
	impl := &implementations[0]
	s := impl.mustOpen(b, c)
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	start, before := time.Now(), cpuTime()
	want, err := s.ask(ctx, c.Claims, nodes)
	elapsed, spent := time.Since(start), cpuTime()-before
	hopeless = errors.Is(err, context.DeadlineExceeded)
	if err != nil && !hopeless {
		b.Fatal(err)
	}
	b.Run("impl="+impl.name, func(b *testing.B) {
		switch {
		case hopeless:
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(patience), "at-least-ns/op")
		case spent > patience/20:
			b.ReportMetric(float64(elapsed), "ns/op")
			b.ReportMetric(float64(spent), "cpu-ns/op")
			b.ReportMetric(float64(spent)/float64(len(nodes)), "cpu-ns/node")
		default:
			measure(b, impl, s, NewPod, c, nodes, len(nodes))
		}
	})
	return want, hopeless
}

// checkCliff wants the answer that the cliff is built to have, and upstream's if known.
func checkCliff(tb testing.TB, cliff *Cliff, s session, c *alloctest.Case, nodes []*corev1.Node, want answers) {
	tb.Helper()
	got, err := s.ask(tb.Context(), c.Claims, nodes)
	if err != nil {
		tb.Fatalf("%T: %v", s, err)
	}
	if got.fits(0) != cliff.Fits {
		tb.Fatalf("%T says %v", s, got.fits(0))
	}
	if native, ok := got.(nativeAnswers); ok && native.Verdict(0) == allocator.NotDecided {
		tb.Fatalf("undecided: %+v", native.stats())
	}
	if cliff.Fits {
		if err := oracle.Verify(c, got.results(0)); err != nil {
			tb.Fatalf("%T: %v", s, err)
		}
	}
	if want != nil {
		if diff := oracle.Equal(want.results(0), got.results(0)); diff != "" {
			tb.Fatalf("%T differs: %s", s, diff)
		}
	}
}
