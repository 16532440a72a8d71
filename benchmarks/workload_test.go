package benchmarks

import (
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/alloctest"
)

// BenchmarkWorkload asks about all nodes of a cluster for one pod after the other. One
// operation is one pod; ns/node is the same by node, as upstream is asked about a part
// of the nodes where all would take too long.
func BenchmarkWorkload(b *testing.B) {
	for _, w := range Workloads() {
		b.Run(w.Path(), func(b *testing.B) {
			c := w.Build()
			agree(b, &w, c)
			for _, pod := range w.Pods {
				for _, impl := range implementations {
					b.Run(fmt.Sprintf("pod=%s/impl=%s", pod, impl.name), func(b *testing.B) {
						measure(b, &impl, pod, c, w.nodes(c, impl.name))
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

// batch is how many pods are made at a time, outside of what is measured.
const batch = 32

func measure(b *testing.B, impl *implementation, pod Pod, c *alloctest.Case, nodes []*corev1.Node) {
	b.ReportAllocs()
	s := warm(b, impl, pod, c, nodes)
	var work struct{ steps, evaluations int64 }
	var pods [][]*resourceapi.ResourceClaim
	for b.Loop() {
		if pod == FirstPod {
			b.StopTimer()
			s = openFresh(b, impl, c)
			b.StartTimer()
		}
		if len(pods) == 0 {
			b.StopTimer()
			for range batch {
				pods = append(pods, pod.Claims(c, nextPod()))
			}
			b.StartTimer()
		}
		a, err := s.ask(b.Context(), pods[0], nodes)
		if err != nil {
			b.Fatal(err)
		}
		pods = pods[1:]
		stats := a.stats()
		work.steps += stats.Steps
		work.evaluations += stats.CELEvaluations
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(nodes)), "ns/node")
	if impl.name == drayName {
		b.ReportMetric(float64(work.steps)/float64(b.N), "steps/op")
		b.ReportMetric(float64(work.evaluations)/float64(b.N), "cel-evaluations/op")
	}
}

var pods atomic.Int64

// nextPod numbers the pods of the process: the facade remembers for all of it.
func nextPod() int { return int(pods.Add(1)) }

// warm opens a cluster and asks about a pod, so that the next one is not the first.
func warm(tb testing.TB, impl *implementation, pod Pod, c *alloctest.Case, nodes []*corev1.Node) session {
	s, err := impl.open(c)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := s.ask(tb.Context(), pod.Claims(c, nextPod()), nodes); err != nil {
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
	s, err := impl.open(&fresh)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}
