// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/draoptionalnodeoperations"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/metrics"
	"github.com/dray-project/dray/schedplugin/internal/podgroup"
	"github.com/dray-project/dray/schedplugin/internal/refusal"
)

// Filter accepts a node if the allocated claims of the pod can be used there, and the other claims can be
// allocated. Devices are chosen in Reserve, for the selected node only.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	if p.resizing(pod) {
		return nil
	}
	c, err := cycleOf(state)
	if err != nil {
		return failed(klog.FromContext(ctx), err)
	}
	if c.hasNoClaims() {
		return nil
	}
	status := p.filter(ctx, state, c, pod, nodeInfo)
	if status != nil {
		c.member.RefusedOn(nodeInfo.Node().Name)
	}
	return status
}

func (p *Plugin) filter(ctx context.Context, state fwk.CycleState, c *cycle, pod *corev1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	node := nodeInfo.Node()
	v, reason := p.variantFor(c, pod, nodeInfo)
	if reason == "" {
		reason = c.member.WhyNotOn(node.Name, c.claims, c.usage)
		if reason == podgroup.NotFree && c.preemption.HasSetAside() && !c.preemption.Removed() {
			reason = c.refusals.Add(v, refusal.SetAside, refusal.SetAside, c.countedName(node))
		}
	}
	if reason != "" {
		return refused(ctx, fwk.UnschedulableAndUnresolvable, reason, pod, node)
	}
	unusable, reason := p.unusable(c.claims, node)
	found, status := p.allocatable(ctx, c, v, pod, nodeInfo)
	if status != nil {
		return status
	}
	if reason != "" {
		// PostFilter deallocates these claims. That helps only if the node has everything else.
		c.addUnusable(unusable)
		return refused(ctx, fwk.UnschedulableAndUnresolvable, reason, pod, node)
	}
	var devices []resourceapi.AllocationResult
	if c.devices != nil {
		if devices = found.Results(); found.Verdict() == allocator.NoVerdict {
			devices, _ = c.member.Planned(v.claims, false)
		}
		if status := p.account(ctx, state, c, v, pod, nodeInfo, devices); status != nil {
			return status
		}
	}
	c.addFeasible(node, v, devices)
	return nil
}

// unusable returns the claims whose allocation cannot be used on the node, with the reason for the first.
func (p *Plugin) unusable(of []*claimstate.Claim, node *corev1.Node) (claims []*claimstate.Claim, reason string) {
	for _, claim := range of {
		why := p.whyUnusable(claim, node)
		if why == "" {
			continue
		}
		if claims == nil {
			reason = fmt.Sprintf("resource claim %s %s", klog.KObj(claim.Object), why)
		}
		claims = append(claims, claim)
	}
	return claims, reason
}

// whyUnusable says why an allocation cannot be used on a node. It is empty if it can.
func (p *Plugin) whyUnusable(claim *claimstate.Claim, node *corev1.Node) string {
	allocation := claim.Allocated()
	switch {
	case allocation == nil:
		return ""
	case claim.Reach != nil && !claim.Reach.Match(node):
		return "is allocated on other nodes"
	case skipsNodeOperations(allocation) && !slices.Contains(node.Status.DeclaredFeatures, draoptionalnodeoperations.DRAOptionalNodeOperationsFeatureGate):
		return "has devices that need a node with the feature DRAOptionalNodeOperations"
	case claim.Object.Status.Allocation == nil || !p.bindingConditions():
		return ""
	}
	ready, err := claimstate.Ready(claim.Object)
	switch {
	case err != nil:
		return "has devices that failed to get ready: " + err.Error()
	case !ready && p.writer.Overdue(claim.Object):
		return "has devices that did not get ready in time"
	}
	return ""
}

func skipsNodeOperations(allocation *resourceapi.AllocationResult) bool {
	return slices.ContainsFunc(allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool { return len(r.SkipNodeOperations) > 0 })
}

// allocatable searches devices for the unallocated claims on a node. The status is nil if there are enough.
func (p *Plugin) allocatable(ctx context.Context, c *cycle, v *variant, pod *corev1.Pod, nodeInfo fwk.NodeInfo) (allocator.Feasibility, *fwk.Status) {
	if v.problem == nil {
		return allocator.Feasibility{}, nil
	}
	if _, planned := c.member.Planned(v.claims, c.preemption.IsWhatIf()); planned {
		return allocator.Feasibility{}, nil // Reserve takes the planned devices
	}
	node := nodeInfo.Node()
	found, err := v.problemFor(c).Feasible(p.withTimeout(ctx, c), c.usage(), node)
	answer := metrics.Outcome(ctx, found.Verdict(), err)
	metrics.Answered(answer, found.Stats(), err)
	if answer == metrics.Satisfiable {
		return found, nil
	}
	if givenUp(answer) {
		c.giveUpSearch()
	}
	code := fwk.UnschedulableAndUnresolvable
	switch {
	case answer != metrics.Unsatisfiable:
	case p.evictionHelps(ctx, c, v, nodeInfo):
		code = fwk.Unschedulable
	case c.preemption.LowerInFlight(nodeInfo):
		c.lowerInFlight.Store(true)
	}
	return found, refused(ctx, code, p.reasonOf(ctx, c, v, node, found, answer, err), pod, node)
}

// evictionHelps reports whether the claims could be allocated on the node if all pods of lower priority were evicted.
func (p *Plugin) evictionHelps(ctx context.Context, c *cycle, v *variant, nodeInfo fwk.NodeInfo) bool {
	without := c.preemption.Evicted(nodeInfo)
	if without == nil {
		return false
	}
	found, err := v.whatIfProblem().Feasible(p.withTimeout(ctx, c), without, nodeInfo.Node())
	if givenUp(metrics.Outcome(ctx, found.Verdict(), err)) {
		c.undecidedWhatIf.Store(true)
	}
	return err == nil && found.Verdict() == allocator.Satisfiable
}

// givenUp reports whether a search ended without an answer, because of its budget or time limit.
func givenUp(answer string) bool { return answer == metrics.Undecided || answer == metrics.Timeout }
