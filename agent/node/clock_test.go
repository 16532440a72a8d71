// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/dray-project/dray/agent/node"
)

// wall is a clock that is set to another time while the bubble's goes on: that of the bubble
// is the monotonic one.
type wall struct{ off atomic.Int64 }

func (w *wall) Now() time.Time                  { return time.Now().Add(time.Duration(w.off.Load())).Round(0) }
func (w *wall) Since(t time.Time) time.Duration { return w.Now().Sub(t) }
func (w *wall) jump(by time.Duration)           { w.off.Add(int64(by)) }

// withJumps runs a controller for two minutes, for each jump that a clock may make, and hands
// the test what makes it.
func withJumps(t *testing.T, p node.NodeProvider, test func(t *testing.T, client *fake.Clientset, jump func()), opts ...node.NodeControllerOpt) {
	t.Helper()
	for name, by := range map[string]time.Duration{"a day ahead": 24 * time.Hour, "a day back": -24 * time.Hour, "a year back": -365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, clock := fake.NewClientset(), &wall{}
				controller := newController(t, p, client, append(opts, withLease(client))...)
				controller.SetClock(clock)
				start(t, controller.Run)
				time.Sleep(2*time.Minute + time.Second)
				synctest.Wait()
				test(t, client, func() { clock.jump(by) })
			})
		})
	}
}

// TestLeaseWhenTheClockJumps: it is renewed as often as before, and each renewal is later
// than the one before.
func TestLeaseWhenTheClockJumps(t *testing.T) {
	withJumps(t, node.NaiveNodeProvider{}, func(t *testing.T, client *fake.Clientset, jump func()) {
		for range 2 {
			last := getLease(t, client).Spec.RenewTime.Time
			client.ClearActions()
			jump()
			for range 10 {
				time.Sleep(10 * time.Second)
				synctest.Wait()
				renewed := getLease(t, client).Spec.RenewTime.Time
				if !renewed.After(last) {
					t.Errorf("renewed at %s, after %s", renewed, last)
				}
				last = renewed
			}
			if got := count(client, "update leases"); got != 10 {
				t.Errorf("renewed %d times in 100 s, want 10", got)
			}
		}
	})
}

// TestLeaseThatIsTakenOver was renewed before, by a clock that was wrong.
func TestLeaseThatIsTakenOver(t *testing.T) {
	for name, off := range map[string]time.Duration{"a day ahead": 24 * time.Hour, "a year behind": -365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, clock := fake.NewClientset(), &wall{}
				clock.jump(off)
				first := newController(t, node.NaiveNodeProvider{}, client, withLease(client))
				first.SetClock(clock)
				if err := start(t, first.Run).stop(); err != nil {
					t.Fatal(err)
				}
				wrong := getLease(t, client).Spec.RenewTime.Time
				start(t, newController(t, node.NaiveNodeProvider{}, client, withLease(client)).Run)
				if renewed := getLease(t, client).Spec.RenewTime.Time; !renewed.After(wrong) || off < 0 && !renewed.Equal(time.Now()) {
					t.Errorf("renewed at %s, after %s; it is %s", renewed, wrong, time.Now())
				}
			})
		})
	}
}

// TestLeaseBacksOffWhenTheClockJumps: a renewal that failed is repeated after the same pauses,
// whenever the clock is set.
func TestLeaseBacksOffWhenTheClockJumps(t *testing.T) {
	withJumps(t, node.NaiveNodeProvider{}, func(t *testing.T, client *fake.Clientset, jump func()) {
		began := time.Now()
		var attempts []time.Duration // each asks for the lease, after the first, which updates what it knows
		var broken atomic.Bool
		broken.Store(true)
		prepend(client, "*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			if !broken.Load() {
				return false, nil, nil
			}
			attempts = append(attempts, time.Since(began))
			return true, nil, errors.New("no")
		})
		time.Sleep(10*time.Second + time.Millisecond) // in the midst of the pauses
		jump()
		time.Sleep(6 * time.Second)
		synctest.Wait()
		broken.Store(false)
		for i := range attempts {
			attempts[i] -= 9 * time.Second // the renewal that fails first: 130 s after the start
		}
		want := []time.Duration{0, 200 * time.Millisecond, 600 * time.Millisecond, 1400 * time.Millisecond, 3000 * time.Millisecond, 6200 * time.Millisecond}
		if !slices.Equal(attempts, want) {
			t.Errorf("attempts after %v, want %v", attempts, want)
		}
	})
}

// TestPingWhenTheClockJumps: pings go on at their interval, and one that blocks has failed when
// its time is over, not before.
func TestPingWhenTheClockJumps(t *testing.T) {
	var pings atomic.Int32
	var blocks atomic.Bool
	p := &provider{ping: func(ctx context.Context) error {
		pings.Add(1)
		if blocks.Load() {
			<-ctx.Done()
		}
		return ctx.Err()
	}}
	withJumps(t, p, func(t *testing.T, client *fake.Clientset, jump func()) {
		ready := func() corev1.ConditionStatus {
			synctest.Wait()
			return condition(getNode(t, client).Status.Conditions, corev1.NodeReady).Status
		}
		pings.Store(0)
		jump()
		time.Sleep(100 * time.Second)
		if synctest.Wait(); pings.Load() != 10 || ready() != corev1.ConditionTrue {
			t.Errorf("%d pings in 100 s, want 10; Ready is %s", pings.Load(), ready())
		}
		blocks.Store(true)
		defer blocks.Store(false)
		time.Sleep(10 * time.Second) // 231 s: a ping began 1 s ago
		jump()
		time.Sleep(3 * time.Second)
		if got := ready(); got != corev1.ConditionTrue {
			t.Errorf("Ready is %s when a ping has blocked for 4 s, and may for 5", got)
		}
		time.Sleep(2 * time.Second)
		if got := ready(); got != corev1.ConditionFalse {
			t.Errorf("Ready is %s when a ping has blocked for 5 s", got)
		}
	}, node.WithNodePingTimeout(5*time.Second))
}

// TestStatusWhenTheClockJumps: it is written as often as before, and the node has not changed.
func TestStatusWhenTheClockJumps(t *testing.T) {
	withJumps(t, node.NaiveNodeProvider{}, func(t *testing.T, client *fake.Clientset, jump func()) {
		before := condition(getNode(t, client).Status.Conditions, corev1.NodeReady)
		client.ClearActions()
		jump()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := count(client, "patch nodes/status"); got != 5 {
			t.Errorf("the status was written %d times in 5 min, want 5", got)
		}
		after := condition(getNode(t, client).Status.Conditions, corev1.NodeReady)
		if !after.LastTransitionTime.Equal(&before.LastTransitionTime) || after.Status != before.Status || after.LastHeartbeatTime.Equal(&before.LastHeartbeatTime) {
			t.Errorf("the condition was %v, and is %v", before, after)
		}
	})
}
