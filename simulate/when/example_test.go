// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package when_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/when"
)

// A gang of two pods with three GPUs each waits, and behind it a pod with one: when does each start, without backfill
// and with it?
func ExampleStarts() {
	ctx := context.Background()
	opened, err := simulate.Open(gpuCluster(2, 4), simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		panic(err)
	}
	sim := opened.Sim()
	one := time.Date(2026, 11, 25, 13, 0, 0, 0, time.UTC)
	var ends []when.End
	for i, name := range []string{"a", "b", "c"} { // they end at one, two and three
		pod := gpuPod(name, 2)
		if _, err := sim.Place(ctx, pod, simulate.Real(nil), simulate.FirstFit); err != nil {
			panic(err)
		}
		ends = append(ends, when.End{Pod: pod, At: one.Add(time.Duration(i) * time.Hour)})
	}
	queue := when.Queue{
		Now: one.Add(-time.Hour), Ends: ends, On: simulate.Real(nil),
		Waits: []when.Wait{{Pods: []*corev1.Pod{gpuPod("gang-0", 3), gpuPod("gang-1", 3)}}, {Pods: []*corev1.Pod{gpuPod("small", 1)}}},
	}
	for _, queue.Backfill = range []bool{false, true} {
		starts, err := when.Starts(ctx, sim.State(), queue)
		if err != nil {
			panic(err)
		}
		for i, start := range starts {
			fmt.Print(queue.Waits[i].Pods[0].Name, " at ", start.At.Format(time.Kitchen), ", after")
			for _, end := range start.After {
				fmt.Print(" ", end.Pod.Name)
			}
			fmt.Println()
		}
	}
	// Output:
	// gang-0 at 3:00PM, after a b c
	// small at 3:00PM, after a b c
	// gang-0 at 3:00PM, after a b c
	// small at 12:00PM, after
}
