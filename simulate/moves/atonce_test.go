// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/simulate/moves"
)

// Any number of goroutines may ask about one State. They get what one gets alone.
func TestFindAtOnce(t *testing.T) {
	state, nodes := crowded(t, 12, false)
	question := func(n int) moves.Question {
		return moves.Question{Nodes: nodes, Wanted: []*corev1.Pod{gpuPod("wanted", 5+n%4)}, Sets: 200, Attempts: 2000}
	}
	told := func(n int) string {
		plan, err := moves.Find(t.Context(), state, question(n))
		if err != nil {
			return err.Error()
		}
		text := fmt.Sprint(plan.Possible, plan.Cost, plan.Bound, plan.Room)
		for i := range plan.Steps {
			text += fmt.Sprintf(" %s to %s", plan.Steps[i].Pod.Name, plan.Steps[i].To.Name())
		}
		return text
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
