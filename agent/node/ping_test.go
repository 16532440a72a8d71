// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// TestFailingPing goes from a node that is well to one that is not, and back.
func TestFailingPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var failure atomic.Pointer[error]
		p := &provider{ping: func(context.Context) error {
			if err := failure.Load(); err != nil {
				return *err
			}
			return nil
		}}
		start(t, newController(t, p, client, withLease(client)).Run)
		began := time.Now()
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()

		broken := errors.New("the rack is on fire")
		failure.Store(&broken)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		ready := condition(getNode(t, client).Status.Conditions, corev1.NodeReady)
		if ready.Status != corev1.ConditionFalse || ready.Reason != "ProviderPingFailed" || ready.Message != broken.Error() {
			t.Errorf("Ready is %v", ready)
		}
		client.ClearActions()
		p.notify(virtualNode())
		time.Sleep(time.Hour)
		synctest.Wait()
		if writes := actions(client); len(writes) != 0 {
			t.Errorf("while pings fail, there was %v", writes)
		}
		if renewed := getLease(t, client).Spec.RenewTime.Sub(began); renewed > 71*time.Second {
			t.Errorf("the lease was renewed after %s", renewed)
		}

		failure.Store(nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		ready = condition(getNode(t, client).Status.Conditions, corev1.NodeReady)
		if ready.Status != corev1.ConditionTrue || ready.Reason != "ProviderReady" {
			t.Errorf("Ready is %v", ready)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if age := time.Since(getLease(t, client).Spec.RenewTime.Time); age > 10*time.Second {
			t.Errorf("the lease was renewed %s ago", age)
		}
	})
}

func TestANodeThatHasNoConditionsSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var fails atomic.Bool
		p := &provider{ping: func(context.Context) error {
			if fails.Load() {
				return errors.New("no")
			}
			return nil
		}}
		start(t, newController(t, p, client).Run)
		bare := virtualNode()
		bare.Status.Conditions = nil
		p.notify(bare)
		synctest.Wait()
		fails.Store(true)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if ready := condition(getNode(t, client).Status.Conditions, corev1.NodeReady); ready == nil || ready.Message != "no" {
			t.Errorf("Ready is %v", ready)
		}
		fails.Store(false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if conditions := getNode(t, client).Status.Conditions; len(conditions) != 0 {
			t.Errorf("the condition stayed: %v", conditions)
		}
	})
}

func TestPingTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var calls, running, most atomic.Int32
		release := make(chan struct{})
		var blocks atomic.Bool
		p := &provider{ping: func(context.Context) error {
			calls.Add(1)
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			if blocks.Load() {
				<-release // whatever happens to the context
			}
			return nil
		}}
		start(t, newController(t, p, client, node.WithNodePingTimeout(time.Second)).Run)
		blocks.Store(true)
		time.Sleep(12 * time.Second)
		synctest.Wait()
		ready := condition(getNode(t, client).Status.Conditions, corev1.NodeReady)
		if ready.Status != corev1.ConditionFalse || ready.Message != "no answer within 1s" {
			t.Errorf("Ready is %v", ready)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if calls.Load() != 2 {
			t.Errorf("%d pings, want the first and the one that blocks", calls.Load())
		}
		blocks.Store(false)
		close(release)
		time.Sleep(time.Minute)
		synctest.Wait()
		if ready := condition(getNode(t, client).Status.Conditions, corev1.NodeReady); ready.Status != corev1.ConditionTrue {
			t.Errorf("Ready is %v", ready)
		}
		if most.Load() != 1 {
			t.Errorf("%d pings at a time", most.Load())
		}
	})
}

func TestPingGetsAContextThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var blocks atomic.Bool
		p := &provider{ping: func(ctx context.Context) error {
			if blocks.Load() {
				<-ctx.Done()
			}
			return ctx.Err()
		}}
		start(t, newController(t, p, client, node.WithNodePingTimeout(time.Second)).Run)
		blocks.Store(true)
		time.Sleep(12 * time.Second)
		synctest.Wait()
		if ready := condition(getNode(t, client).Status.Conditions, corev1.NodeReady); ready.Status != corev1.ConditionFalse {
			t.Errorf("Ready is %v", ready)
		}
	})
}

func TestTheFirstPingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		broken := errors.New("no")
		controller := newController(t, &provider{ping: func(context.Context) error { return broken }}, client, withLease(client))
		err := start(t, controller.Run).wait()
		if !errors.Is(err, broken) || isClosed(controller.Ready()) || len(actions(client)) != 0 {
			t.Errorf("got %v, writes %v", err, actions(client))
		}
	})
}

// TestABlockedPingDoesNotKeepRunFromEnding blocks the first ping, for as long as it takes.
func TestABlockedPingDoesNotKeepRunFromEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		release := make(chan struct{})
		controller := newController(t, &provider{ping: func(context.Context) error { <-release; return nil }}, client)
		running := start(t, controller.Run)
		if err := running.stop(); err != nil || isClosed(controller.Ready()) || len(actions(client)) != 0 {
			t.Errorf("got %v, writes %v", err, actions(client))
		}
		close(release)
	})
}

func TestRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		controller := newController(t, node.NaiveNodeProvider{}, client)
		running := start(t, controller.Run)
		again := func() {
			t.Helper()
			if err := controller.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "Run was called before") {
				t.Errorf("got %v", err)
			}
		}
		again()
		if isClosed(controller.Done()) {
			t.Error("the second call ended the first one")
		}
		if err := running.stop(); err != nil {
			t.Error(err)
		}
		again()
		if controller.Err() != nil {
			t.Errorf("the second call left its error: %v", controller.Err())
		}
	})
}

// TestRunEndsAtAnyPoint cancels the context within the first, the second, ... request.
func TestRunEndsAtAnyPoint(t *testing.T) {
	for point := 1; point <= 8; point++ {
		t.Run(fmt.Sprint("request ", point), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				requests := 0
				prepend(client, "*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
					if requests++; requests >= point {
						cancel()
						return true, nil, ctx.Err()
					}
					return false, nil, nil
				})
				controller := newController(t, node.NaiveNodeProvider{}, client, withLease(client))
				if err := controller.Run(ctx); err != nil {
					t.Errorf("got %v", err)
				}
				if requests < point {
					t.Errorf("ended after %d requests", requests)
				}
			})
		})
	}
}

// panics is a provider that panics where it is told to.
type panics struct {
	node.NaiveNodeProvider
	inNotify bool
	pings    int
}

func (p *panics) NotifyNodeStatus(context.Context, func(*corev1.Node)) {
	if p.inNotify {
		panic("in notify")
	}
}

func (p *panics) Ping(context.Context) error {
	if p.pings--; p.pings < 0 {
		panic("in ping")
	}
	return nil
}

func TestAPanickingProviderEndsItsController(t *testing.T) {
	for name, p := range map[string]*panics{
		"in notify":            {inNotify: true},
		"in ping":              {},
		"in ping, later, says": {pings: 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				neighbour := newController(t, node.NaiveNodeProvider{}, client)
				start(t, neighbour.Run)
				controller := newController(t, p, client, withLease(client))
				err := start(t, controller.Run).wait()
				for _, want := range []string{"panicked", name[:7], "ping_test.go", nodeName} {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("got %v, want %q in it", err, want)
					}
				}
				if !isClosed(controller.Done()) || isClosed(neighbour.Done()) {
					t.Error("the controller goes on, or its neighbour does not")
				}
			})
		})
	}
}

func TestNaiveProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := node.NewNaiveNodeProvider()
		for _, provider := range []node.NodeProvider{node.NaiveNodeProvider{}, p} {
			if err := provider.Ping(ctx); err != nil {
				t.Error(err)
			}
		}
		cancel()
		for _, provider := range []node.NodeProvider{node.NaiveNodeProvider{}, p} {
			if err := provider.Ping(ctx); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if err := p.UpdateStatus(ctx, virtualNode()); !errors.Is(err, context.Canceled) {
			t.Errorf("without a controller: %v", err)
		}
		client := fake.NewClientset()
		start(t, newController(t, p, client).Run)
		changed := virtualNode()
		changed.Labels["new"] = "label"
		for range 2 {
			if err := p.UpdateStatus(t.Context(), changed); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if getNode(t, client).Labels["new"] != "label" {
			t.Error("the update was lost")
		}
	})
}
