// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/metrics"
	"github.com/dray-project/dray/schedplugin/internal/nodeallocatable"
	"github.com/dray-project/dray/schedplugin/internal/podgroup"
	"github.com/dray-project/dray/schedplugin/internal/preempt"
)

// PreFilter collects the claims of a pod and takes a snapshot of devices and what is in use. It rejects the
// pod if no node can help: a claim is missing, has as many consumers as it may have, is in flight for others,
// or cannot be compiled.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if !p.enabled() || p.resizing(pod) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod))
	if p.inTreeInUse() { // the in-tree plugin can be added later, where frameworks are created one by one
		return nil, failed(logger, errInTreePlugin)
	}
	c := newCycle()
	state.Write(stateKey, c)
	var err error
	if c.member, err = p.groups.Join(state, pod, c); err != nil {
		return nil, failed(logger, err)
	}
	if c.member != nil {
		c.undecided = c.member.Undecided()
	}
	var status *fwk.Status
	if c.claims, c.extended, status = p.collect(logger, pod, c.member.Cycle()); status != nil {
		return nil, status
	}
	c.budgetLevel, c.nodes = p.budgetLevel(pod.UID), nodes
	if c.hasNoClaims() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if status := p.prepare(ctx, logger, c, pod); status != nil {
		return nil, status
	}
	if reason, code := c.member.Plan(ctx, nodes); reason != "" {
		return nil, rejected(logger, code, reason)
	}
	if node := c.member.Node(); node != "" {
		return &fwk.PreFilterResult{NodeNames: sets.New(node)}, nil
	}
	return nil, nil
}

// PreFilterExtensions implements PreFilterPlugin.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod implements PreFilterExtensions. It restores the claims of a pod that RemovePod removed. For a pod
// that is nominated to the node, it sets aside the devices that this pod will need.
func (p *Plugin) AddPod(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, added fwk.PodInfo, nodeInfo fwk.NodeInfo) *fwk.Status {
	c, err := cycleOf(state)
	if err != nil {
		return failed(klog.FromContext(ctx), err)
	}
	if err := c.preemption.Add(p.withTimeout(ctx, c), added.GetPod(), nodeInfo, c.member.InPlanWith(added.GetPod())); err != nil {
		return failed(klog.FromContext(ctx), err)
	}
	return nil
}

// RemovePod implements PreFilterExtensions. It frees the devices of claims that only the removed pod uses. It returns an
// error, which ends preemption on the node, if the last search was given up: the pod may fit without evicting this one.
func (p *Plugin) RemovePod(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, removed fwk.PodInfo, nodeInfo fwk.NodeInfo) *fwk.Status {
	c, err := cycleOf(state)
	switch {
	case err != nil:
	case c.undecided.Load():
		err = preempt.ErrUndecided
	default:
		err = c.preemption.Remove(removed.GetPod(), nodeInfo)
	}
	if err != nil {
		return failed(klog.FromContext(ctx), err)
	}
	return nil
}

// resizing reports whether the pod is bound and only waits for an in-place resize. Devices are not part of a
// resize.
func (p *Plugin) resizing(pod *corev1.Pod) bool {
	return p.features.EnableInPlacePodVerticalScalingSchedulerPreemption && resource.IsPodResizeDeferred(pod)
}

// collect returns the claims of a pod, with the one for extended resources last, and the names of these resources. A status says why the pod has to wait.
func (p *Plugin) collect(logger klog.Logger, pod *corev1.Pod, group *podgroup.Cycle) (claims []*claimstate.Claim, extended []corev1.ResourceName, _ *fwk.Status) {
	claims, err := p.source.Resolve(pod)
	if err == nil {
		err = p.assignConsumers(pod, claims)
	}
	if err != nil {
		return nil, nil, unresolvable(logger, err.Error())
	}
	special, names, err := p.source.ExtendedClaim(pod)
	if err != nil {
		return nil, nil, failed(logger, err)
	}
	if special != nil {
		claims, extended = append(claims, special), names
	}
	for _, claim := range claims {
		if reason, err := p.assess(pod, claim, group); err != nil {
			return nil, nil, failed(logger, err, "resourceclaim", klog.KObj(claim.Object))
		} else if reason != "" {
			return nil, nil, unresolvable(logger, reason, "resourceclaim", klog.KObj(claim.Object))
		}
	}
	return claims, extended, nil
}

// assignConsumers sets the consumer of each claim: the pod, or its group.
func (p *Plugin) assignConsumers(pod *corev1.Pod, claims []*claimstate.Claim) error {
	group, err := p.podGroup(pod)
	if err != nil {
		return err
	}
	return p.source.AssignConsumers(pod, group, claims)
}

// podGroup returns the group of a pod, nil if it has none.
func (p *Plugin) podGroup(pod *corev1.Pod) (*schedulingapi.PodGroup, error) {
	if !p.features.EnableDRAWorkloadResourceClaims ||
		pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return nil, nil
	}
	return p.handle.SnapshotSharedLister().PodGroups().Get(pod.Namespace, *pod.Spec.SchedulingGroup.PodGroupName)
}

// assess sets the nodes on which an allocated claim is available, or returns why the pod has to wait for the claim.
func (p *Plugin) assess(pod *corev1.Pod, claim *claimstate.Claim, group *podgroup.Cycle) (reason string, err error) {
	object := claim.Object
	if object.Status.Allocation != nil {
		if claimstate.Full(object) && !p.source.ReservedFor(pod, object) {
			return fmt.Sprintf("resource claim %s is in use by as many pods as can share it", klog.KObj(object)), nil
		}
		claim.Reach, err = claimstate.ReachOf(object.Status.Allocation)
		return "", err
	}
	pending := p.dra.ResourceClaims().GetPendingAllocation(object.UID)
	switch {
	case pending == nil:
		return "", nil
	case !group.Shares(object.UID):
		// Once it is allocated, a claim event makes this pod active again.
		return fmt.Sprintf("resource claim %s is in the process of being allocated", klog.KObj(object)), nil
	}
	claim.Pending = pending
	claim.Reach, err = claimstate.ReachOf(pending)
	return "", err
}

// prepare observes devices and claims, if there is anything to allocate or to account for. It compiles the
// claims that are the same on all nodes.
func (p *Plugin) prepare(ctx context.Context, logger klog.Logger, c *cycle, pod *corev1.Pod) *fwk.Status {
	if c.withoutExtended = (&variant{}); len(c.unallocated()) == 0 && !p.features.EnableDRANodeAllocatableResources {
		return nil
	}
	start := time.Now()
	view, err := p.model.Observe()
	if err != nil {
		return failed(logger, err)
	}
	metrics.Observed(start, view.State.Snapshot().Len(), view.Claims)
	if p.features.EnableDRANodeAllocatableResources {
		c.devices = p.accounting.snapshotIfAny(view.State.Snapshot())
		c.accounts = sync.OnceValues(func() (*nodeallocatable.Accounts, *fwk.Status) { return p.openAccounts(ctx, c, pod) })
	}
	if len(c.unallocated()) == 0 {
		return nil
	}
	c.preemption, err = p.preemption.Begin(preempt.Preemptor{Pod: pod, Claims: c.claims, Nodes: c.nodes, Grouped: c.member != nil}, view)
	if err != nil {
		return failed(logger, err)
	}
	c.view = c.preemption.View()
	c.withoutExtended = p.compile(c, nil, nil)
	if c.withoutExtended.err != nil {
		// No node can help. Events of claims and classes, for which the plugin is registered, retry the pod.
		return unresolvable(logger, c.withoutExtended.err.Error())
	}
	return nil
}
