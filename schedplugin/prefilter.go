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

// PreFilter collects the claims of a pod and what is known of devices at this moment. It
// rejects the pod if no node can help: a claim is missing, in use or being allocated for
// somebody else, or asks for what cannot be.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if !p.enabled() || p.resizing(pod) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod))
	if p.inTreeInUse() { // frameworks that are made one by one can have it added late
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

// AddPod implements PreFilterExtensions: it takes back that a pod was removed, or sets the
// devices aside that a pod will need which is nominated to the node.
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

// RemovePod implements PreFilterExtensions: the devices come free that the pod alone uses. It fails, which ends preemption,
// where the pod must not be taken off its node: the one that is being scheduled may fit without.
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

// resizing reports whether the pod runs already and only waits for more of what its node
// has, which devices are no part of.
func (p *Plugin) resizing(pod *corev1.Pod) bool {
	return p.features.EnableInPlacePodVerticalScalingSchedulerPreemption && resource.IsPodResizeDeferred(pod)
}

// collect returns the claims of a pod, that for extended resources last, and these resources. A status says why the pod has to wait.
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

// assignConsumers finds out which of the claims are those of the pod's group.
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

// assess finds out where a claim is allocated, or says why the pod has to wait for it.
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
		// Whether it will be allocated shows when it is: an event for this pod.
		return fmt.Sprintf("resource claim %s is in the process of being allocated", klog.KObj(object)), nil
	}
	claim.Pending = pending
	claim.Reach, err = claimstate.ReachOf(pending)
	return "", err
}

// prepare looks at the cluster, if there is anything to allocate or to account for, and compiles what is the
// same for all nodes.
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
		// No node can help, only another claim or class: events which this plugin is
		// registered for.
		return unresolvable(logger, c.withoutExtended.err.Error())
	}
	return nil
}
