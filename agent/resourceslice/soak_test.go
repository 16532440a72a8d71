// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
)

// soakVariable is how many updates TestMemoryIsFlat makes.
const soakVariable = "SOAK_UPDATES"

// TestMemoryIsFlat publishes update after update, each written. What is in use after a
// tenth of them is in use at their end. `make soak-agent` makes 100,000.
func TestMemoryIsFlat(t *testing.T) {
	updates := 2_000
	if text := os.Getenv(soakVariable); text != "" {
		var err error
		if updates, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", soakVariable, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		c, err := StartController(t.Context(), Options{
			DriverName: driver, KubeClient: s,
			ErrorHandler: func(_ context.Context, err error, _ string) { t.Error(err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Stop()
		count := 0
		publish := func(upTo int) memory {
			for ; count < upTo; count++ {
				c.Update(pool(sliceWith(device("a", fmt.Sprint(count))), devices("b")))
				after(writeInterval)
				if count%100 == 0 {
					s.ClearActions() // of the fake
					s.attempts()
				}
			}
			s.ClearActions()
			s.attempts()
			return inUse()
		}
		early := publish(updates / 10)
		late := publish(updates)
		stats := c.GetStats()
		t.Logf("after %d updates %s, after %d %s; %d writes", updates/10, early, updates, late, stats.NumUpdates+stats.NumCreates)
		if late.heap > early.heap+early.heap/4+1<<20 || late.goroutines > early.goroutines+5 {
			t.Errorf("what is in use grows: %s, then %s", early, late)
		}
		if stats.NumUpdates != int64(updates-1) || stats.NumCreates != 2 {
			t.Errorf("writes %+v, want one per update", stats)
		}
	})
}

type memory struct {
	heap       uint64
	goroutines int
}

func (m memory) String() string {
	return fmt.Sprintf("%d KiB, %d goroutines", m.heap/1024, m.goroutines)
}

func inUse() memory {
	runtime.GC()
	var statistics runtime.MemStats
	runtime.ReadMemStats(&statistics)
	return memory{heap: statistics.HeapAlloc, goroutines: runtime.NumGoroutine()}
}
