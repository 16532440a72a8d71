// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/dray-project/dray/agent/node/errdefs"
)

func (c *cluster) expectGone(t *testing.T, name string, want bool) {
	t.Helper()
	_, err := c.client.CoreV1().Pods("ns").Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) != want {
		t.Errorf("pod %s is gone: %t, want %t", name, apierrors.IsNotFound(err), want)
	}
}

// deletions are the options of deletions of pods.
func deletions(c *cluster) []metav1.DeleteOptions {
	var out []metav1.DeleteOptions
	for _, action := range c.client.Actions() {
		if deletion, ok := action.(clienttesting.DeleteActionImpl); ok && action.GetResource().Resource == "pods" {
			out = append(out, deletion.DeleteOptions)
		}
	}
	return out
}

// TestGraceThenForce deletes a pod whose provider takes its time.
func TestGraceThenForce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPods()
		p.remove = func(*corev1.Pod) error { return nil }
		c := newCluster(t, notifier{p}, newPod("slow"), newPod("quick"))
		c.run(t)
		for _, name := range []string{"slow", "quick"} {
			p.report(t, name, corev1.PodRunning)
			c.settle()
			c.updatePod(t, deleting(c.pod(t, name), 30))
			// The provider still has it.
			p.set(running(newPod(name)))
		}
		p.notifyEnd(t, "quick")
		c.settle()
		c.expectGone(t, "quick", true)
		time.Sleep(25 * time.Second)
		synctest.Wait()
		c.expectGone(t, "slow", false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		c.expectGone(t, "slow", true)
		for i, options := range deletions(c) {
			want := types.UID([]string{"uid-quick", "uid-slow"}[i])
			if *options.GracePeriodSeconds != 0 || options.Preconditions == nil || *options.Preconditions.UID != want {
				t.Errorf("deletion %d has options %v, want no grace and UID %s", i, options, want)
			}
		}
	})
}

// TestKillAtTheEndOfTheGrace has a provider that kills what is left when the grace is over. How that
// ended is in the status of the pod before the pod is deleted.
func TestKillAtTheEndOfTheGrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPods()
		p.remove = func(*corev1.Pod) error { return nil }
		c := newCluster(t, notifier{p}, newPod("a"))
		c.run(t)
		p.report(t, "a", corev1.PodRunning)
		c.settle()
		c.updatePod(t, deleting(c.pod(t, "a"), 30))
		p.set(running(newPod("a")))
		time.Sleep(30*time.Second + 100*time.Millisecond)
		synctest.Wait()
		c.expectGone(t, "a", false)
		p.report(t, "a", corev1.PodFailed)
		c.settle()
		c.expectGone(t, "a", true)
		var verbs []string
		for _, action := range c.client.Actions() {
			if patch, ok := action.(clienttesting.PatchAction); ok && strings.Contains(string(patch.GetPatch()), `"Failed"`) || action.GetVerb() == "delete" {
				verbs = append(verbs, action.GetVerb())
			}
		}
		if want := []string{"patch", "delete"}; !slices.Equal(verbs, want) {
			t.Errorf("got %v, want %v", verbs, want)
		}
	})
}

// notifyEnd reports that a pod has ended.
func (p *pods) notifyEnd(t *testing.T, name string) {
	t.Helper()
	p.report(t, name, corev1.PodSucceeded)
}

// TestPodsThatAreGoneHaveNoGrace: what Kubernetes does not have any more uses what is free for
// it. A second deletion that is sooner is told, too.
func TestPodsThatAreGoneHaveNoGrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var graces []int64
		p := newPods(running(newPod("a")))
		p.remove = func(pod *corev1.Pod) error {
			graces = append(graces, *pod.DeletionGracePeriodSeconds)
			return errors.New("it still runs")
		}
		c := newCluster(t, notifier{p}, running(newPod("a")))
		c.config.SyncPodsFromKubernetesShouldRetryFunc = func(context.Context, string, int, time.Time, error) (*time.Duration, error) {
			return nil, errors.New("once is enough")
		}
		c.run(t)
		for _, grace := range []int64{3600, 30} {
			c.updatePod(t, deleting(running(newPod("a")), grace))
		}
		c.removePod(t, "a")
		if want := []int64{3600, 30, 0}; !slices.Equal(graces, want) {
			t.Errorf("graces %v, want %v", graces, want)
		}
	})
}

func TestPodsThatNeverRanAreDeletedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pod := deleting(newPod("a"), 3600)
		pod.Finalizers = []string{"example.com/keep"} // or the fake API server removes it
		p := newPods()
		c := newCluster(t, notifier{p}, pod)
		c.run(t)
		p.expect(t)
		if len(deletions(c)) == 0 {
			t.Error("not deleted")
		}
	})
}

func TestProviderErrorsOfDeletions(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		events []string
	}{
		"gone already": {errdefs.NotFound("gone"), nil},
		"retriable":    {errors.New("busy"), []string{"Warning ProviderDeleteFailed", "Normal ProviderDeleteSuccess"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				failures := 1
				p := newPods(running(newPod("a")))
				p.remove = func(*corev1.Pod) error {
					if failures--; failures >= 0 {
						return c.err
					}
					return nil
				}
				cl := newCluster(t, notifier{p}, running(newPod("a")))
				cl.run(t)
				cl.updatePod(t, deleting(running(newPod("a")), 30))
				cl.expectEvents(t, c.events...)
				if errdefs.IsNotFound(c.err) {
					cl.expectGone(t, "a", true)
				}
				time.Sleep(time.Minute)
				cl.expectGone(t, "a", true)
			})
		})
	}
}

func TestDeletionsMeetErrors(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		calls int
	}{
		"repeated":                {errors.New("no"), 4},
		"gone":                    {apierrors.NewNotFound(corev1.Resource("pods"), "a"), 1},
		"another one of its name": {apierrors.NewConflict(corev1.Resource("pods"), "a", errors.New("UID")), 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newPods()
				cl := newCluster(t, notifier{p}, newPod("a"))
				calls := 0
				prepend(cl.client, "delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					calls++
					return calls <= 3, nil, c.err
				})
				controller, _ := cl.run(t)
				controller.DeletePodsFromKubernetesEnqueue(t.Context(), "ns/a/uid-a")
				cl.settle()
				if calls != c.calls {
					t.Errorf("%d attempts, want %d", calls, c.calls)
				}
			})
		})
	}
}

func TestDeletionsCanBeForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPods()
		p.remove = func(*corev1.Pod) error { return nil }
		c := newCluster(t, notifier{p}, newPod("a"))
		controller, _ := c.run(t)
		c.updatePod(t, deleting(running(newPod("a")), 30))
		controller.DeletePodsFromKubernetesForget(t.Context(), "ns/a/uid-a")
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(deletions(c)) != 0 {
			t.Error("deleted")
		}
	})
}

// TestTombstone deletes a pod while the watch is broken: the informer finds out when it
// lists again, and hands over what it knew last.
func TestTombstone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPods()
		c := newCluster(t, notifier{p}, newPod("a"), newPod("b"))
		watches := make(chan *watch.FakeWatcher, 10)
		c.client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
			w := watch.NewFake()
			watches <- w
			return true, w, nil
		})
		controller, _ := c.run(t)
		broken := <-watches
		if err := c.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "ns", "a"); err != nil {
			t.Fatal(err)
		}
		gone := apierrors.NewResourceExpired("too old").Status()
		broken.Error(&gone)
		time.Sleep(time.Minute)
		c.settle()
		left, _ := p.GetPods(t.Context())
		if len(left) != 1 || left[0].Name != "b" {
			t.Errorf("the provider has %d pods", len(left))
		}
		if _, known := controller.LoadPod("ns/a"); known {
			t.Error("the controller remembers the pod")
		}
	})
}

// TestNothingStaysInMemory creates and deletes pods, and looks what is remembered.
func TestNothingStaysInMemory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPods()
		c := newCluster(t, notifier{p})
		controller, _ := c.run(t)
		for range 20 {
			c.createPod(t, newPod("a"))
			p.report(t, "a", corev1.PodRunning)
			c.settle()
			c.removePod(t, "a")
			p.notify(running(newPod("a"))) // a report that comes late
			c.settle()
		}
		if _, known := controller.LoadPod("ns/a"); known {
			t.Error("the controller remembers the pod")
		}
	})
}

// TestAReportWhileThePodIsDeleted has the pod deleted after the report found it and before the
// report is remembered.
func TestAReportWhileThePodIsDeleted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPods()
		c := newCluster(t, notifier{p})
		var deletes atomic.Bool
		c.config.PodEventFilterFunc = func(context.Context, *corev1.Pod) bool {
			if deletes.CompareAndSwap(true, false) {
				c.removePod(t, "a")
			}
			return true
		}
		controller, _ := c.run(t)
		c.createPod(t, newPod("a"))
		deletes.Store(true)
		p.notify(running(newPod("a")))
		c.settle()
		if deletes.Load() {
			t.Error("the pod was not deleted")
		}
		if _, known := controller.LoadPod("ns/a"); known {
			t.Error("the controller remembers the pod")
		}
	})
}

// TestEntryPoints feeds a controller that has a lister only.
func TestEntryPoints(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPods()
		c := newCluster(t, notifier{p})
		c.config.PodLister, c.config.PodInformer = c.informer.Lister(), nil
		controller, _ := c.run(t)
		ctx := context.Background()
		c.createPod(t, newPod("a"))
		p.expect(t)
		controller.StorePod("ns/a", newPod("a"))
		controller.SyncPodsFromKubernetesEnqueue(ctx, "ns/a")
		c.settle()
		p.expect(t, "create a")
		p.report(t, "a", corev1.PodRunning)
		p.report(t, "a", corev1.PodRunning)
		c.settle()
		c.expectPhase(t, "a", "Running")

		changed := c.pod(t, "a")
		changed.Status.Phase = corev1.PodPending
		c.updatePod(t, changed)
		c.expectPhase(t, "a", "Pending")
		known, ok := controller.LoadPod("ns/a")
		if !ok {
			t.Fatal("the pod is not known")
		}
		controller.CheckAndUpdatePod(ctx, "ns/a", known, changed)
		c.settle()
		c.expectPhase(t, "a", "Running")

		c.removePod(t, "a")
		p.expect(t, "create a")
		controller.DeletePod("ns/a")
		controller.SyncPodsFromKubernetesEnqueue(ctx, "ns/a")
		controller.DeletePodsFromKubernetesForget(ctx, "ns/a/uid-a")
		c.settle()
		p.expect(t, "create a", "delete a")
		if _, ok := controller.LoadPod("ns/a"); ok {
			t.Error("the pod is still known")
		}
	})
}
