// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestCallsOfDrivers: a pod has one call at a time. Whoever comes while it runs is told so, and the pod is queued again once a call that
// took long has ended. Other pods do not wait.
func TestCallsOfDrivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClaimProvider(nil, nil, nil)
		requeued := make(chan string, 10)
		c.requeue = func(key string) { requeued <- key }
		refused := errors.New("no such device")
		slow := func() error { time.Sleep(10 * driverWait); return refused }
		calls := 0
		quick := func() error { calls++; return refused }
		began := time.Now()
		if err := c.callDrivers(pod("a"), slow); !errors.Is(err, errBusy) || time.Since(began) != driverWait {
			t.Errorf("a call that takes long: %v after %v", err, time.Since(began))
		}
		if err := c.callDrivers(pod("a"), quick); !errors.Is(err, errBusy) || calls != 0 {
			t.Errorf("another call for the pod: %v, made %d times", err, calls)
		}
		if err := c.callDrivers(pod("b"), quick); !errors.Is(err, refused) || calls != 1 {
			t.Errorf("a call for another pod: %v, made %d times", err, calls)
		}
		if len(requeued) > 0 {
			t.Errorf("%s is queued before its call has ended", <-requeued)
		}
		c.background.Wait()
		if key := <-requeued; key != "ns/a" || len(c.sweepNeeded) != 1 {
			t.Errorf("queued %s, to be swept: %d", key, len(c.sweepNeeded))
		}
		if err := c.callDrivers(pod("a"), quick); !errors.Is(err, refused) || calls != 2 {
			t.Errorf("a call after the other: %v, made %d times", err, calls)
		}
		c.background.Wait()
		if len(requeued) > 0 || len(c.driverCalls) > 0 {
			t.Errorf("%d are queued, %d calls run", len(requeued), len(c.driverCalls))
		}
	})
}
