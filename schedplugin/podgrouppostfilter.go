// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/schedplugin/internal/claimstate"
)

// PodGroupPostFilter gives up claims for a group that could not be placed: for each of its
// pods what PostFilter would, and if that is not enough, one claim of the group itself. It keeps the next
// plugins from preempting pods as PostFilter does.
func (p *Plugin) PodGroupPostFilter(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	if !p.enabled() {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "podGroup", klog.KRef(group.GetNamespace(), group.GetName()))
	ctx = klog.NewContext(ctx, logger)
	cycles, err := readGroupCycle(state)
	if err != nil {
		return nil, failed(logger, err)
	}
	if cycles != nil && cycles.wrong != nil {
		p.tellWrong(ctx, cycles.wrong)
		return nil, unresolvable(logger, cycles.wrong.why)
	}
	givesUp := p.canGiveUpFor(group)
	if givesUp {
		if nodes := p.awaited(ctx, cycles, group.GetUnscheduledPods()); nodes != nil {
			logger.V(5).Info("The group waits for the devices of pods that were preempted")
			// This ends PostFilter, so that nobody else is preempted.
			return nominate(group.GetUnscheduledPods(), nodes), fwk.NewStatus(fwk.Success, waitsForVictims)
		}
	}
	outlook := ""
	if givesUp {
		var nominated *fwk.PodGroupPostFilterResult
		if nominated, outlook = p.planFor(ctx, cycles, group, schedule); nominated != nil {
			return nominated, fwk.NewStatus(fwk.Success, outlook)
		}
	}
	if cycles != nil && cycles.undecided.Load() {
		p.explainFor(ctx, cycles, group, outlook)
		return nil, unresolvable(logger, withOutlook(undecided, outlook))
	}
	if !givesUp {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	p.explainFor(ctx, cycles, group, outlook)
	settled, err := p.giveUpForPods(ctx, cycles, group.GetUnscheduledPods())
	if err != nil {
		return nil, failed(logger, err)
	}
	if !settled && p.features.EnableDRAWorkloadResourceClaims {
		gaveUp, err := p.giveUpForGroup(ctx, cycles, group.GetUnscheduledPods()[0])
		if err != nil {
			return nil, failed(logger, err)
		}
		if gaveUp != "" {
			return nil, fwk.NewStatus(fwk.Unschedulable, gaveUp)
		}
	}
	if outlook != "" && !settled && !p.mayPreempt(group) {
		return nil, unresolvable(logger, outlook) // a later plugin would have the last word
	}
	if outlook != "" {
		return nil, fwk.NewStatus(fwk.Unschedulable, outlook)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable, "deallocation and deletion of ResourceClaims completed")
}

// withOutlook adds how many pods get devices together, if that is known.
func withOutlook(reason, outlook string) string {
	if outlook == "" {
		return reason
	}
	return reason + "; " + outlook
}

// mayPreempt reports whether there is a pod of lower priority than the group or one of its pods, on whichever node: the last attempt may
// have been about some of the nodes only. If there is none, preemption finds no victims.
func (p *Plugin) mayPreempt(group fwk.PodGroupInfo) bool {
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return true
	}
	highest := ptr.Deref(group.GetPodGroup().Spec.Priority, 0)
	for _, pod := range group.GetUnscheduledPods() {
		highest = max(highest, ptr.Deref(pod.Spec.Priority, 0))
	}
	for _, nodeInfo := range nodes {
		for _, other := range nodeInfo.GetPods() {
			pod := other.GetPod()
			priority := ptr.Deref(pod.Spec.Priority, 0)
			if name, grouped := groupName(pod); grouped { // the group is preempted as a whole
				object, err := p.handle.SnapshotSharedLister().PodGroups().Get(name.Namespace, name.Name)
				if err != nil {
					return true
				}
				priority = min(priority, ptr.Deref(object.Spec.Priority, 0))
			}
			if priority < highest {
				return true
			}
		}
	}
	return false
}

// explainFor says why the first pod of a group that does not get devices does not, and how many pods get them together. The framework
// drops what PodGroupPostFilter says of that as soon as a later plugin knows that preemption does not help.
func (p *Plugin) explainFor(ctx context.Context, cycles *groupCycle, group fwk.PodGroupInfo, outlook string) {
	if cycles == nil || group.GetPodGroup() == nil {
		return
	}
	explained := false
	for _, pod := range group.GetUnscheduledPods() {
		c := cycles.of(pod)
		if c == nil || len(c.refusals.List()) == 0 {
			continue
		}
		p.conclude(ctx, c, pod)
		if !explained {
			p.explainGroup(ctx, c, group.GetPodGroup(), outlook)
		}
		explained = true
	}
}

// canGiveUpFor is false where several placements were tried for the group: what one pod
// found out then does not hold for all of them.
func (p *Plugin) canGiveUpFor(group fwk.PodGroupInfo) bool {
	if group.GetType() == fwk.CompositePodGroupKeyType {
		return false
	}
	return !p.features.EnableTopologyAwareWorkloadScheduling ||
		group.GetPodGroup() == nil || group.GetPodGroup().Spec.SchedulingConstraints == nil
}

// giveUpForPods reports whether there was something to give up for each pod.
func (p *Plugin) giveUpForPods(ctx context.Context, cycles *groupCycle, pods []*corev1.Pod) (bool, error) {
	settled := true
	if cycles == nil {
		return settled, nil
	}
	for _, pod := range pods {
		c := cycles.of(pod)
		if c == nil {
			continue
		}
		gaveUp, err := p.giveUp(ctx, c, pod.UID)
		if err != nil {
			return false, err
		}
		settled = settled && gaveUp != ""
	}
	return settled, nil
}

// giveUpForGroup deallocates a claim of the group that was of no use on some node, or else
// removes the group from the consumers of one. It does nothing while pods of the group run:
// they need the claims.
func (p *Plugin) giveUpForGroup(ctx context.Context, cycles *groupCycle, pod *corev1.Pod) (string, error) {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return "", nil
	}
	live, err := p.handle.PodGroupManager().PodGroupStates().Get(pod.Namespace, *pod.Spec.SchedulingGroup.PodGroupName)
	if err != nil || live.ScheduledPodsCount() > 0 {
		return "", err
	}
	group, err := p.podGroup(pod)
	if err != nil || group == nil {
		return "", err
	}
	for _, c := range cycles.pods {
		for _, claim := range c.useless() {
			if claimstate.OnlyFor(claim.Object, group.UID) {
				return "deallocation of PodGroup ResourceClaim completed", p.writer.Deallocate(ctx, claim.Object)
			}
		}
	}
	return p.unreserveGroup(ctx, group, pod)
}

func (p *Plugin) unreserveGroup(ctx context.Context, group *schedulingapi.PodGroup, pod *corev1.Pod) (string, error) {
	for i := range group.Spec.ResourceClaims {
		name, owned, err := resourceclaim.NameFromPodGroup(group, &group.Spec.ResourceClaims[i])
		if err != nil {
			return "", err
		}
		if name == nil {
			continue
		}
		claim, err := p.dra.ResourceClaims().Get(group.Namespace, *name)
		if err != nil {
			return "", err
		}
		if owned && resourceclaim.IsForPodGroup(group, claim) != nil || claim.Status.Allocation == nil || !p.source.ReservedFor(pod, claim) {
			continue
		}
		if p.writer.Unreserve(ctx, claim, group.UID) {
			return "ResourceClaim unreserved for PodGroup", nil
		}
	}
	return "", nil
}
