// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/metrics"
	"github.com/dray-project/dray/schedplugin/internal/preempt"
)

// PostFilter gives up one claim that nobody else uses, and that is allocated where the pod
// cannot run. The pod is scheduled again when that is done. It never makes the pod
// schedulable at once. If no node has the devices, an Event says why. As long as a pod that
// preempted others only waits for their devices, it keeps the next plugins from preempting
// more. It does so, too, and gives up nothing, if it is not known of some node whether it has the devices.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if !p.enabled() || p.resizing(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod))
	c, err := cycleOf(state)
	if err != nil {
		return nil, failed(logger, err)
	}
	if p.waitsForVictims(ctx, c, pod, statuses) {
		return nil, unresolvable(logger, preempt.Waits)
	}
	p.recordAttempt(ctx, c, pod, c.refusals.List())
	p.explain(ctx, pod, c.refusals.List(), "")
	if c.undecided.Load() {
		return nil, unresolvable(logger, undecidedReason)
	}
	said, err := p.deallocateOne(klog.NewContext(ctx, logger), c, pod.UID)
	if err != nil {
		return nil, failed(logger, err)
	}
	if said == "" {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable, said)
}

// undecidedReason is what PostFilter says if it is not known whether a pod fits.
const undecidedReason = "not decided: nothing is preempted while it is not known whether some nodes have the devices. The search is repeated with larger limits"

// waitsForVictims reports whether a pod that preempted others only has to wait: the node it is
// nominated to will have its devices as soon as those of pods that left come free. Until
// then nothing on the node shows that they will, as soon as the last of these pods is gone.
func (p *Plugin) waitsForVictims(ctx context.Context, c *cycle, pod *corev1.Pod, statuses fwk.NodeToStatusReader) bool {
	if statuses == nil || c.preemption == nil {
		return false
	}
	nodeInfo := c.preemption.Nominated()
	if nodeInfo == nil || statuses.Get(nodeInfo.Node().Name).Plugin() != Name || c.preemption.Settled() == nil {
		return false
	}
	return p.dryRun(ctx, c.preemption.Settled().State(), c, pod, nodeInfo) != nil
}

// dryRun returns the claims of a pod with the devices that they would get on a node, nil if
// there are none for them, or none have to be allocated.
func (p *Plugin) dryRun(ctx context.Context, usage *pools.State, c *cycle, pod *corev1.Pod, nodeInfo fwk.NodeInfo) []*resourceapi.ResourceClaim {
	v, reason := p.variantFor(c, pod, nodeInfo)
	if reason != "" || v.problem == nil {
		return nil
	}
	found, err := v.whatIfProblem().Feasible(p.withTimeout(ctx, c), usage, nodeInfo.Node())
	if searchGivenUp(metrics.Outcome(ctx, found.Verdict(), err)) {
		c.giveUpSearch()
	}
	return preempt.WithDevices(v.objects(v.claims), found)
}

// deallocateOne deallocates one claim of a pod, or deletes that for extended resources, and says
// so. It returns "" if there is none.
func (p *Plugin) deallocateOne(ctx context.Context, c *cycle, consumer types.UID) (string, error) {
	for _, claim := range c.unusable() {
		if !claim.Extended && claimstate.OnlyFor(claim.Object, consumer) {
			return "deallocation of ResourceClaim completed", p.writer.Deallocate(ctx, claim.Object)
		}
	}
	for _, claim := range c.claims {
		if claim.Extended && !claim.InMemoryOnly() {
			// It was made for another node, and nothing remembers the devices.
			return "deletion of ResourceClaim completed", p.writer.Delete(ctx, claim.Object)
		}
	}
	return "", nil
}
