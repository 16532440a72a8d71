// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package when_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/when"
)

// BenchmarkStarts waits for 3,000 ends on 1,000 nodes: a gang that fits after the last of them. "anew" is reading the
// cluster once; without changes of a State, that would be needed for each end.
func BenchmarkStarts(b *testing.B) {
	c := gpuCluster(1000, 4)
	sim := open(b, c).Sim()
	q := when.Queue{Now: noon, On: simulate.Real(nil)}
	for i := range 3000 {
		pod := gpuPod(fmt.Sprintf("runs-%d", i), 1+i/2000)
		if result, err := sim.Place(b.Context(), pod, simulate.Real(nil), simulate.FirstFit); err != nil || !result.All() {
			b.Fatal(result, err)
		}
		q.Ends = append(q.Ends, when.End{Pod: pod, At: minutes(i)})
	}
	var gang []*corev1.Pod
	for i := range 2000 {
		gang = append(gang, gpuPod(fmt.Sprintf("waits-%d", i), 2))
	}
	q.Waits = []when.Wait{{Pods: gang}}
	state := sim.State()
	b.Run("ends", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if starts, err := when.Starts(b.Context(), state, q); err != nil || !starts[0].Possible || !starts[0].At.Equal(minutes(2999)) {
				b.Fatal(starts, err)
			}
		}
	})
	b.Run("anew", func(b *testing.B) {
		for b.Loop() {
			open(b, c)
		}
	})
}
