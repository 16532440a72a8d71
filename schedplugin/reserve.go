// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/metrics"
	"github.com/dray-project/dray/schedplugin/internal/nodeallocatable"
	"github.com/dray-project/dray/schedplugin/internal/podgroup"
)

// Reserve allocates devices on the selected node. From now on the claims are in flight: their devices are in
// use for all other pods. PreBind writes them to the API server.
func (p *Plugin) Reserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod), "node", klog.KRef("", nodeName))
	c, err := cycleOf(state)
	if err != nil {
		return failed(logger, err)
	}
	if len(c.unallocated()) == 0 {
		c.member.Placed(nodeName)
		return nil
	}
	group, err := podgroup.Of(state.GetPodGroupSchedulingCycle())
	if err != nil {
		return failed(logger, err)
	}
	if group == nil {
		c.member.Forget() // Reserve outside of a group cycle is final: the group needs no plan any more
	}
	start := time.Now()
	if err := p.choose(ctx, c, nodeName); err != nil {
		metrics.NotChosen()
		return failed(logger, err)
	}
	metrics.Chosen(start)
	if err := c.accountedFor(c.feasible(nodeName)); err != nil {
		return failed(logger, err)
	}
	for _, claim := range c.unallocated() {
		if claim.Pending == nil {
			continue // a device plugin provides the extended resources on this node
		}
		if err := p.writer.SignalPending(claim); err != nil {
			return failed(logger, err)
		}
		group.Reserve(claim.Object.UID, pod.UID)
		logger.V(5).Info("Reserved devices", "resourceclaim", klog.KObj(claim.Object), "allocation", klog.Format(claim.Pending))
	}
	c.member.Placed(nodeName)
	return nil
}

// choose allocates devices on the node. Filter found some in the same snapshot, so there are enough.
func (p *Plugin) choose(ctx context.Context, c *cycle, nodeName string) error {
	feasible := c.feasible(nodeName)
	if feasible == nil {
		return fmt.Errorf("node %s was not found suitable before", nodeName)
	}
	missing, err := p.adoptShared(c, feasible)
	if err != nil {
		return err
	}
	if planned, all := c.member.Planned(missing, false); all {
		setPending(missing, planned, feasible.variant)
		return nil
	}
	var assignment *allocator.Assignment
	if slices.Equal(missing, feasible.variant.claims) {
		assignment, err = p.assign(ctx, c, feasible)
	} else {
		assignment, err = p.assignNow(ctx, c, feasible, missing)
	}
	if err != nil || assignment == nil {
		return err
	}
	setPending(missing, assignment.Results(), feasible.variant)
	return nil
}

// setPending stores the devices of claims as pending allocations.
func setPending(claims []*claimstate.Claim, results []resourceapi.AllocationResult, v *variant) {
	for i, claim := range claims {
		claim.Pending = &results[i]
		if claim.Extended {
			claim.Object = v.special
		}
	}
}

// adoptShared takes over allocations of claims that the pod shares with others of its group, which were
// reserved meanwhile: the framework reserves all pods, unreserves them and reserves them again. It returns
// the claims that are left to allocate.
func (p *Plugin) adoptShared(c *cycle, feasible *feasibleNode) ([]*claimstate.Claim, error) {
	var missing []*claimstate.Claim
	for _, claim := range c.unallocated() {
		switch {
		case claim.Extended:
			if slices.Contains(feasible.variant.claims, claim) {
				missing = append(missing, claim)
			}
			continue
		case c.member == nil:
			missing = append(missing, claim)
			continue
		}
		allocation := p.dra.ResourceClaims().GetPendingAllocation(claim.Object.UID)
		claim.Pending = allocation
		if allocation == nil { // a claim is in the manager's cache before it ceases to be in flight
			latest, err := p.dra.ResourceClaims().Get(claim.Object.Namespace, claim.Object.Name)
			if err != nil || latest.UID != claim.Object.UID || latest.Status.Allocation == nil {
				missing = append(missing, claim)
				continue
			}
			claim.Object, allocation = latest, latest.Status.Allocation
		}
		reach, err := claimstate.ReachOf(allocation)
		if err != nil {
			return nil, err
		}
		if reach != nil && !reach.Match(feasible.node) {
			return nil, fmt.Errorf("claim %s was allocated on other nodes than %s meanwhile", klog.KObj(claim.Object), feasible.node.Name)
		}
	}
	return missing, nil
}

// assign returns the devices of all claims of the variant on a node that passed Filter, nil if there are no such claims.
func (p *Plugin) assign(ctx context.Context, c *cycle, feasible *feasibleNode) (*allocator.Assignment, error) {
	if feasible.variant.problem == nil {
		return nil, nil
	}
	return allocate(ctx, feasible.variant.problem, c.usage(), feasible.node)
}

// assignNow allocates the claims that are left, with what is in use now: pods of the group allocated or
// deallocated some since Filter.
func (p *Plugin) assignNow(ctx context.Context, c *cycle, feasible *feasibleNode, claims []*claimstate.Claim) (*allocator.Assignment, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	problem, err := p.core.Compile(feasible.variant.objects(claims), p.dra.DeviceClasses())
	if err != nil {
		return nil, err
	}
	view, err := p.model.Observe()
	if err != nil {
		return nil, err
	}
	now, err := c.preemption.Restart(view)
	if err != nil {
		return nil, err
	}
	return allocate(ctx, problem, now.Usage(), feasible.node)
}

func allocate(ctx context.Context, problem *allocator.Problem, usage *pools.State, node *corev1.Node) (*allocator.Assignment, error) {
	outcome, err := problem.Allocate(ctx, usage, node)
	if err != nil {
		return nil, err
	}
	metrics.Searched(outcome.Stats(), nil)
	assignment, ok := outcome.(*allocator.Assignment)
	if !ok {
		return nil, fmt.Errorf("node %s was suitable before, and now: %v", node.Name, outcome)
	}
	return assignment, nil
}

// Unreserve undoes what Reserve and PreBind did. It may be called more than once, and without either of them. Claims that were
// written stay allocated, unless the pod was preempted: then their devices are for another one.
func (p *Plugin) Unreserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) {
	c, err := cycleOf(state)
	if err != nil {
		return
	}
	group, err := podgroup.Of(state.GetPodGroupSchedulingCycle())
	if err != nil {
		return
	}
	if p.enabled() {
		defer p.model.EndPreBind(pod.UID)
	}
	ctx = klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod), "node", klog.KRef("", nodeName)))
	if c.recorded {
		c.recorded = false
		nodeallocatable.Clear(ctx, p.handle.ClientSet(), pod)
	}
	for _, claim := range c.claims {
		if uid := claim.InFlight; p.writer.CancelInFlight(claim) {
			group.EndedInFlight(uid)
		}
		switch {
		case claim.Extended:
			p.writer.DeleteCreated(ctx, claim)
		case claim.Object.Status.Allocation == nil || !resourceclaim.IsReservedForPod(pod, claim.Object, false):
			// A reservation for the group stays: other pods of the group may rely on it.
		case c.preempted():
			p.writer.Release(ctx, claim, pod.UID)
		default:
			p.writer.Unreserve(ctx, claim.Object, pod.UID)
		}
	}
}
