// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package mix_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/dray-project/dray/simulate/mix"
)

// Any number of goroutines may ask about one State. They get what one gets alone.
func TestFindAtOnce(t *testing.T) {
	l, pods := fleet(t, 5, 4, 60, 1)
	state, types := l.open()
	told := func(n int) string {
		plan, err := mix.Find(t.Context(), state, mix.Question{Pods: pods[:30+5*(n%4)], Types: types, Steps: 100_000})
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(plan.Cost, plan.Bound, len(plan.Left))
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
