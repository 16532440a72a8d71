// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/schedplugin/config"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/podgroup"
	"github.com/dray-project/dray/schedplugin/internal/preempt"
)

// PodGroupPostFilter deallocates claims of a group that could not be placed: for each pod one, as PostFilter
// does. If some pods have none, it deallocates one claim of the group itself. It keeps the next plugins from
// preempting pods as PostFilter does.
func (p *Plugin) PodGroupPostFilter(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	if !p.enabled() {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "podGroup", klog.KRef(group.GetNamespace(), group.GetName()))
	ctx = klog.NewContext(ctx, logger)
	groupCycle, err := podgroup.Of(state)
	if err != nil {
		return nil, failed(logger, err)
	}
	if invalid, why := groupCycle.Invalid(); invalid != nil {
		if p.args.Explain != config.ExplainReasons {
			p.event(ctx, invalid, corev1.EventTypeWarning, "InvalidConstraint", "%s", why)
		}
		return nil, unresolvable(logger, why)
	}
	if group.GetType() == fwk.CompositePodGroupKeyType {
		return p.postFilterComposite(ctx, state, group, schedule)
	}
	if nominated := p.groups.Await(ctx, groupCycle, group.GetUnscheduledPods()); nominated != nil {
		logger.V(5).Info("The group waits for the devices of pods that were preempted")
		// Success ends PostFilter: no other plugin evicts pods.
		return nominated, fwk.NewStatus(fwk.Success, preempt.Waits)
	}
	nominated, outlook := p.groups.Replan(ctx, groupCycle, group, schedule)
	if nominated != nil {
		return nominated, fwk.NewStatus(fwk.Success, outlook)
	}
	p.explainGroup(ctx, groupCycle, group, outlook)
	if groupCycle.Undecided() {
		return nil, unresolvable(logger, withOutlook(undecidedReason, outlook))
	}
	said, enough, err := p.deallocateFor(ctx, groupCycle, group)
	switch {
	case err != nil:
		return nil, failed(logger, err)
	case enough:
		return nil, fwk.NewStatus(fwk.Unschedulable, withOutlook(said, outlook))
	case outlook != "":
		return p.postFilterOthers(ctx, state, group, schedule, outlook)
	case said != "":
		return nil, fwk.NewStatus(fwk.Unschedulable, said)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// deallocateFor deallocates claims for a group, and returns a message. Enough is set if it found a claim for each pod, or
// one of the group. For a group with topology constraints it does nothing, as the in-tree plugin: what a pod found out in
// one placement does not hold for all.
func (p *Plugin) deallocateFor(ctx context.Context, groupCycle *podgroup.Cycle, group fwk.PodGroupInfo) (said string, enough bool, err error) {
	if p.features.EnableTopologyAwareWorkloadScheduling && group.GetPodGroup() != nil && group.GetPodGroup().Spec.SchedulingConstraints != nil {
		return "", false, nil
	}
	const completed = "deallocation and deletion of ResourceClaims completed"
	enough, err = p.deallocateForPods(ctx, groupCycle, group.GetUnscheduledPods())
	if err != nil || enough || !p.features.EnableDRAWorkloadResourceClaims {
		return completed, enough, err
	}
	if said, err = p.deallocateForGroup(ctx, groupCycle, group.GetUnscheduledPods()); said == "" {
		return completed, false, err
	}
	return said, true, err
}

// withOutlook appends how many pods get devices together, if that is known.
func withOutlook(reason, outlook string) string {
	if outlook == "" {
		return reason
	}
	return reason + "; " + outlook
}

// postFilterOthers calls the plugins after this one, as the framework would, and adds the reason to theirs. The framework itself drops
// earlier reasons once a plugin returns UnschedulableAndUnresolvable, as DefaultPreemption does without victims.
func (p *Plugin) postFilterOthers(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc, reason string) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	others := p.podGroupPostFiltersAfter()
	if len(others) == 0 {
		return nil, fwk.NewStatus(fwk.Unschedulable, reason)
	}
	reasons := []string{reason}
	for _, other := range others {
		result, status := other.PodGroupPostFilter(ctx, state, group, schedule)
		switch status.Code() {
		case fwk.Success:
			return result, status
		case fwk.Unschedulable:
			reasons = append(reasons, status.Reasons()...)
		case fwk.UnschedulableAndUnresolvable:
			return result, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, append(reasons, status.Reasons()...)...)
		default:
			return nil, fwk.AsStatus(fmt.Errorf("plugin %s: %w", other.Name(), status.AsError()))
		}
	}
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasons...) // with Unschedulable, the framework would call them again
}

// explainGroup records an Event with the reasons for the first pod without devices, and how many pods get
// devices together. The reasons of several placements are counted together.
func (p *Plugin) explainGroup(ctx context.Context, groupCycle *podgroup.Cycle, group fwk.PodGroupInfo, outlook string) {
	if groupCycle == nil || group.GetPodGroup() == nil {
		return
	}
	explained := false
	for _, pod := range group.GetUnscheduledPods() {
		c, refusals := cycleOfPod(groupCycle, pod), groupCycle.Refusals(pod)
		if c == nil || len(refusals) == 0 && !c.undecided.Load() {
			continue
		}
		p.recordAttempt(ctx, c, pod, refusals)
		if !explained && len(refusals) > 0 {
			p.explain(ctx, group.GetPodGroup(), refusals, outlook)
			explained = true
		}
	}
}

// cycleOfPod is the cycle state of a pod in the last attempt of its group, nil if the pod was not tried.
func cycleOfPod(group *podgroup.Cycle, pod *corev1.Pod) *cycle {
	if m := group.Member(pod); m != nil {
		return m.State.(*cycle)
	}
	return nil
}

// deallocateForPods deallocates one claim for each pod. It reports whether there was one for each.
func (p *Plugin) deallocateForPods(ctx context.Context, groupCycle *podgroup.Cycle, pods []*corev1.Pod) (bool, error) {
	enough := true
	for _, pod := range pods {
		c := cycleOfPod(groupCycle, pod)
		if c == nil {
			continue
		}
		said, err := p.deallocateOne(ctx, c, pod.UID)
		if err != nil {
			return false, err
		}
		enough = enough && said != ""
	}
	return enough, nil
}

// deallocateForGroup deallocates a claim of the group that was unusable on some node, or else removes the
// group from the consumers of a claim. It does nothing while pods of the group run: they need the claims.
func (p *Plugin) deallocateForGroup(ctx context.Context, groupCycle *podgroup.Cycle, pods []*corev1.Pod) (string, error) {
	pod := pods[0]
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
	for _, pod := range pods {
		c := cycleOfPod(groupCycle, pod)
		if c == nil {
			continue
		}
		for _, claim := range c.unusable() {
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

// postFilterComposite plans each group of a composite group from now on, and tries these plans. Like the in-tree plugin, it deallocates no claims.
func (p *Plugin) postFilterComposite(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	planned, gangs := p.groups.PlanEach(ctx, group, schedule)
	if planned != nil {
		return planned, fwk.NewStatus(fwk.Success, podgroup.WasPlanned)
	}
	open := false
	for _, gang := range gangs {
		p.explainGroup(ctx, gang.Cycle, gang.Group, gang.Cycle.Outlook())
		open = open || gang.Cycle.Undecided()
	}
	said, known := podgroup.Outlooks(gangs)
	switch {
	case open:
		return nil, unresolvable(klog.FromContext(ctx), withOutlook(undecidedReason, said))
	case !known:
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	return p.postFilterOthers(ctx, state, group, schedule, said)
}
