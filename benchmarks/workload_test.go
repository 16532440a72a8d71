// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
)

// BenchmarkWorkload asks about all nodes of a cluster for one pod after the other. One
// operation is one pod; ns/node is the same by node, as upstream is asked about a part
// of the nodes where all would take too long.
func BenchmarkWorkload(b *testing.B) {
	for _, w := range Workloads() {
		b.Run(w.Path(), func(b *testing.B) {
			c := w.Build()
			sessions := agree(b, &w, c)
			for _, pod := range w.Pods {
				for i, impl := range implementations {
					b.Run(fmt.Sprintf("pod=%s/impl=%s", pod, impl.name), func(b *testing.B) {
						measure(b, &impl, sessions[i], pod, c, w.nodes(c, impl.name), len(c.Nodes))
					})
				}
			}
		})
	}
}

// nodes are those that an implementation is asked about.
func (w *Workload) nodes(c *alloctest.Case, implementation string) []*corev1.Node {
	if w.Sample > 0 && implementation == upstreamName {
		return spread(c.Nodes, w.Sample)
	}
	return c.Nodes
}

// spread picks n nodes at equal distances.
func spread(nodes []*corev1.Node, n int) []*corev1.Node {
	if n >= len(nodes) {
		return nodes
	}
	var picked []*corev1.Node
	for i := range n {
		picked = append(picked, nodes[i*len(nodes)/n])
	}
	return picked
}

// measure asks about pods, on nodes that stand for all of so many. The session has seen pods of this kind.
func measure(b *testing.B, impl *implementation, s session, pod Pod, c *alloctest.Case, nodes []*corev1.Node, all int) {
	if impl.name != upstreamName {
		workOn(b, s, pod, c, nodes) // the pod before: upstream keeps nothing of it
	}
	queue := podQueue{pod: pod, cluster: c}
	m := newMeter(b)
	for m.loop() {
		if pod == FirstPod {
			m.aside(func() { s = openFresh(b, impl, c) })
		}
		claims := queue.next(m)
		a, err := s.ask(b.Context(), claims, nodes)
		if err != nil {
			b.Fatal(err)
		}
		if pod == NextPod {
			m.aside(func() { place(b, s, claims, a, len(nodes)) })
		}
	}
	m.reportSample("node", len(nodes), all)
	if err := s.take(nil); err != nil {
		b.Fatal(err)
	}
	if impl.name == drayName {
		m.reportWork(workOn(b, s, pod, c, nodes))
	}
}

// place has the claims allocated on the first node where they fit, and the pod placed
// before this one ended.
func place(tb testing.TB, s session, claims []*resourceapi.ResourceClaim, a answers, nodes int) {
	for i := range nodes {
		if !a.fits(i) {
			continue
		}
		results := a.results(i)
		for c := range claims {
			claims[c].Status.Allocation = &results[c]
		}
		if err := s.take(claims); err != nil {
			tb.Fatal(err)
		}
		return
	}
}

// workOn is what Dray says about its work on one more pod.
func workOn(tb testing.TB, s session, pod Pod, c *alloctest.Case, nodes []*corev1.Node) allocator.Stats {
	a, err := s.ask(tb.Context(), pod.Claims(c, nextPod()), nodes)
	if err != nil {
		tb.Fatal(err)
	}
	return a.stats()
}

// podQueue makes the claims of pods, some at a time, outside of what is measured.
type podQueue struct {
	pod     Pod
	cluster *alloctest.Case
	made    [][]*resourceapi.ResourceClaim
	size    int
}

func (q *podQueue) next(m *meter) []*resourceapi.ResourceClaim {
	if len(q.made) == 0 {
		m.aside(func() {
			q.size = min(max(32, 2*q.size), 4096)
			for range q.size {
				q.made = append(q.made, q.pod.Claims(q.cluster, nextPod()))
			}
		})
	}
	claims := q.made[0]
	q.made = q.made[1:]
	return claims
}

var pods atomic.Int64

// nextPod numbers the pods of the process: the facade remembers for all of it.
func nextPod() int { return int(pods.Add(1)) }

// mustOpen takes a cluster, and wants no error.
func (impl *implementation) mustOpen(tb testing.TB, c *alloctest.Case) session {
	tb.Helper()
	s, err := impl.open(c)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// openFresh opens a cluster whose slices nobody has seen.
func openFresh(tb testing.TB, impl *implementation, c *alloctest.Case) session {
	fresh := *c
	fresh.Slices = nil
	for _, slice := range c.Slices {
		fresh.Slices = append(fresh.Slices, slice.DeepCopy())
	}
	return impl.mustOpen(tb, &fresh)
}
