// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kueue/pkg/cache/scheduler"

	"github.com/dray-project/dray/simulate"
)

// measure repeats an operation, and reports the CPU time of the process that one takes, garbage collection included: machines are shared.
func measure(b *testing.B, operation func()) {
	b.ReportAllocs()
	var start time.Duration
	for b.Loop() {
		if start == 0 {
			start = cpuTime()
		}
		operation()
	}
	b.ReportMetric(float64((cpuTime()-start).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// cpuTime is what the process has used so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// question is a gang of a benchmark, and whether it fits.
type question struct {
	name string
	gang
	fits bool
}

var questions = []question{
	{"a rack", gang{pods: 4, gpus: 2, level: 1}, true},
	{"no rack", gang{pods: 16, gpus: 2, level: 1}, false},
	{"no rack but a block", gang{pods: 16, gpus: 2, level: 1, preferred: true}, true},
}

// BenchmarkTopology asks for places of gangs where nine of ten GPUs are in use: on what was read before, and after one pod more came, or went again.
func BenchmarkTopology(b *testing.B) {
	for _, blocks := range []int{10, 50} {
		r := rand.New(rand.NewPCG(1, 1))
		h := newHosts(blocks, 10, 10, func() int { return 8 }, func() int { return 8 - r.IntN(3)*r.IntN(2) })
		other := gpuPod("new", 1)
		other.Spec.NodeName, other.Status.Phase = h.nodes[0].Name, corev1.PodRunning
		for _, question := range questions {
			b.Run(fmt.Sprintf("nodes=%d/gang=%s", len(h.nodes), question.name), func(b *testing.B) {
				b.Run("impl=kueue", func(b *testing.B) { h.benchmarkKueue(b, question, other) })
				b.Run("impl=dray", func(b *testing.B) { h.benchmarkDray(b, question, other) })
			})
		}
	}
}

func (h *hosts) benchmarkKueue(b *testing.B, q question, other *corev1.Pod) {
	queues, err := newQueues(b.Context(), h.nodes, h.pods)
	if err != nil {
		b.Fatal(err)
	}
	snapshot := func() *scheduler.TASFlavorSnapshot {
		nodes, err := queues.nodes(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		return nodes
	}
	ask := func(nodes *scheduler.TASFlavorSnapshot) {
		if places, err := place(b.Context(), nodes, q.gang); err != nil || (places != nil) != q.fits {
			b.Fatal(places, err)
		}
	}
	b.Run("state=kept", func(b *testing.B) {
		nodes := snapshot()
		measure(b, func() { ask(nodes) })
	})
	b.Run("state=changed", func(b *testing.B) {
		came := false
		measure(b, func() {
			if came = !came; came {
				queues.TASCache().Update(other, logr.Discard())
			} else {
				queues.TASCache().DeletePodByKey(client.ObjectKeyFromObject(other), logr.Discard())
			}
			ask(snapshot())
		})
	})
}

func (h *hosts) benchmarkDray(b *testing.B, q question, other *corev1.Pod) {
	state := h.open(b)
	demands := q.demands(b, state)
	ask := func(state *simulate.State) {
		if places := placeByDray(b, state, q.gang, demands); (places != nil) != q.fits {
			b.Fatal(places)
		}
	}
	b.Run("state=kept", func(b *testing.B) {
		measure(b, func() { ask(state) })
	})
	b.Run("state=changed", func(b *testing.B) {
		came, last := false, state
		measure(b, func() {
			change := simulate.Changes{Gone: simulate.Cluster{Pods: []*corev1.Pod{other}}}
			if came = !came; came {
				change = simulate.Changes{Set: simulate.Cluster{Pods: []*corev1.Pod{other}}}
			}
			var err error
			if last, err = last.With(change); err != nil {
				b.Fatal(err)
			}
			ask(last)
		})
	})
}
