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

// Hints has the queueing hints for pods that were rejected for lack of devices. It is safe for concurrent
// use: the scheduling queue calls it under its locks.
type Hints struct {
	Source  claimstate.Source
	Pods    claimstate.Index
	Endings *refusal.Endings
	// Slices reports whether node labels decide about devices, and whether a pool has slices of an older generation.
	Slices *Slices
	// Changed is Model.Changed. It gets changes of claims before a pod is tried again.
	Changed func(claim any, deleted bool)
	// lastNoted is the claim of the last event.
	lastNoted atomic.Pointer[resourceapi.ResourceClaim]
}

// Events lists the events that may make a pod schedulable, with their hints.
func (h *Hints) Events() []fwk.ClusterEventWithHint {
	return []fwk.ClusterEventWithHint{
		// Slices select nodes by label, device plugins set allocatable extended resources, and some devices
		// need a feature of the node.
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
		// The status of a pod names its claims from templates.
		{
			Event:          fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodGeneratedResourceClaim},
			QueueingHintFn: h.afterPodUpdate,
		},
		// The scheduler's index of extended resources also gets its updates through this registration.
		{Event: fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Add | fwk.Update}},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.ResourceSlice, ActionType: fwk.Add | fwk.Update | fwk.Delete},
			QueueingHintFn: h.afterSliceEvent,
		},
	}
}

// afterPodEvent is the queueing hint for a pod that was bound to a node, left it, or could not be bound.
// Devices come free with claims, which is another event, with some exceptions. Devices that were only
// reserved, or set aside for a pod that went elsewhere, come free without. A pod of lower priority can be
// preempted for its devices once it is bound. And while DefaultPreemption evicts victims, the queue holds
// back the preemptor: then it accepts no other event than this one.
func (h *Hints) afterPodEvent(logger klog.Logger, pod *corev1.Pod, oldObject, newObject any) (fwk.QueueingHint, error) {
	left, arrived, err := schedutil.As[*corev1.Pod](oldObject, newObject)
	if err != nil {
		return fwk.Queue, fmt.Errorf("event of a pod: %w", err)
	}
	hint := fwk.QueueSkip
	switch last, _ := h.Endings.Of(pod.UID); {
	case arrived != nil:
		lower := last.LowerInFlight && priority.PodPriority(arrived) < priority.PodPriority(pod)
		if (last.DevicesSetAside || lower) && claimstate.HoldsClaims(arrived) {
			hint = fwk.Queue
		}
	case left == nil:
	case last.NodeResourceShort: // the resources that the pod used are free
		hint = fwk.Queue
	case mayBeVictimOf(pod, left) && claimstate.HoldsClaims(left) || h.neverBound(left):
		hint = fwk.Queue
	}
	if logger := logger.V(5); logger.Enabled() {
		logger.Info("Pod arrived at a node, or left it", "pod", klog.KObj(pod), "hint", hint)
	}
	return hint, nil
}

// afterNodeEvent is the queueing hint for a node that was added or changed.
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
	// Only an existing allocation can depend on labels.
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

// afterSliceEvent is the queueing hint for a slice that was added, updated or deleted. A deletion helps in
// three cases. Claims want all devices. The slice made others unusable. Or slices of an older generation
// count again.
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

// neverBound reports whether the devices that were reserved for a pod came free without an allocated claim.
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

// afterPodUpdate is the queueing hint for a pod whose claims were generated: Queue if all of them exist.
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
