// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/node/errdefs"
)

func TestCreateUpdateDelete(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPods()
		c := newCluster(t, notifier{p}, newPod("old"))
		c.run(t)
		p.expect(t, "create old")
		pod := newPod("a")
		c.createPod(t, pod)
		p.expect(t, "create old", "create a")
		pod.Labels = map[string]string{"new": "label"}
		c.updatePod(t, pod)
		p.expect(t, "create old", "create a", "update a")
		c.expectEvents(t, "Normal ProviderCreateSuccess", "Normal ProviderCreateSuccess", "Normal ProviderUpdateSuccess")
		c.removePod(t, "a")
		p.expect(t, "create old", "create a", "update a", "delete a")
	})
}

// TestWhatConcernsTheProvider changes one field of a pod at a time.
func TestWhatConcernsTheProvider(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"nothing":        {func(*corev1.Pod) {}, false},
		"its status":     {func(p *corev1.Pod) { p.Status.Message = "x" }, false},
		"managed fields": {func(p *corev1.Pod) { p.ResourceVersion = "7" }, false},
		"a label":        {func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, true},
		"an annotation":  {func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, true},
		"an image":       {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "image:2" }, true},
		"init container": {func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "i"}} }, true},
		"deadline":       {func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](7) }, true},
		"a toleration":   {func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "a"}} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newPods()
				cl := newCluster(t, notifier{p}, newPod("a"))
				cl.run(t)
				changed := newPod("a")
				c.change(changed)
				cl.updatePod(t, changed)
				if c.want {
					p.expect(t, "create a", "update a")
				} else {
					p.expect(t, "create a")
				}
			})
		})
	}
}

// showing is a provider whose pods never look like those that it got.
type showing struct {
	notifier
	always *corev1.Pod
}

func (p showing) GetPod(context.Context, string, string) (*corev1.Pod, error) {
	return p.always.DeepCopy(), nil
}

func (p showing) GetPods(context.Context) ([]*corev1.Pod, error) {
	return []*corev1.Pod{p.always.DeepCopy()}, nil
}

// TestAProviderThatShowsAnotherPodIsUpdatedOnce, and again when the pod has changed.
func TestAProviderThatShowsAnotherPodIsUpdatedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		other := newPod("a")
		other.Labels = map[string]string{"provider's": "own"}
		p := newPods()
		c := newCluster(t, showing{notifier{p}, other}, newPod("a"))
		controller, _ := c.run(t)
		sync := func() {
			for range 3 {
				controller.SyncPodsFromKubernetesEnqueue(t.Context(), "ns/a")
				c.settle()
			}
		}
		sync()
		p.expect(t, "update a")
		changed := newPod("a")
		changed.Labels = map[string]string{"app": "web"}
		c.updatePod(t, changed)
		sync()
		p.expect(t, "update a", "update a")
	})
}

func TestProviderErrorsByClass(t *testing.T) {
	type step struct {
		after  time.Duration
		phase  string
		create int // calls until then
	}
	for name, c := range map[string]struct {
		err    error // of the first three attempts
		policy corev1.RestartPolicy
		steps  []step
		events []string
	}{
		"retriable": {errors.New("later"), corev1.RestartPolicyAlways,
			[]step{{0, "Pending ProviderFailed", 1}, {10 * time.Millisecond, "Pending ProviderFailed", 2}, {time.Minute, "Pending ProviderFailed", 4}},
			[]string{"Warning ProviderCreateFailed", "Warning ProviderCreateFailed", "Warning ProviderCreateFailed", "Normal ProviderCreateSuccess"}},
		"retriable, never restarted": {errors.New("later"), corev1.RestartPolicyNever,
			[]step{{time.Minute, "Pending ProviderFailed", 4}},
			[]string{"Warning ProviderCreateFailed", "Warning ProviderCreateFailed", "Warning ProviderCreateFailed", "Normal ProviderCreateSuccess"}},
		"invalid": {fmt.Errorf("pod: %w", errdefs.InvalidInput("never")), corev1.RestartPolicyAlways,
			[]step{{0, "Failed ProviderFailed", 1}, {time.Hour, "Failed ProviderFailed", 1}},
			[]string{"Warning ProviderCreateFailed"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newPods()
				p.create = func(*corev1.Pod) error {
					p.mu.Lock()
					defer p.mu.Unlock()
					if len(p.calls) <= 3 {
						return c.err
					}
					return nil
				}
				pod := newPod("a")
				pod.Spec.RestartPolicy = c.policy
				cl := newCluster(t, notifier{p})
				cl.run(t)
				if err := cl.client.Tracker().Add(pod); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Millisecond) // the pause before the first attempt
				for _, step := range c.steps {
					time.Sleep(step.after)
					p.expect(t, []string{"create a", "create a", "create a", "create a"}[:step.create]...)
					cl.expectPhase(t, "a", step.phase)
				}
				cl.expectEvents(t, c.events...)
				if message := cl.pod(t, "a").Status.Message; message != c.err.Error() {
					t.Errorf("message %q", message)
				}
			})
		})
	}
}

func TestUpdateErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPods()
		c := newCluster(t, notifier{p}, newPod("a"))
		c.run(t)
		p.report(t, "a", corev1.PodRunning)
		c.settle()
		p.update = func(*corev1.Pod) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			if len(p.calls) == 2 {
				return errors.New("later")
			}
			return errdefs.NotFound("lost")
		}
		changed := running(newPod("a"))
		changed.Labels = map[string]string{"new": "label"}
		c.updatePod(t, changed)
		p.expect(t, "create a", "update a", "update a", "create a")
		c.expectPhase(t, "a", "Running")
		c.expectEvents(t, "Normal ProviderCreateSuccess", "Warning ProviderUpdateFailed", "Normal ProviderCreateSuccess")
	})
}

func TestLostPods(t *testing.T) {
	for name, c := range map[string]struct {
		policy corev1.RestartPolicy
		calls  []string
		phase  string
	}{
		"always":     {corev1.RestartPolicyAlways, []string{"create a"}, "Running"},
		"on failure": {corev1.RestartPolicyOnFailure, []string{"create a"}, "Running"},
		"never":      {corev1.RestartPolicyNever, nil, "Failed NotFound"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				pod := running(newPod("a"))
				pod.Spec.RestartPolicy = c.policy
				p := newPods()
				cl := newCluster(t, notifier{p}, pod)
				cl.run(t)
				p.expect(t, c.calls...)
				cl.expectPhase(t, "a", c.phase)
				if c.policy != corev1.RestartPolicyNever {
					return
				}
				status := cl.pod(t, "a").Status
				if ended := status.ContainerStatuses[0].State.Terminated; ended == nil || ended.ExitCode != 137 || ended.StartedAt.IsZero() || status.ContainerStatuses[0].Ready {
					t.Errorf("container %v", status.ContainerStatuses[0])
				}
				if status.Conditions[0].Status != corev1.ConditionFalse {
					t.Errorf("Ready is %v", status.Conditions[0])
				}
			})
		})
	}
}

// TestDanglingPods also shows that one that cannot be deleted is tried again.
func TestDanglingPods(t *testing.T) {
	bubble(t, func(t *testing.T) {
		outdated := newPod("b")
		outdated.UID = "uid-of-an-earlier-pod"
		p := newPods(newPod("a"), outdated, newPod("c"))
		failures := 2
		p.remove = func(pod *corev1.Pod) error {
			if pod.Name == "a" && failures > 0 {
				failures--
				return errors.New("busy")
			}
			return nil
		}
		c := newCluster(t, notifier{p}, newPod("b"), running(newPod("c")))
		c.run(t)
		c.settle()
		deletes, creates := 0, 0
		for _, call := range p.calls {
			switch call {
			case "delete a":
				deletes++
			case "create b":
				creates++
			}
		}
		left, _ := p.GetPods(t.Context())
		if deletes != 3 || creates != 1 || len(left) != 2 {
			t.Errorf("calls %v, %d pods left", p.calls, len(left))
		}
		if b, _ := p.GetPod(t.Context(), "ns", "b"); b == nil || b.UID != "uid-b" {
			t.Errorf("the provider has %v", b)
		}
	})
}

// TestSameNameAgain replaces a pod by one of its name while the informer does not look.
func TestSameNameAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPods()
		c := newCluster(t, notifier{p}, newPod("a"))
		c.run(t)
		next := newPod("a")
		next.UID = types.UID("uid-next")
		c.updatePod(t, next) // as after a list that found another pod
		p.expect(t, "create a", "delete a", "create a")
		if pod, _ := p.GetPod(t.Context(), "ns", "a"); pod == nil || pod.UID != "uid-next" {
			t.Errorf("the provider has %v", pod)
		}
	})
}

// keeper says that a pod is deleted, and has it for some time more.
type keeper struct {
	notifier
	until time.Time
}

func (k keeper) DeletePod(ctx context.Context, pod *corev1.Pod) error {
	if time.Now().Before(k.until) {
		return k.call("delete", pod, nil)
	}
	return k.notifier.DeletePod(ctx, pod)
}

// TestSameNameBeforeTheOtherIsGone: no pod is created while the provider has another one of its name.
func TestSameNameBeforeTheOtherIsGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		old := running(newPod("a"))
		old.UID = "uid-before"
		p := newPods(old)
		c := newCluster(t, keeper{notifier{p}, time.Now().Add(time.Minute)}, newPod("a"))
		c.run(t)
		time.Sleep(50 * time.Second)
		synctest.Wait()
		p.mu.Lock()
		if slices.Contains(p.calls, "create a") || len(p.calls) < 2 {
			t.Errorf("the provider was called with %v, want deletions only", p.calls)
		}
		p.mu.Unlock()
		select {
		case event := <-c.events.Events:
			if !strings.Contains(event, "still has the earlier pod of this name, with UID uid-before") {
				t.Errorf("event %q", event)
			}
		default:
			t.Error("no event says why it waits")
		}
		time.Sleep(time.Hour)
		if pod, err := p.GetPod(t.Context(), "ns", "a"); err != nil || pod.UID != "uid-a" {
			t.Errorf("the provider has %v, %v; want the pod that Kubernetes has", pod, err)
		}
	})
}

// TestDeletedBeforeTheOtherIsGone: a pod that waits for an earlier one of its name is deleted at once, and does not wait until the provider
// is done with that one.
func TestDeletedBeforeTheOtherIsGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		old := running(newPod("a"))
		old.UID = "uid-before"
		pod := deleting(newPod("a"), 3600)
		pod.Finalizers = []string{"example.com/keep"} // or the fake API server removes it
		c := newCluster(t, keeper{notifier{newPods(old)}, time.Now().Add(time.Minute)}, pod)
		c.run(t)
		synctest.Wait()
		if len(deletions(c)) == 0 {
			t.Error("not deleted")
		}
	})
}

func TestPodsThatHaveEndedAreLeftAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		failed, succeeded := newPod("a"), newPod("b")
		failed.Status.Phase, succeeded.Status.Phase = corev1.PodFailed, corev1.PodSucceeded
		p := newPods()
		c := newCluster(t, notifier{p}, failed, succeeded)
		c.run(t)
		p.expect(t)
	})
}

func TestFilter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		elsewhere, unbound := newPod("elsewhere"), newPod("unbound")
		elsewhere.Spec.NodeName, unbound.Spec.NodeName = "other", ""
		p := newPods()
		c := newCluster(t, notifier{p}, newPod("here"), elsewhere, unbound)
		c.config.PodEventFilterFunc = func(_ context.Context, pod *corev1.Pod) bool { return pod.Spec.NodeName == nodeName }
		controller, _ := c.run(t)
		p.expect(t, "create here")
		// A key from outside is filtered, too.
		controller.SyncPodsFromKubernetesEnqueue(t.Context(), "ns/elsewhere")
		c.settle()
		p.expect(t, "create here")
		// A pod becomes the node's when it is bound.
		bound := newPod("unbound")
		c.updatePod(t, bound)
		p.expect(t, "create here", "create unbound")
		c.removePod(t, "elsewhere")
		p.expect(t, "create here", "create unbound")
	})
}

func TestKeysThatAreNone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPods()
		c := newCluster(t, notifier{p}, newPod("a"))
		controller, _ := c.run(t)
		for _, key := range []string{"", "/", "a/b/c/d", "nothing", "ns/none", "ns/a/other-uid"} {
			controller.SyncPodsFromKubernetesEnqueue(t.Context(), key)
			controller.DeletePodsFromKubernetesEnqueue(t.Context(), key)
			controller.SyncPodStatusFromProviderEnqueue(t.Context(), key)
			controller.DeletePodsFromKubernetesForget(t.Context(), key)
			controller.DeletePod("another/" + key)
		}
		controller.CheckAndUpdatePod(t.Context(), "ns/a", "not what LoadPod returned", newPod("a"))
		c.settle()
		p.expect(t, "create a")
		c.pod(t, "a")
	})
}
