// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/schedplugin/internal/claimstate"
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
	if p.awaits(ctx, c, pod, statuses) {
		return nil, unresolvable(logger, waitsForVictims)
	}
	p.conclude(ctx, c, pod)
	p.explain(ctx, c, pod)
	if c.undecided.Load() {
		return nil, unresolvable(logger, undecided)
	}
	gaveUp, err := p.giveUp(klog.NewContext(ctx, logger), c, pod.UID)
	if err != nil {
		return nil, failed(logger, err)
	}
	if gaveUp == "" {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable, gaveUp)
}

// undecided is what PostFilter says if it is not known whether a pod fits.
const undecided = "not decided: nothing is preempted while it is not known whether some nodes have the devices. The search is repeated with larger limits"

// giveUp deallocates one claim of a pod, or deletes that for extended resources, and says
// so. It returns "" if there is none.
func (p *Plugin) giveUp(ctx context.Context, c *cycle, consumer types.UID) (string, error) {
	for _, claim := range c.useless() {
		if !claim.Extended && claimstate.OnlyFor(claim.Object, consumer) {
			return "deallocation of ResourceClaim completed", p.writer.Deallocate(ctx, claim.Object)
		}
	}
	for _, claim := range c.claims {
		if claim.Extended && !claim.Unmade() {
			// It was made for another node, and nothing remembers the devices.
			return "deletion of ResourceClaim completed", p.writer.Delete(ctx, claim.Object)
		}
	}
	return "", nil
}
