// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

// A pod waits while a claim is missing, going, or not its own, and is not even queued.
func TestPodsWaitForClaims(t *testing.T) {
	deleted := gpuClaim("deleted", 1)
	deleted.DeletionTimestamp, deleted.Finalizers = &metav1.Time{}, []string{"x"}
	foreign, ofAnother := fromTemplate("foreign", 1)
	ofAnother.OwnerReferences[0].UID = "another"
	ungenerated := podWith("p")
	ungenerated.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: ptr.To("gpus")}}
	w := newWorld(t, setting{objects: []runtime.Object{gpuClass(), deleted, ofAnother, gpuClaim("there", 1)}})
	for pod, want := range map[*corev1.Pod]string{
		podWith("p", "there"):            "",
		podWith("p", "there", "missing"): "could not find v1.ResourceClaim \"default/missing\"",
		podWith("p", "deleted"):          `resourceclaim "deleted" is being deleted`,
		foreign:                          "ResourceClaim default/foreign-gpus was not created for Pod default/foreign (Pod is not owner)",
		ungenerated:                      `pod "default/p": ResourceClaim not created yet`,
	} {
		status, inCycle := w.plugin.PreEnqueue(w.ctx, pod), w.attempt(pod).preFilter()
		if status.Code() != inCycle.Code() || status.IsSuccess() != (want == "") {
			t.Errorf("%s: queued with %v, scheduled with %v", pod.Name, status, inCycle)
		}
		if want != "" && inCycle.Message() == "" {
			t.Errorf("%s: no reason is given", pod.Name)
		}
		if want != "" && status.Message() != inCycle.Message() {
			t.Errorf("%s: reasons differ: %q, %q", pod.Name, status.Message(), inCycle.Message())
		}
	}
	expect(t, w.attempt(podWith("p")).preFilter(), fwk.Skip, "")
}

// PreFilter rejects a pod that no node can help.
func TestPreFilterRejectsPods(t *testing.T) {
	full := held(gpuClaim("full", 1), "a", "gpu-0")
	for i := range resourceapi.ResourceClaimReservedForMaxSize {
		full.Status.ReservedFor = append(full.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{
			Resource: "pods", Name: "pod", UID: types.UID(fmt.Sprint("pod-", i)),
		})
	}
	classless := gpuClaim("classless", 1)
	classless.Spec.Devices.Requests[0].Exactly.DeviceClassName = "none"
	broken := selecting(gpuClaim("broken", 1))
	broken.Spec.Devices.Requests[0].Exactly.Selectors[0].CEL.Expression = "device."
	w := newWorld(t, setting{objects: []runtime.Object{node("a"), gpuClass(), gpus("a", 4), full, classless, broken}})
	expect(t, w.attempt(podWith("p", "full")).preFilter(), fwk.UnschedulableAndUnresolvable,
		"resource claim default/full is in use by as many pods as can share it")
	one := podWith("one", "full")
	one.UID = "pod-7"
	expect(t, w.attempt(one).preFilter(), fwk.Success, "")
	expect(t, w.attempt(podWith("p", "classless")).preFilter(), fwk.UnschedulableAndUnresolvable,
		`claim default/classless: request gpus: deviceClassName: deviceclass.resource.k8s.io "none" not found`)
	if _, status := w.attempt(podWith("p", "broken")).reserve(); status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("a selector that does not compile: %v", status)
	}
}

// Without the feature, and for pods that are only resized, the plugin returns Skip.
func TestNothingToDo(t *testing.T) {
	w := newWorld(t, setting{features: featuresWithout(t)})
	w.addNode(node("a"))
	a := w.attempt(podWith("p", "missing"))
	expect(t, w.plugin.PreEnqueue(w.ctx, a.pod), fwk.Success, "")
	expect(t, a.preFilter(), fwk.Skip, "")
	expect(t, a.filter(0), fwk.Success, "")
	expect(t, w.plugin.Reserve(w.ctx, a.state, a.pod, "a"), fwk.Success, "")
	w.plugin.Unreserve(w.ctx, a.state, a.pod, "a")
	expect(t, w.plugin.PreBind(w.ctx, a.state, a.pod, "a"), fwk.Success, "")
	_, status := w.plugin.PreBindPreFlight(w.ctx, a.state, a.pod, "a")
	expect(t, status, fwk.Skip, "")
	_, status = w.plugin.PostFilter(w.ctx, a.state, a.pod, nil)
	expect(t, status, fwk.Unschedulable, "")
	if events, err := w.plugin.EventsToRegister(w.ctx); err != nil || len(events) > 0 {
		t.Errorf("events %v, error %v", events, err)
	}

	features := everything
	features.EnableInPlacePodVerticalScalingSchedulerPreemption = true
	w = newWorld(t, setting{features: features, objects: []runtime.Object{node("a")}})
	a = w.attempt(podWith("p", "missing"))
	a.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred}}
	expect(t, a.preFilter(), fwk.Skip, "")
	expect(t, a.filter(0), fwk.Success, "")
	_, status = w.plugin.PostFilter(w.ctx, a.state, a.pod, nil)
	expect(t, status, fwk.Unschedulable, "")
}
