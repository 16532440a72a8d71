// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package wake

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	priority "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/refusal"
)

// Hints decide which events make a pod worth another attempt that was rejected for want of
// devices. They are safe for concurrent use: the scheduling queue asks under its locks.
type Hints struct {
	Source  claimstate.Source
	Pods    claimstate.Index
	Endings *refusal.Endings
	// Slices tell whether labels of nodes matter, and what the end of a slice brings back.
	Slices *Slices
	// Changed is told of claims, or that they were deleted, before a pod is tried again.
	Changed func(claim any, deleted bool)
	// lastNoted is the claim that the last event was about.
	lastNoted atomic.Pointer[resourceapi.ResourceClaim]
}

// Events lists what may make a pod schedulable.
func (h *Hints) Events() []fwk.ClusterEventWithHint {
	return []fwk.ClusterEventWithHint{
		// Slices select nodes by label, device plugins register what pods ask for as
		// extended resources, and some devices need a feature of the node.
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel | fwk.UpdateNodeAllocatable | fwk.UpdateNodeDeclaredFeature},
			QueueingHintFn: h.afterNodeEvent,
		},
		{
			Event:             fwk.ClusterEvent{Resource: fwk.ResourceClaim, ActionType: fwk.Add | fwk.Update | fwk.Delete},
			QueueingHintFn:    h.afterClaimEvent,
			PreQueueingHintFn: h.podsConcernedByClaim,
		},
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add | fwk.Delete}, QueueingHintFn: h.afterPodEvent},
		// Claims made from templates get known by the status of the pod.
		{
			Event:          fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodGeneratedResourceClaim},
			QueueingHintFn: h.afterPodUpdate,
		},
		// Registering for classes is also what keeps the scheduler's index of extended
		// resources up to date.
		{Event: fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Add | fwk.Update}},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.ResourceSlice, ActionType: fwk.Add | fwk.Update | fwk.Delete},
			QueueingHintFn: h.afterSliceEvent,
		},
	}
}

// afterPodEvent decides whether a pod is worth another attempt after one got to a node, left
// it, or could not be bound to it. Devices come free when claims do, which is another event,
// with some exceptions. Devices that were only reserved come free without, and so do those
// that were set aside for a pod which went elsewhere. And a pod that preempts others is held
// back by DefaultPreemption until it has evicted them; meanwhile the queue lets no other
// event pass than this one.
func (h *Hints) afterPodEvent(logger klog.Logger, pod *corev1.Pod, oldObject, newObject any) (fwk.QueueingHint, error) {
	left, arrived, err := schedutil.As[*corev1.Pod](oldObject, newObject)
	if err != nil {
		return fwk.Queue, fmt.Errorf("event of a pod: %w", err)
	}
	hint := fwk.QueueSkip
	switch last, _ := h.Endings.Of(pod.UID); {
	case arrived != nil:
		if last.DevicesSetAside && claimstate.HoldsClaims(arrived) {
			hint = fwk.Queue
		}
	case left == nil:
	case last.NodeResourceShort: // what it took of its node is free
		hint = fwk.Queue
	case mayBeVictimOf(pod, left) && claimstate.HoldsClaims(left) || h.neverBound(left):
		hint = fwk.Queue
	}
	if logger := logger.V(5); logger.Enabled() {
		logger.Info("Pod arrived at a node, or left it", "pod", klog.KObj(pod), "hint", hint)
	}
	return hint, nil
}

// afterNodeEvent decides whether a pod is worth another attempt after a node was added or
// changed.
func (h *Hints) afterNodeEvent(_ klog.Logger, pod *corev1.Pod, oldObject, newObject any) (fwk.QueueingHint, error) {
	before, after, err := schedutil.As[*corev1.Node](oldObject, newObject)
	if err != nil {
		return fwk.Queue, fmt.Errorf("event of a node: %w", err)
	}
	last, _ := h.Endings.Of(pod.UID)
	switch {
	case before == nil || after == nil:
		return fwk.Queue, nil
	case !slices.Equal(before.Status.DeclaredFeatures, after.Status.DeclaredFeatures):
		return fwk.Queue, nil
	case (last.NodeResourceShort || h.Source.AsksForExtended(pod)) && !equality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable):
		return fwk.Queue, nil
	case maps.Equal(before.Labels, after.Labels):
		return fwk.QueueSkip, nil
	case !h.Slices.NodeLocal():
		return fwk.Queue, nil
	}
	// Only what is allocated already may be bound to labels.
	claims, err := h.Source.Resolve(pod)
	for _, claim := range claims {
		if claim.Object.Status.Allocation != nil {
			return fwk.Queue, nil
		}
	}
	if err != nil {
		return fwk.Queue, nil //nolint:nilerr // when in doubt
	}
	return fwk.QueueSkip, nil
}

// afterSliceEvent decides whether a pod is worth another attempt after a slice was added,
// updated or deleted. Without a slice there are fewer devices, which helps those who want
// all of them, and where one spoils others; or there are those of an older generation.
func (h *Hints) afterSliceEvent(_ klog.Logger, pod *corev1.Pod, oldObject, newObject any) (fwk.QueueingHint, error) {
	gone, ok := oldObject.(*resourceapi.ResourceSlice)
	if newObject != nil || !ok || h.Slices.HasOlderGeneration(gone) {
		return fwk.Queue, nil
	}
	if last, _ := h.Endings.Of(pod.UID); last.SliceRemovalHelps {
		return fwk.Queue, nil
	}
	claims, err := h.Source.Resolve(pod)
	if err != nil || claimstate.WantsAll(claims) {
		return fwk.Queue, nil //nolint:nilerr // when in doubt
	}
	return fwk.QueueSkip, nil
}

// mayBeVictimOf reports whether a pod may have been evicted for another one.
func mayBeVictimOf(preemptor, gone *corev1.Pod) bool {
	nominated := preemptor.Status.NominatedNodeName
	return nominated != "" && nominated == gone.Spec.NodeName ||
		preemption.PodTerminatingByPreemption(gone) && priority.PodPriority(gone) < priority.PodPriority(preemptor)
}

// neverBound reports whether devices that were reserved for a pod came free without getting
// into a claim.
func (h *Hints) neverBound(gone *corev1.Pod) bool {
	if gone.Status.Phase != corev1.PodPending && gone.Status.Phase != "" {
		return false
	}
	if gone.Status.ExtendedResourceClaimStatus == nil && h.Source.AsksForExtended(gone) {
		return true
	}
	for name := range resourceclaim.PodClaims(gone) {
		claim, err := h.Source.DRA.ResourceClaims().Get(gone.Namespace, name)
		if err != nil || claim.Status.Allocation == nil && h.Source.DRA.ResourceClaims().GetPendingAllocation(claim.UID) == nil {
			return true
		}
	}
	return false
}

// afterPodUpdate decides whether a pod has all the claims it was waiting for.
func (h *Hints) afterPodUpdate(logger klog.Logger, pod *corev1.Pod, _, newObject any) (fwk.QueueingHint, error) {
	_, updated, err := schedutil.As[*corev1.Pod](nil, newObject)
	if err != nil {
		return fwk.Queue, fmt.Errorf("event of a pod: %w", err)
	}
	if _, err := h.Source.Resolve(updated); err != nil {
		logger.V(5).Info("Pod still has to wait", "pod", klog.KObj(pod), "reason", err.Error())
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}
