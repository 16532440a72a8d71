// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

// attached has devices that have to be attached before a pod is bound.
func attached(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].BindingConditions = []string{"attached"}
		slice.Spec.Devices[i].BindingFailureConditions = []string{"broken"}
	}
	return slice
}

// report sets a condition of the first device of a claim, as a driver would.
func (w *world) report(name, condition string) {
	w.t.Helper()
	claim := w.claim(name)
	result := claim.Status.Allocation.Devices.Results[0]
	claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
		Driver: result.Driver, Pool: result.Pool, Device: result.Device,
		Conditions: []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue, Reason: "Reported"}},
	}}
	if _, err := w.client.ResourceV1().ResourceClaims("default").UpdateStatus(w.ctx, claim, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// bindWhile runs PreBind while something happens to the claim.
func bindWhile(w *world, a *attempt, meanwhile func()) *fwk.Status {
	w.t.Helper()
	_, status := a.reserve()
	expect(w.t, status, fwk.Success, "")
	done := make(chan *fwk.Status)
	go func() { done <- w.plugin.PreBind(w.ctx, a.state, a.pod, "a") }()
	if note := <-w.events; !strings.Contains(note, "waiting for binding conditions for device on node a") {
		w.t.Errorf("event %q", note)
	}
	meanwhile()
	return <-done
}

func TestPreBindWaitsForDevices(t *testing.T) {
	objects := func() []runtime.Object {
		return []runtime.Object{node("a"), gpuClass(), attached(gpus("a", 1)), gpuClaim("wanted", 1)}
	}
	w := newWorld(t, setting{objects: objects()})
	status := bindWhile(w, w.attempt(podWith("p", "wanted")), func() { w.report("wanted", "attached") })
	expect(t, status, fwk.Success, "")

	w = newWorld(t, setting{objects: objects()})
	status = bindWhile(w, w.attempt(podWith("p", "wanted")), func() { w.report("wanted", "broken") })
	if status.Code() != fwk.Error || !strings.Contains(status.Message(), "device binding failed") || !strings.Contains(status.Message(), "not attached") {
		t.Errorf("status after a failure: %v", status)
	}

	w = newWorld(t, setting{objects: objects(), args: "bindingTimeout: 1s"})
	status = bindWhile(w, w.attempt(podWith("p", "wanted")), func() {})
	if status.Code() != fwk.Error || !strings.Contains(status.Message(), "device binding timeout") {
		t.Errorf("status after the timeout: %v", status)
	}
}

// A claim with devices that failed or took too long is given up if the pod alone has it.
func TestUnusableClaimsAreDeallocated(t *testing.T) {
	pod := podWith("p", "wanted")
	claim := func(condition string) *resourceapi.ResourceClaim {
		c := reservedBy(held(gpuClaim("wanted", 1), "a", "gpu-0"), pod)
		c.Status.Allocation.AllocationTimestamp = ptr.To(metav1.NewTime(time.Now().Add(-time.Hour)))
		result := &c.Status.Allocation.Devices.Results[0]
		result.BindingConditions, result.BindingFailureConditions = []string{"attached"}, []string{"broken"}
		if condition != "" {
			c.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
				Driver: result.Driver, Pool: result.Pool, Device: result.Device,
				Conditions: []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue, Reason: "Reported"}},
			}}
		}
		return c
	}
	shared := claim("broken")
	reservedBy(shared, podWith("other"))
	elsewhere := reservedBy(held(gpuClaim("wanted", 1), "b", "gpu-0"), pod)
	for name, test := range map[string]struct {
		claim  *resourceapi.ResourceClaim
		reason string
		gone   bool
	}{
		"ready":         {claim("attached"), "", false},
		"failed":        {claim("broken"), "resource claim default/wanted has devices that failed to get ready: device binding failed: claim=wanted, reason=Reported, message=\"\"", true},
		"late":          {claim(""), "resource claim default/wanted has devices that did not get ready in time", true},
		"shared":        {shared, "resource claim default/wanted has devices that failed to get ready: device binding failed: claim=wanted, reason=Reported, message=\"\"", false},
		"on other node": {elsewhere, "resource claim default/wanted is allocated on other nodes", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setting{objects: []runtime.Object{node("a"), gpuClass(), gpus("a", 1), test.claim}})
			a := w.attempt(pod)
			expect(t, a.preFilter(), fwk.Success, "")
			if test.reason == "" {
				expect(t, a.filter(0), fwk.Success, "")
				return
			}
			expect(t, a.filter(0), fwk.UnschedulableAndUnresolvable, test.reason)
			_, status := w.plugin.PostFilter(w.ctx, a.state, a.pod, nil)
			if !status.IsRejected() {
				t.Errorf("PostFilter: %v", status)
			}
			left := w.claim("wanted")
			if gone := left.Status.Allocation == nil; gone != test.gone || gone && len(left.Status.ReservedFor)+len(left.Status.Devices) > 0 {
				t.Errorf("deallocated: %v, want %v: %+v", gone, test.gone, left.Status)
			}
		})
	}
}

// The time of an allocation cannot be added to one that somebody else made without.
func TestAllocationTimeIsLeftAlone(t *testing.T) {
	w := newWorld(t, setting{objects: []runtime.Object{node("a"), gpuClass(), attached(gpus("a", 1)), held(gpuClaim("wanted", 1), "a", "gpu-0")}})
	_, status := w.attempt(podWith("p", "wanted")).place()
	expect(t, status, fwk.Success, "")
	claim := w.claim("wanted")
	if len(claim.Status.ReservedFor) != 1 || claim.Status.Allocation.AllocationTimestamp != nil {
		t.Errorf("the claim is reserved for %d pods, allocated at %v", len(claim.Status.ReservedFor), claim.Status.Allocation.AllocationTimestamp)
	}
}
