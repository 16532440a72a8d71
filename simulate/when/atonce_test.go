// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package when_test

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/when"
)

// Any number of goroutines may ask about one State. They get what one gets alone.
func TestStartsAtOnce(t *testing.T) {
	sim := open(t, gpuCluster(4, 4)).Sim()
	var ends []when.End
	for i := range 16 {
		pod := gpuPod(fmt.Sprintf("runs-%d", i), 1)
		if r, err := sim.Place(t.Context(), pod, simulate.Real(nil), simulate.FirstFit); err != nil || !r.All() {
			t.Fatal(r, err)
		}
		ends = append(ends, when.End{Pod: pod, At: minutes(i)})
	}
	state := sim.State()
	told := func(n int) string {
		q := when.Queue{Now: noon, Ends: ends, On: simulate.Real(nil), Backfill: n%2 == 0, Waits: []when.Wait{
			{Pods: []*corev1.Pod{gpuPod("first", 1+n%4), gpuPod("second", 2)}}, {Pods: []*corev1.Pod{gpuPod("third", 1)}},
		}}
		starts, err := when.Starts(t.Context(), state, q)
		if err != nil || !starts[0].Possible {
			return fmt.Sprint("never: ", err)
		}
		return fmt.Sprint(starts[0].At, starts[1].At, len(starts[0].After))
	}
	var got [8]string
	var group sync.WaitGroup
	for n := range got {
		group.Go(func() { got[n] = told(n) })
	}
	group.Wait()
	for n := range got {
		if want := told(n); got[n] != want {
			t.Errorf("question %d: at once %q, alone %q", n, got[n], want)
		}
	}
}
