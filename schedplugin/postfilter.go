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

// PostFilter deallocates one claim that only this pod uses, and that is allocated where the pod cannot run.
// The pod is scheduled again when that is done. PostFilter nominates no node. If no node has the devices, an
// Event says why. It returns UnschedulableAndUnresolvable, which keeps DefaultPreemption from evicting pods,
// in two cases. The pod evicted others, and only waits for their devices. Or a search was given up, so that
// it is unknown whether some node has the devices: then it deallocates nothing either.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if !p.enabled() || p.resizing(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod))
	c, err := cycleOf(state)
	if err != nil {
		return nil, failed(logger, err)
	}
	if err := p.activateIfFreed(ctx, c, pod); err != nil {
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

// undecidedReason is the status message if it is unknown whether a pod fits.
const undecidedReason = "not decided: nothing is preempted while it is not known whether some nodes have the devices. The search is repeated with larger limits"

// activateIfFreed has a pod tried again if devices came free that it was refused. If that was during the attempt, the queue
// does so anyway. But it may have had the event before, when the plugin did not know of it, and then nobody else does. Groups
// need nothing of this: the queue tries them again whatever happens.
func (p *Plugin) activateIfFreed(ctx context.Context, c *cycle, pod *corev1.Pod) error {
	if c.view == nil || len(c.refusals.List()) == 0 {
		return nil
	}
	freed, err := p.model.FreedSince(c.view)
	if freed {
		p.activate(klog.FromContext(ctx), pod)
	}
	return err
}

// waitsForVictims reports whether a pod that evicted others only has to wait: its nominated node has the
// devices once those of its victims are freed. Filter cannot see that, as the claims of victims stay
// allocated for a while.
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

// dryRun returns the claims of a pod with the devices that they would get on a node. It returns nil if they
// cannot be allocated, or nothing has to be.
func (p *Plugin) dryRun(ctx context.Context, usage *pools.State, c *cycle, pod *corev1.Pod, nodeInfo fwk.NodeInfo) []*resourceapi.ResourceClaim {
	v, reason := p.variantFor(c, pod, nodeInfo)
	if reason != "" || v.problem == nil {
		return nil
	}
	found, err := v.whatIfProblem().Feasible(p.withTimeout(ctx, c), usage, nodeInfo.Node())
	if givenUp(metrics.Outcome(ctx, found.Verdict(), err)) {
		c.giveUpSearch()
	}
	return preempt.WithDevices(v.objects(v.claims), found)
}

// deallocateOne deallocates one unusable claim of a pod, or deletes the one for extended resources. It
// returns a message, empty if there is no such claim.
func (p *Plugin) deallocateOne(ctx context.Context, c *cycle, consumer types.UID) (string, error) {
	for _, claim := range c.unusable() {
		if !claim.Extended && claimstate.OnlyFor(claim.Object, consumer) {
			return "deallocation of ResourceClaim completed", p.writer.Deallocate(ctx, claim.Object)
		}
	}
	for _, claim := range c.claims {
		if claim.Extended && !claim.InMemoryOnly() {
			// It has the requests for another node, and its devices are not known in this cycle.
			return "deletion of ResourceClaim completed", p.writer.Delete(ctx, claim.Object)
		}
	}
	return "", nil
}
