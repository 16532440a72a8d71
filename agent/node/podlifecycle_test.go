// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/dray-project/dray/agent/node"
	"github.com/dray-project/dray/agent/node/errdefs"
)

func TestNewPodControllerRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, newPods())
		for field, remove := range map[string]func(*node.PodControllerConfig){
			"PodClient":                func(c *node.PodControllerConfig) { c.PodClient = nil },
			"EventRecorder":            func(c *node.PodControllerConfig) { c.EventRecorder = nil },
			"Provider":                 func(c *node.PodControllerConfig) { c.Provider = nil },
			"PodInformer or PodLister": func(c *node.PodControllerConfig) { c.PodInformer = nil },
		} {
			config := c.config
			remove(&config)
			_, err := node.NewPodController(config)
			if !errdefs.IsInvalidInput(err) || !strings.Contains(err.Error(), field+" is required") {
				t.Errorf("without %s: %v", field, err)
			}
		}
	})
}

// calledProvider fails the test when it is called.
type calledProvider struct {
	notifier
	t *testing.T
}

func (p calledProvider) NotifyPods(context.Context, func(*corev1.Pod)) { p.t.Error("NotifyPods") }
func (p calledProvider) GetPods(context.Context) ([]*corev1.Pod, error) {
	p.t.Error("GetPods")
	return nil, nil
}

// TestNothingStartsBeforeTheCachesAreSynced has an API server that does not list.
func TestNothingStartsBeforeTheCachesAreSynced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, calledProvider{notifier{newPods()}, t}, newPod("a"))
		release := make(chan struct{})
		prepend(c.client, "list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			<-release
			return true, nil, errors.New("no")
		})
		controller, r := c.run(t)
		time.Sleep(time.Hour)
		synctest.Wait()
		if isClosed(controller.Ready()) {
			t.Error("ready")
		}
		if err := r.stop(); !errors.Is(err, context.Canceled) || !errors.Is(controller.Err(), context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		close(release)
	})
}

func TestPodControllerRunsOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, notifier{newPods()})
		controller, r := c.run(t)
		again := func() {
			t.Helper()
			if err := controller.Run(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "Run was called before") {
				t.Errorf("got %v", err)
			}
		}
		again()
		if !isClosed(controller.Ready()) || isClosed(controller.Done()) {
			t.Error("not ready, or done")
		}
		if err := r.stop(); err != nil || !isClosed(controller.Done()) {
			t.Error(err)
		}
		again()
		if controller.Err() != nil {
			t.Error(controller.Err())
		}
	})
}

func TestRunRefusesNoWorkers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		controller, err := node.NewPodController(newCluster(t, newPods()).config)
		if err != nil {
			t.Fatal(err)
		}
		if err := controller.Run(t.Context(), 0); err == nil || controller.Err() == nil || !isClosed(controller.Done()) {
			t.Error("no error")
		}
	})
}

// TestPodControllerEndsAtAnyPoint cancels the context within the first, the second, ...
// request or call of the provider.
func TestPodControllerEndsAtAnyPoint(t *testing.T) {
	for point := 1; point <= 10; point++ {
		t.Run(fmt.Sprint("call ", point), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				calls := make(chan struct{}, 1000)
				count := func() {
					if calls <- struct{}{}; len(calls) >= point {
						cancel()
					}
				}
				p := newPods(newPod("dangling"))
				p.create = func(*corev1.Pod) error { count(); return ctx.Err() }
				p.remove = p.create
				c := newCluster(t, notifier{p}, newPod("a"), newPod("b"), deleting(newPod("c"), 3600), running(newPod("d")))
				prepend(c.client, "*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { count(); return false, nil, nil })
				controller, err := node.NewPodController(c.config)
				if err != nil {
					t.Fatal(err)
				}
				c.startInformers(t)
				time.AfterFunc(time.Hour, cancel)
				if err := controller.Run(ctx, 2); err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
				if !isClosed(controller.Done()) {
					t.Error("not done")
				}
			})
		})
	}
}

// panicking is a provider that panics in one of its methods.
type panicking struct {
	*pods
	in string
}

func (p panicking) panicIn(method string) {
	if p.in == method {
		panic("broken")
	}
}

func (p panicking) CreatePod(ctx context.Context, pod *corev1.Pod) error {
	p.panicIn("CreatePod")
	return p.pods.CreatePod(ctx, pod)
}

func (p panicking) UpdatePod(context.Context, *corev1.Pod) error { p.panicIn("UpdatePod"); return nil }
func (p panicking) DeletePod(context.Context, *corev1.Pod) error { p.panicIn("DeletePod"); return nil }

func (p panicking) GetPod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	p.panicIn("GetPod")
	return p.pods.GetPod(ctx, namespace, name)
}

func (p panicking) GetPods(ctx context.Context) ([]*corev1.Pod, error) {
	p.panicIn("GetPods")
	return p.pods.GetPods(ctx)
}

func (p panicking) GetPodStatus(ctx context.Context, namespace, name string) (*corev1.PodStatus, error) {
	p.panicIn("GetPodStatus")
	return p.pods.GetPodStatus(ctx, namespace, name)
}

type panickingNotifier struct{ panicking }

func (p panickingNotifier) NotifyPods(context.Context, func(*corev1.Pod)) { p.panicIn("NotifyPods") }

func TestAPanickingProviderEndsItsPodController(t *testing.T) {
	for _, method := range []string{"CreatePod", "UpdatePod", "DeletePod", "GetPod", "GetPods", "GetPodStatus", "NotifyPods"} {
		t.Run(method, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				known := newPod("known")
				known.Labels = map[string]string{"changed": "since"}
				p := panicking{newPods(newPod("known"), running(newPod("dangling"))), method}
				var provider node.PodLifecycleHandler = p
				if method == "NotifyPods" {
					provider = panickingNotifier{p}
				}
				c := newCluster(t, provider, newPod("a"), known)
				controller, err := node.NewPodController(c.config)
				if err != nil {
					t.Fatal(err)
				}
				c.startInformers(t)
				err = start(t, func(ctx context.Context) error { return controller.Run(ctx, 2) }).wait()
				if err == nil || controller.Err() == nil || !strings.Contains(err.Error(), "broken") || !strings.Contains(err.Error(), "podlifecycle_test.go") {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// TestAProviderThatLies returns nothing at all.
func TestAProviderThatLies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		never := running(newPod("never"))
		never.Spec.RestartPolicy = corev1.RestartPolicyNever
		c := newCluster(t, liar{newPods()}, newPod("a"), running(newPod("b")), never)
		_, r := c.run(t)
		time.Sleep(time.Minute)
		c.settle()
		c.expectPhase(t, "a", "Pending")
		c.expectPhase(t, "never", "Failed NotFound")
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}

type liar struct{ *pods }

func (liar) GetPod(context.Context, string, string) (*corev1.Pod, error)             { return nil, nil }
func (liar) GetPodStatus(context.Context, string, string) (*corev1.PodStatus, error) { return nil, nil }
func (liar) GetPods(context.Context) ([]*corev1.Pod, error) {
	return []*corev1.Pod{nil}, errors.New("no")
}

// TestABlockingProviderHoldsUpNoOtherPod has one pod whose creation takes an hour.
func TestABlockingProviderHoldsUpNoOtherPod(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPods()
		p.create = func(pod *corev1.Pod) error {
			if pod.Name == "slow" {
				time.Sleep(time.Hour)
			}
			return nil
		}
		c := newCluster(t, notifier{p}, newPod("slow"))
		_, r := c.run(t)
		for i := range 5 {
			c.createPod(t, newPod(fmt.Sprint("quick-", i)))
		}
		p.expect(t, "create slow", "create quick-0", "create quick-1", "create quick-2", "create quick-3", "create quick-4")
		began := time.Now()
		if err := r.stop(); err != nil || time.Since(began) < 50*time.Minute {
			t.Errorf("Run ended after %s with %v: it did not wait for the worker", time.Since(began), err)
		}
		synctest.Wait()
	})
}
