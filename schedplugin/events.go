package schedplugin

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"
	priority "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// EventsToRegister lists what may make a pod schedulable that this plugin rejected.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	if !p.enabled() {
		return nil, nil
	}
	return []fwk.ClusterEventWithHint{
		// Slices select nodes by label, and device plugins register what pods ask for as
		// extended resources.
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel | fwk.UpdateNodeAllocatable}},
		{
			Event:             fwk.ClusterEvent{Resource: fwk.ResourceClaim, ActionType: fwk.Add | fwk.Update | fwk.Delete},
			QueueingHintFn:    p.afterClaimEvent,
			PreQueueingHintFn: p.podsConcernedByClaim,
		},
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, QueueingHintFn: p.afterPodDelete},
		// Claims made from templates get known by the status of the pod.
		{
			Event:          fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodGeneratedResourceClaim},
			QueueingHintFn: p.afterPodUpdate,
		},
		// Registering for classes is also what keeps the scheduler's index of extended
		// resources up to date.
		{Event: fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Add | fwk.Update}},
		{Event: fwk.ClusterEvent{Resource: fwk.ResourceSlice, ActionType: fwk.Add | fwk.Update}},
	}, nil
}

// afterClaimEvent decides whether a pod is worth another attempt after a claim was added,
// updated or deleted. When in doubt, it is.
func (p *Plugin) afterClaimEvent(logger klog.Logger, pod *corev1.Pod, oldObject, newObject any) (fwk.QueueingHint, error) {
	if _, unknown := oldObject.(cache.DeletedFinalStateUnknown); unknown && newObject == nil {
		return fwk.Queue, nil
	}
	p.notice(oldObject, newObject)
	before, after, err := schedutil.As[*resourceapi.ResourceClaim](oldObject, newObject)
	if err != nil {
		return fwk.Queue, fmt.Errorf("event of a resource claim: %w", err)
	}
	hint, why := p.judgeClaimEvent(pod, before, after)
	if logger := logger.V(5); logger.Enabled() {
		logger.Info("Resource claim changed", "pod", klog.KObj(pod), "hint", hint, "reason", why)
	}
	return hint, nil
}

// notice has the next pod see what the event tells, even if the event gets here before it
// gets to where claims are followed. Else a pod that it makes schedulable could be rejected
// once more, with no other event to come. An event is told once for each pod that waits.
func (p *Plugin) notice(oldObject, newObject any) {
	if newObject == nil {
		p.model.Changed(oldObject, true)
		return
	}
	if claim, ok := newObject.(*resourceapi.ResourceClaim); ok && p.noticed.Swap(claim) != claim {
		p.model.Changed(claim, false)
	}
}

// judgeClaimEvent is called for each pod that waits, with each event. For most of them, it is
// somebody else's claim.
func (p *Plugin) judgeClaimEvent(pod *corev1.Pod, before, after *resourceapi.ResourceClaim) (fwk.QueueingHint, string) {
	if after == nil {
		if before.Status.Allocation == nil {
			return fwk.QueueSkip, "deleted, and held no devices"
		}
		return fwk.Queue, "deleted, and held devices"
	}
	free := before != nil && freed(before, after)
	if !free && !refersTo(pod, after) {
		return fwk.QueueSkip, "it is not the pod's"
	}
	claims, err := p.resolve(pod)
	if err != nil {
		return fwk.QueueSkip, "the pod still has to wait: " + err.Error()
	}
	switch {
	case free:
		return fwk.Queue, "devices came free"
	case !uses(claims, after):
		return fwk.QueueSkip, "it is not the pod's"
	case before == nil:
		return fwk.Queue, "the pod's claim was created"
	case equality.Semantic.DeepEqual(&before.Status, &after.Status):
		// Drivers and controllers change metadata. The spec is immutable.
		return fwk.QueueSkip, "its status did not change"
	}
	return fwk.Queue, "the status of the pod's claim changed"
}

func freed(before, after *resourceapi.ResourceClaim) bool {
	return before.Status.Allocation != nil && after.Status.Allocation == nil
}

func uses(claims []*podClaim, claim *resourceapi.ResourceClaim) bool {
	for _, c := range claims {
		if c.object.UID == claim.UID {
			return true
		}
	}
	return false
}

// afterPodDelete decides whether a pod is worth another attempt after one that was assigned to
// a node is gone, or could not be bound to it. Devices come free when claims do, which is
// another event, with two exceptions. Devices that were only reserved come free without.
// And a pod that preempts others is held back by DefaultPreemption until it has evicted
// them; meanwhile the queue lets no other event pass than this one.
func (p *Plugin) afterPodDelete(logger klog.Logger, pod *corev1.Pod, oldObject, newObject any) (fwk.QueueingHint, error) {
	deleted, _, err := schedutil.As[*corev1.Pod](oldObject, newObject)
	if err != nil {
		return fwk.Queue, fmt.Errorf("event of a pod: %w", err)
	}
	hint := fwk.QueueSkip
	if victimOf(pod, deleted) && holdsClaims(deleted) || p.neverBound(deleted) {
		hint = fwk.Queue
	}
	logger.V(5).Info("Pod left its node", "pod", klog.KObj(pod), "left", klog.KObj(deleted), "hint", hint)
	return hint, nil
}

// victimOf reports whether a pod may have been evicted for another one.
func victimOf(preemptor, gone *corev1.Pod) bool {
	nominated := preemptor.Status.NominatedNodeName
	return nominated != "" && nominated == gone.Spec.NodeName ||
		preemption.PodTerminatingByPreemption(gone) && priority.PodPriority(gone) < priority.PodPriority(preemptor)
}

// neverBound reports whether devices that were reserved for a pod came free without getting
// into a claim.
func (p *Plugin) neverBound(gone *corev1.Pod) bool {
	if gone.Status.Phase != corev1.PodPending && gone.Status.Phase != "" {
		return false
	}
	if gone.Status.ExtendedResourceClaimStatus == nil && p.features.EnableDRAExtendedResource && p.extends(gone) {
		return true
	}
	for _, name := range claimNames(gone) {
		claim, err := p.dra.ResourceClaims().Get(gone.Namespace, name)
		if err != nil || claim.Status.Allocation == nil && p.dra.ResourceClaims().GetPendingAllocation(claim.UID) == nil {
			return true
		}
	}
	return false
}

// afterPodUpdate decides whether a pod has all the claims it was waiting for.
func (p *Plugin) afterPodUpdate(logger klog.Logger, pod *corev1.Pod, _, newObject any) (fwk.QueueingHint, error) {
	_, updated, err := schedutil.As[*corev1.Pod](nil, newObject)
	if err != nil {
		return fwk.Queue, fmt.Errorf("event of a pod: %w", err)
	}
	if _, err := p.resolve(updated); err != nil {
		logger.V(5).Info("Pod still has to wait", "pod", klog.KObj(pod), "reason", err.Error())
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}
