// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// lateWatch is an API server that serves the first allocation of a claim, does not answer, and tells
// of claims only later.
type lateWatch struct {
	objects clienttesting.ObjectTracker
	begun   atomic.Bool
	ended   chan struct{}
}

func (l *lateWatch) update(action clienttesting.Action) (bool, runtime.Object, error) {
	update, ok := action.(clienttesting.UpdateAction)
	if !ok || action.GetSubresource() != "status" || !l.begun.CompareAndSwap(false, true) {
		return false, nil, nil
	}
	claim := update.GetObject().(*resourceapi.ResourceClaim).DeepCopy()
	if err := l.objects.Update(update.GetResource(), claim, claim.Namespace); err != nil {
		return true, nil, err
	}
	return true, nil, apierrors.NewTimeoutError("injected", 0)
}

func (l *lateWatch) watch(action clienttesting.Action) (bool, watch.Interface, error) {
	told, err := l.objects.Watch(action.GetResource(), action.GetNamespace())
	if err != nil {
		return true, nil, err
	}
	events := make(chan watch.Event)
	late := watch.NewProxyWatcher(events)
	go func() {
		defer told.Stop()
		for {
			select {
			case <-late.StopChan():
				return
			case event := <-told.ResultChan():
				if l.begun.Load() {
					<-l.ended
				}
				select {
				case events <- event:
				case <-late.StopChan():
					return
				}
			}
		}
	}()
	return true, late, nil
}

// A claim is written, the answer is lost, the informer is late, and the pod is deleted meanwhile. Then the
// in-tree plugin gives the device to a second claim. This one does not (decision 0021).
func TestDeviceOfUnansweredUpdateStaysInUse(t *testing.T) {
	for name, test := range map[string]struct {
		profile string
		holders int
	}{
		"dray":    {dray, 1},
		"in-tree": {inTree, 2},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewSimpleClientset(roomy("a"), gpuClass(), gpus("a", 1), gpuClaim("of-one", 1), gpuClaim("of-two", 1))
			late := &lateWatch{objects: client.Tracker(), ended: make(chan struct{})}
			client.PrependWatchReactor("resourceclaims", late.watch)
			client.PrependReactor("update", "resourceclaims", late.update)
			r, err := newSchedulerOf(t, test.profile, client)
			r.must(err)
			r.run()
			r.create(podWith("one", "of-one"))
			eventually(t, func() error {
				if !late.begun.Load() {
					return fmt.Errorf("the claim of the first pod was not written after %d attempts", r.attemptsOf("one"))
				}
				return nil
			})
			r.must(client.CoreV1().Pods("default").Delete(r.ctx, "one", metav1.DeleteOptions{}))
			eventually(t, r.gaveUp)
			r.create(podWith("two", "of-two"))
			if test.holders == 1 {
				r.waitForRejection("two")
			}
			tries := 0
			eventually(t, func() error {
				// A pod that was tried while the claim was in flight once more has to be woken.
				if tries++; tries%100 == 0 {
					r.relabel("a", fmt.Sprint(tries))
				}
				if holders := r.holdersOf("a/gpu-0"); len(holders) != test.holders {
					return fmt.Errorf("the device is in claims %v", holders)
				}
				return nil
			})
			close(late.ended)
		})
	}
}

// relabel changes a node, which has the plugin in the tree try pods again.
func (r *rig) relabel(name, value string) {
	r.t.Helper()
	node, err := r.client.CoreV1().Nodes().Get(r.ctx, name, metav1.GetOptions{})
	r.must(err)
	node = node.DeepCopy()
	node.Labels["tries"] = value
	_, err = r.client.CoreV1().Nodes().Update(r.ctx, node, metav1.UpdateOptions{})
	r.must(err)
}

// gaveUp reports whether the scheduler is done with the first pod: it is gone, and its claim is no longer
// in flight.
func (r *rig) gaveUp() error {
	if _, err := r.handle.SharedInformerFactory().Core().V1().Pods().Lister().Pods("default").Get("one"); !apierrors.IsNotFound(err) {
		return fmt.Errorf("the first pod is known: %w", err)
	}
	if r.handle.SharedDRAManager().ResourceClaims().GetPendingAllocation("of-one") != nil {
		return errors.New("the claim of the first pod is in flight")
	}
	return nil
}

// holdersOf are the claims that have a device, according to the API server.
func (r *rig) holdersOf(device string) []string {
	r.t.Helper()
	list, err := r.client.ResourceV1().ResourceClaims("default").List(r.ctx, metav1.ListOptions{})
	r.must(err)
	var holders []string
	for i := range list.Items {
		if slices.Contains(devicesOf(&list.Items[i]), device) {
			holders = append(holders, list.Items[i].Name)
		}
	}
	return holders
}

// A claim for extended resources that was created without an answer holds no devices. It is deleted
// before the next attempt, which gets them.
func TestUnansweredCreation(t *testing.T) {
	pod := podAsking("p", asking("main", 1))
	w := newWorld(t, setting{objects: []runtime.Object{node("a"), gpuClass(), gpus("a", 1), pod}})
	var begun atomic.Bool
	w.client.PrependReactor("create", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if !begun.CompareAndSwap(false, true) {
			return false, nil, nil
		}
		claim := action.(clienttesting.CreateAction).GetObject().(*resourceapi.ResourceClaim).DeepCopy()
		claim.Name, claim.UID, claim.ResourceVersion = "p-extended-resources-lost", "lost", "1000"
		if err := w.client.Tracker().Create(action.GetResource(), claim, claim.Namespace); err != nil {
			return true, nil, err
		}
		return true, nil, apierrors.NewTimeoutError("injected", 0)
	})
	a := w.attempt(pod)
	if _, status := a.place(); status.IsSuccess() {
		t.Fatal("the first attempt succeeds")
	}
	w.plugin.Unreserve(w.ctx, a.state, pod, "a")
	w.settle()
	if got := devicesOf(w.claim("p-extended-resources-lost")); len(got) != 0 {
		t.Errorf("the claim that was lost holds %v", got)
	}
	a = w.attempt(pod)
	if _, status := a.place(); !status.IsRejected() {
		t.Fatalf("the second attempt: %v", status)
	}
	if _, status := w.plugin.PostFilter(w.ctx, a.state, pod, nil); !status.IsRejected() {
		t.Fatalf("PostFilter: %v", status)
	}
	w.settle()
	if _, status := w.attempt(pod).place(); !status.IsSuccess() {
		t.Fatalf("the third attempt: %v", status)
	}
	list, err := w.client.ResourceV1().ResourceClaims("default").List(w.ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || !slices.Equal(devicesOf(&list.Items[0]), []string{"a/gpu-0"}) {
		t.Errorf("claims %+v, error %v", list.Items, err)
	}
}
