// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/schedplugin/internal/podgroup"
	"github.com/dray-project/dray/schedplugin/internal/refusal"
)

// PreBindPreFlight says whether PreBind has anything to do.
func (p *Plugin) PreBindPreFlight(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	result := &fwk.PreBindPreFlightResult{AllowParallel: true}
	c, err := cycleOf(state)
	if err != nil {
		return result, failed(klog.FromContext(ctx), err)
	}
	if c.hasNoClaims() {
		return result, fwk.NewStatus(fwk.Skip)
	}
	return result, nil
}

// PreBind writes allocations and reservations to the API server, and waits until binding conditions are met.
// After a failure the framework calls Unreserve, and the pod is scheduled again. It does so, too, if the pod is preempted
// meanwhile: the framework cancels ctx. That ends the wait, but no write: it would be unknown whether it was made.
func (p *Plugin) PreBind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod), "node", klog.KRef("", nodeName))
	c, err := cycleOf(state)
	if err != nil {
		return failed(logger, err)
	}
	if c.hasNoClaims() {
		return nil
	}
	group, err := podgroup.Of(state.GetPodGroupSchedulingCycle())
	if err != nil {
		return failed(logger, err)
	}
	ctx = klog.NewContext(ctx, logger)
	c.preempted = func() bool { return preemptedInPreBind(ctx) }
	p.model.BeginPreBind(pod.UID, c.preempted)
	var mappings []corev1.ContainerExtendedResourceRequest
	if feasible := c.feasible(nodeName); feasible != nil {
		mappings = feasible.variant.mappings
	}
	for _, claim := range c.claims {
		if err := p.writer.Bind(context.WithoutCancel(ctx), claim, pod, mappings); err != nil {
			return failed(logger, err, "resourceclaim", klog.KObj(claim.Object))
		}
	}
	if err := p.record(ctx, state, c, pod, nodeName); err != nil {
		return failed(logger, err)
	}
	if err := p.awaitDevices(ctx, c, pod, nodeName); err != nil {
		return failed(logger, err)
	}
	p.endInFlight(c, group)
	if !c.preempted() { // else Unreserve gives up the claims
		p.model.EndPreBind(pod.UID)
	}
	return nil
}

// endInFlight ends the in-flight state of claims that were written. Pods of a group share it.
func (p *Plugin) endInFlight(c *cycle, group *podgroup.Cycle) {
	for _, claim := range c.claims {
		if uid := claim.InFlight; p.writer.EndInFlight(claim) {
			group.EndedInFlight(uid)
		}
	}
}

// awaitDevices waits until the binding conditions of all devices are met.
func (p *Plugin) awaitDevices(ctx context.Context, c *cycle, pod *corev1.Pod, nodeName string) error {
	if !p.writer.AwaitsDevices(c.claims) {
		return nil
	}
	p.event(ctx, pod, corev1.EventTypeNormal, "BindingConditionsPending", "waiting for binding conditions for device on node %s", nodeName)
	return p.writer.AwaitDevices(ctx, c.claims)
}

// recordUnconfirmed records an Event about a pod that is not bound yet, as it is unknown whether a claim was written.
func (p *Plugin) recordUnconfirmed(ctx context.Context, pod *corev1.Pod, err error) {
	p.event(ctx, pod, corev1.EventTypeWarning, "ClaimNotWritten", "%s",
		refusal.Cut("it is not known whether a claim was written, which is tried again: "+err.Error()))
}
