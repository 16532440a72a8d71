// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package mix_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/simulate/mix"
)

// fleet has types of nodes with 0 to 8 GPUs and NICs, 8 to 192 CPUs, and prices that grow a little slower than what they have. Pods are of some kinds.
func fleet(t testing.TB, types, kinds, pods int, seed uint64) (*lab, []*corev1.Pod) {
	random := rand.New(rand.NewPCG(seed, 500))
	l := newLab(t)
	for i := range types {
		gpus := []int{0, 1, 2, 4, 8}[i%5]
		cpu := []int{8, 16, 32, 64, 96, 192}[random.IntN(6)]
		price := float64(10*gpus+cpu/4) * (0.8 + 0.4*random.Float64())
		l.addType(fmt.Sprint("type-", i), float64(int(price*100))/100, gpus, gpus/2, cpu, nil)
	}
	var wait []*corev1.Pod
	shapes := make([][3]int, kinds)
	for k := range shapes {
		shapes[k] = [3]int{[]int{0, 0, 1, 1, 2, 3, 4, 8}[random.IntN(8)], random.IntN(8) / 7, 1 + random.IntN(8)}
	}
	for i := range pods {
		shape := shapes[random.IntN(kinds)]
		wait = append(wait, l.pod(fmt.Sprint("pod-", i), shape[0], shape[1], shape[2], false))
	}
	return l, wait
}

// cpuTime is what the process took so far.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func BenchmarkFind(b *testing.B) {
	for _, size := range []struct{ types, kinds, pods int }{{20, 10, 500}, {20, 40, 500}, {20, 120, 500}, {20, 40, 2000}, {20, 40, 8000}, {80, 40, 500}} {
		b.Run(fmt.Sprintf("types=%d/kinds=%d/pods=%d", size.types, size.kinds, size.pods), func(b *testing.B) {
			gap, cost, bound, spent := 0.0, 0.0, 0.0, time.Duration(0)
			for i := 0; b.Loop(); i++ {
				l, pods := fleet(b, size.types, size.kinds, size.pods, uint64(i))
				b.StopTimer()
				state, types := l.open()
				b.StartTimer()
				before := cpuTime(b)
				plan, err := mix.Find(b.Context(), state, mix.Question{Pods: pods, Types: types})
				if err != nil {
					b.Fatal(err)
				}
				spent += cpuTime(b) - before
				gap, cost, bound = max(gap, plan.Gap()), cost+plan.Cost, bound+plan.Bound
			}
			b.ReportMetric(float64(spent.Milliseconds())/float64(b.N), "cpu-ms/op")
			b.ReportMetric(100*gap, "%gap-max")
			b.ReportMetric(100*(cost/bound-1), "%gap-mean")
		})
	}
}
