// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

func TestStatusFromProvider(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPods()
		c := newCluster(t, notifier{p}, newPod("a"))
		c.run(t)
		p.report(t, "a", corev1.PodRunning)
		c.settle()
		c.expectPhase(t, "a", "Running")
		p.report(t, "a", corev1.PodSucceeded)
		c.settle()
		c.expectPhase(t, "a", "Succeeded")
		// What has ended does not begin again.
		p.report(t, "a", corev1.PodRunning)
		c.settle()
		c.expectPhase(t, "a", "Succeeded")
	})
}

// TestPodStatusLeavesOthersAlone has a provider that knows nothing of what schedulers and
// controllers write.
func TestPodStatusLeavesOthersAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pod := newPod("a")
		pod.Generation = 7
		pod.Status = corev1.PodStatus{
			ObservedGeneration: 5, Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable, NominatedNodeName: "other", StartTime: ptr.To(metav1.Now()),
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
				{Type: "gate.example.com", Status: corev1.ConditionTrue},
				{Type: corev1.PodReady, Status: corev1.ConditionTrue},
			},
			ResourceClaimStatuses:       []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: ptr.To("a-gpu-x")}},
			ExtendedResourceClaimStatus: &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "a-extended"},
		}
		p := newPods()
		c := newCluster(t, notifier{p}, pod)
		c.run(t)
		p.report(t, "a", corev1.PodRunning)
		c.settle()
		status := c.pod(t, "a").Status
		if status.Phase != corev1.PodRunning || status.QOSClass != corev1.PodQOSBurstable || status.NominatedNodeName != "other" || status.StartTime == nil ||
			len(status.ResourceClaimStatuses) != 1 || status.ExtendedResourceClaimStatus == nil || status.ObservedGeneration != 7 {
			t.Errorf("status %v", status)
		}
		var kinds []string
		for _, condition := range status.Conditions {
			kinds = append(kinds, string(condition.Type))
		}
		// Ready is the node's to write, and it wrote none.
		if got := sortedWords(kinds); got != "PodScheduled gate.example.com" {
			t.Errorf("conditions %s", got)
		}
	})
}

// TestGenerationOfConditions is that of the pod, unless the provider or another writer says.
func TestGenerationOfConditions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pod := newPod("a")
		pod.Generation = 7
		pod.Status.Conditions = []corev1.PodCondition{{Type: "gate.example.com", Status: corev1.ConditionTrue}}
		p := newPods()
		c := newCluster(t, notifier{p}, pod)
		c.run(t)
		reported := pod.DeepCopy()
		reported.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.PodInitialized, Status: corev1.ConditionTrue, ObservedGeneration: 5},
		}}
		p.notify(reported)
		c.settle()
		got := make(map[corev1.PodConditionType]int64)
		for _, condition := range c.pod(t, "a").Status.Conditions {
			got[condition.Type] = condition.ObservedGeneration
		}
		if want := map[corev1.PodConditionType]int64{corev1.PodReady: 7, corev1.PodInitialized: 5, "gate.example.com": 0}; !maps.Equal(got, want) {
			t.Errorf("generations %v, want %v", got, want)
		}
	})
}

// TestStatusWithLateInformer: an informer sees some time later what was written. What changes back before is written all the same.
func TestStatusWithLateInformer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPods()
		pod := newPod("a")
		pod.ResourceVersion, pod.Status.Phase = "9", corev1.PodPending
		c := newCluster(t, notifier{p}, pod)
		stored := pod.DeepCopy() // the API server's, of which the informer sees nothing
		c.client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			before, err := json.Marshal(stored)
			if err != nil {
				return true, nil, err
			}
			after, err := strategicpatch.StrategicMergePatch(before, action.(clienttesting.PatchAction).GetPatch(), stored)
			if err != nil {
				return true, nil, err
			}
			stored = new(corev1.Pod)
			err = json.Unmarshal(after, stored)
			stored.ResourceVersion = "10"
			return true, stored.DeepCopy(), err
		})
		c.run(t)
		for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodPending, corev1.PodRunning} {
			p.report(t, "a", phase)
			c.settle()
			if stored.Status.Phase != phase {
				t.Errorf("phase %s, want %s", stored.Status.Phase, phase)
			}
		}
		// What another writer changed since then counts, and is changed back.
		p.report(t, "a", corev1.PodRunning)
		later := stored.DeepCopy()
		later.ResourceVersion, later.Status.Phase = "11", corev1.PodPending
		stored = later.DeepCopy()
		if err := c.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), later, "ns"); err != nil {
			t.Fatal(err)
		}
		c.settle()
		if stored.Status.Phase != corev1.PodRunning {
			t.Errorf("phase %s after another writer", stored.Status.Phase)
		}
	})
}

func TestStatusReportsAreCoalesced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPods()
		c := newCluster(t, notifier{p}, newPod("a"))
		c.run(t)
		release := make(chan struct{})
		prepend(c.client, "patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			<-release
			return false, nil, nil
		})
		pod := newPod("a")
		pod.Status.Phase = corev1.PodRunning
		for i := range 1000 {
			pod.Status.Message = fmt.Sprint(i)
			p.notify(pod)
			synctest.Wait()
		}
		close(release)
		c.settle()
		if got := count(c.client, "patch pods/status"); got > 2 {
			t.Errorf("1000 reports made %d writes", got)
		}
		if message := c.pod(t, "a").Status.Message; message != "999" {
			t.Errorf("the pod has the status of report %s", message)
		}
	})
}

func TestTheSameReportIsNotWrittenAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPods()
		c := newCluster(t, notifier{p}, newPod("a"))
		c.run(t)
		for range 10 {
			p.report(t, "a", corev1.PodRunning)
			c.settle()
		}
		if got := count(c.client, "patch pods/status"); got != 1 {
			t.Errorf("%d writes", got)
		}
		// But if somebody else changes the status meanwhile, it is.
		changed := c.pod(t, "a")
		changed.Status.Phase = corev1.PodPending
		c.updatePod(t, changed)
		c.expectPhase(t, "a", "Running")
	})
}

func TestReportsThatConcernNoPod(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPods()
		c := newCluster(t, notifier{p}, newPod("a"))
		_, r := c.run(t)
		c.client.ClearActions()
		another := newPod("a")
		another.UID, another.Status.Phase = "another", corev1.PodFailed
		for _, pod := range []*corev1.Pod{nil, newPod("unknown"), another} {
			p.notify(pod)
		}
		c.settle()
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		late := newPod("a")
		late.Status.Phase = corev1.PodFailed
		p.notify(late) // after the controller ended
		c.settle()
		if writes := actions(c.client); len(writes) != 0 {
			t.Errorf("writes %v", writes)
		}
	})
}

func TestStatusErrors(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		want  string
		calls int
	}{
		"repeated":        {errors.New("no"), "Running", 4},
		"the pod is gone": {apierrors.NewNotFound(corev1.Resource("pods"), "a"), "Pending", 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newPods()
				cl := newCluster(t, notifier{p}, newPod("a"))
				cl.run(t)
				calls := 0
				prepend(cl.client, "patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					calls++
					return calls <= 3, nil, c.err
				})
				p.report(t, "a", corev1.PodRunning)
				cl.settle()
				cl.expectPhase(t, "a", c.want)
				if calls != c.calls {
					t.Errorf("%d attempts, want %d", calls, c.calls)
				}
			})
		})
	}
}

func TestRetryFunctionOfTheStatusQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPods()
		c := newCluster(t, notifier{p}, newPod("a"))
		c.config.SyncPodStatusFromProviderShouldRetryFunc = func(_ context.Context, key string, tried int, _ time.Time, err error) (*time.Duration, error) {
			if key != "ns/a" || tried > 1 {
				return nil, err
			}
			return ptr.To(time.Minute), nil
		}
		c.run(t)
		var calls atomic.Int32
		prepend(c.client, "patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			calls.Add(1)
			return true, nil, errors.New("no")
		})
		p.report(t, "a", corev1.PodRunning)
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if calls.Load() != 1 {
			t.Errorf("%d attempts within a minute, want 1", calls.Load())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if calls.Load() != 2 {
			t.Errorf("%d attempts, want 2", calls.Load())
		}
	})
}

// TestPolledProvider has a provider without NotifyPods.
func TestPolledProvider(t *testing.T) {
	bubble(t, func(t *testing.T) {
		never := newPod("never")
		never.Spec.RestartPolicy = corev1.RestartPolicyNever
		p := newPods()
		c := newCluster(t, p, newPod("always"), never)
		c.run(t)
		for _, name := range []string{"always", "never"} {
			pod, _ := p.GetPod(t.Context(), "ns", name)
			p.set(running(pod))
		}
		time.Sleep(5 * time.Second)
		c.settle()
		c.expectPhase(t, "always", "Running")
		c.expectPhase(t, "never", "Running")
		p.lose("always")
		p.lose("never")
		time.Sleep(5 * time.Second)
		c.settle()
		c.expectPhase(t, "never", "Failed NotFound")
		creates := 0
		for _, call := range p.calls {
			if call == "create always" {
				creates++
			}
		}
		if creates != 2 {
			t.Errorf("calls %v", p.calls)
		}
		// What such a provider deletes has ended, as far as anybody can tell.
		c.updatePod(t, deleting(running(c.pod(t, "always")), 30))
		if _, err := c.client.CoreV1().Pods("ns").Get(t.Context(), "always", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the deleted pod: %v", err)
		}
	})
}
