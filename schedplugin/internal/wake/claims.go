// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package wake

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/dray-project/dray/schedplugin/internal/claimstate"
)

// afterClaimEvent is the queueing hint for a claim that was added, updated or deleted. When in doubt, it
// returns Queue.
func (h *Hints) afterClaimEvent(logger klog.Logger, pod *corev1.Pod, oldObject, newObject any) (fwk.QueueingHint, error) {
	if _, unknown := oldObject.(cache.DeletedFinalStateUnknown); unknown && newObject == nil {
		return fwk.Queue, nil
	}
	h.noteChange(oldObject, newObject)
	before, after, err := schedutil.As[*resourceapi.ResourceClaim](oldObject, newObject)
	if err != nil {
		return fwk.Queue, fmt.Errorf("event of a resource claim: %w", err)
	}
	hint, why := h.judgeClaimEvent(pod, before, after)
	if logger := logger.V(5); logger.Enabled() {
		logger.Info("ResourceClaim changed", "pod", klog.KObj(pod), "hint", hint, "reason", why)
	}
	return hint, nil
}

// noteChange passes the event to the model at once. The model's own handler may get it later than the queue.
// Then the pod could be rejected again with the old state, and no other event would come. One event leads to
// one call for each waiting pod.
func (h *Hints) noteChange(oldObject, newObject any) {
	if newObject == nil {
		h.Changed(oldObject, true)
		return
	}
	if claim, ok := newObject.(*resourceapi.ResourceClaim); ok && h.lastNoted.Swap(claim) != claim {
		h.Changed(claim, false)
	}
}

// judgeClaimEvent returns the hint with its reason. It is called for each waiting pod and event, and mostly
// the claim is not the pod's.
func (h *Hints) judgeClaimEvent(pod *corev1.Pod, before, after *resourceapi.ResourceClaim) (fwk.QueueingHint, string) {
	if after == nil {
		switch {
		case before.Status.Allocation != nil:
		case claimstate.MadeFor(before, pod):
			return fwk.Queue, "the pod's claim for extended resources was deleted"
		default:
			return fwk.QueueSkip, "deleted, and held no devices"
		}
		return fwk.Queue, "deleted, and held devices"
	}
	if last, _ := h.Endings.Of(pod.UID); last.DeviceUseHelps && gotDevices(before, after) {
		return fwk.Queue, "what could not be judged may be in use now"
	}
	free := before != nil && claimstate.Freed(before, after)
	if !free && !claimstate.RefersTo(pod, after) {
		return fwk.QueueSkip, "it is not the pod's"
	}
	claims, err := h.Source.Resolve(pod)
	if err != nil {
		return fwk.QueueSkip, "the pod still has to wait: " + err.Error()
	}
	switch {
	case free:
		return fwk.Queue, "devices came free"
	case !slices.ContainsFunc(claims, func(own *claimstate.Claim) bool { return own.Object.UID == after.UID }):
		return fwk.QueueSkip, "it is not the pod's"
	case before == nil:
		return fwk.Queue, "the pod's claim was created"
	case equality.Semantic.DeepEqual(&before.Status, &after.Status):
		// Only the metadata changed. The spec is immutable.
		return fwk.QueueSkip, "its status did not change"
	}
	return fwk.Queue, "the status of the pod's claim changed"
}

// gotDevices reports whether an event is that a claim was allocated.
func gotDevices(before, after *resourceapi.ResourceClaim) bool {
	return after.Status.Allocation != nil && (before == nil || before.Status.Allocation == nil)
}

// podsConcernedByClaim is the pre-queueing hint: it lists the pods for which the hint has to be called. These
// are all pods if devices came free, else those that refer to the claim. If the claim was allocated, those
// with DeviceUseHelps are added.
func (h *Hints) podsConcernedByClaim(_ klog.Logger, oldObject, newObject any) (fwk.PreQueueingHintResult, error) {
	h.noteChange(oldObject, newObject)
	before, _ := oldObject.(*resourceapi.ResourceClaim)
	after, _ := newObject.(*resourceapi.ResourceClaim)
	claim := after
	switch {
	case before == nil && after == nil:
		// The informer missed the deletion, or the object is of another type: anything may have changed.
		return fwk.PreQueueingHintResult{AllPods: true}, nil
	case after == nil:
		claim = before
		if before.Status.Allocation != nil {
			return fwk.PreQueueingHintResult{AllPods: true}, nil
		}
	case before != nil && claimstate.Freed(before, after):
		return fwk.PreQueueingHintResult{AllPods: true}, nil
	}
	pods, err := h.Pods.Of(claim)
	if owner := metav1.GetControllerOfNoCopy(claim); owner != nil && claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" {
		// The pod's status may not name the claim yet.
		pods = append(pods, types.NamespacedName{Namespace: claim.Namespace, Name: owner.Name})
	}
	if after != nil && gotDevices(before, after) {
		pods = append(pods, h.Endings.PodsHelpedByUse(h.Pods.Waits)...)
	}
	return fwk.PreQueueingHintResult{Pods: pods}, err
}
