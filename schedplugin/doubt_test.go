// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
)

// outage is an API server that does not answer an update, and nothing that follows until it
// ends.
type outage struct {
	begun, ended atomic.Bool
	asked        chan struct{} // closed at the first request that follows
	once         sync.Once
	// made is what becomes of the update.
	made func(clienttesting.UpdateAction) error
}

func (o *outage) react(action clienttesting.Action) (bool, runtime.Object, error) {
	if o.ended.Load() || action.GetResource().Resource != "resourceclaims" {
		return false, nil, nil
	}
	if update, ok := action.(clienttesting.UpdateAction); ok && action.GetSubresource() == "status" && o.begun.CompareAndSwap(false, true) {
		if err := o.made(update); err != nil {
			return true, nil, err
		}
		return true, nil, apierrors.NewTimeoutError("injected", 0)
	}
	if !o.begun.Load() {
		return false, nil, nil
	}
	o.once.Do(func() { close(o.asked) })
	return true, nil, &url.Error{Op: "Get", URL: "claim", Err: io.EOF}
}

// An update may have been made although it was not answered. Until that is known its devices
// are in use, and the pod gets what was written.
func TestDevicesOfUnansweredUpdatesStayInUse(t *testing.T) {
	for name, made := range map[string]func(*world) func(clienttesting.UpdateAction) error{
		"made": func(w *world) func(clienttesting.UpdateAction) error {
			return func(update clienttesting.UpdateAction) error {
				claim := update.GetObject().(*resourceapi.ResourceClaim).DeepCopy()
				claim.ResourceVersion = "1000"
				return w.client.Tracker().Update(update.GetResource(), claim, claim.Namespace)
			}
		},
		"not made": func(*world) func(clienttesting.UpdateAction) error {
			return func(clienttesting.UpdateAction) error { return nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setting{objects: []runtime.Object{node("a"), gpuClass(), gpus("a", 1), gpuClaim("one", 1), gpuClaim("two", 1)}})
			o := &outage{asked: make(chan struct{}), made: made(w)}
			w.client.PrependReactor("*", "*", o.react)
			placed := make(chan *fwk.Status, 1)
			go func() {
				_, status := w.attempt(podWith("one", "one")).place()
				placed <- status
			}()
			<-o.asked
			if _, status := w.attempt(podWith("two", "two")).reserve(); !status.IsRejected() {
				t.Errorf("the second pod got the device: %v", status)
			}
			told := <-w.events
			if !strings.Contains(told, "ClaimNotWritten it is not known whether a claim was written, which is tried again: ") {
				t.Errorf("the Event says %q", told)
			}
			o.ended.Store(true)
			expect(t, <-placed, fwk.Success, "")
			if got, want := devicesOf(w.claim("one")), []string{"a/gpu-0"}; !slices.Equal(got, want) {
				t.Errorf("devices %v, want %v", got, want)
			}
			if got := len(w.claim("one").Status.ReservedFor); got != 1 {
				t.Errorf("reserved for %d, want 1", got)
			}
		})
	}
}

// Preemption cancels PreBind. A write that is not answered goes on nevertheless, and what it wrote is given back.
func TestPreemptedWhileUpdateIsUnanswered(t *testing.T) {
	w := newWorld(t, setting{objects: []runtime.Object{node("a"), gpuClass(), gpus("a", 1), gpuClaim("one", 1)}})
	o := &outage{asked: make(chan struct{}), made: func(update clienttesting.UpdateAction) error {
		return w.client.Tracker().Update(update.GetResource(), update.GetObject(), update.GetNamespace())
	}}
	w.client.PrependReactor("*", "*", o.react)
	a := w.attempt(podWith("one", "one"))
	_, status := a.reserve()
	expect(t, status, fwk.Success, "")
	ctx, cancel := context.WithCancelCause(w.ctx)
	done := make(chan *fwk.Status, 1)
	go func() { done <- w.plugin.PreBind(ctx, a.state, a.pod, "a") }()
	<-o.asked
	cancel(errors.New("preempted by DefaultPreemption"))
	select {
	case status := <-done:
		t.Errorf("PreBind ended while it was not known whether the claim was written: %v", status)
	case <-time.After(2 * time.Second):
		o.ended.Store(true)
		<-done
	}
	o.ended.Store(true)
	w.plugin.Unreserve(w.ctx, a.state, a.pod, "a")
	if status := w.claim("one").Status; status.Allocation != nil || len(status.ReservedFor) > 0 {
		t.Errorf("the claim was not given back: %+v", status)
	}
}
