// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"errors"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	priority "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/model"
	"github.com/dray-project/dray/schedplugin/internal/whatif"
)

// AddPod implements PreFilterExtensions: it takes back that a pod was removed, or sets the
// devices aside that a pod will need which is nominated to the node.
func (p *Plugin) AddPod(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, added fwk.PodInfo, nodeInfo fwk.NodeInfo) *fwk.Status {
	c, status := p.imagining(ctx, state, added.GetPod())
	if c == nil {
		return status
	}
	if err := p.add(ctx, c, added.GetPod(), nodeInfo); err != nil {
		return failed(klog.FromContext(ctx), err)
	}
	return nil
}

func (p *Plugin) add(ctx context.Context, c *cycle, added *corev1.Pod, nodeInfo fwk.NodeInfo) error {
	if c.whatIf.Gone(added.UID) {
		return c.whatIf.Restore(added, p.source.Of(added))
	}
	if !p.switches.SetAside() || c.planned != nil && c.attempt.plan.pods[nameOf(added)] != nil {
		return nil // a plan is for all of them
	}
	return p.setAside(ctx, c, added, nodeInfo)
}

// RemovePod implements PreFilterExtensions: the devices come free that the pod alone uses. On the
// node for which others were preempted before, theirs do, too: more pods go only if that is not
// enough.
func (p *Plugin) RemovePod(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, removed fwk.PodInfo, nodeInfo fwk.NodeInfo) *fwk.Status {
	if err := p.doubts(state); err != nil {
		return failed(klog.FromContext(ctx), err)
	}
	c, status := p.imagining(ctx, state, removed.GetPod())
	if c == nil || !p.switches.Preemption() {
		return status
	}
	if err := p.remove(c, pod, removed.GetPod(), nodeInfo); err != nil {
		return failed(klog.FromContext(ctx), err)
	}
	return nil
}

// errUndecided ends preemption on a node, or for a group.
var errUndecided = errors.New("a search for devices was given up: no pod is evicted while it is not known whether that is needed")

// doubts returns an error where a pod must not be taken off its node for another one: it may fit without. A
// pod that was put back is taken off again if Filter fails then, for whatever reason.
func (p *Plugin) doubts(state fwk.CycleState) error {
	if !p.enabled() {
		return nil
	}
	c, err := cycleOf(state)
	switch {
	case err != nil:
		return err
	case c.undecided.Load() || c.doubt != nil && c.doubt.Load():
		return errUndecided
	case c.doubt == nil:
		c.doubt = new(atomic.Bool)
	}
	return nil
}

func (p *Plugin) remove(c *cycle, pod, removed *corev1.Pod, nodeInfo fwk.NodeInfo) error {
	if err := c.whatIf.Begin(c.view); err != nil {
		return err
	}
	c.whatIf.Remove(removed, p.source.Of(removed), c.own())
	if !p.comesFree(c, pod, nodeInfo) {
		return nil
	}
	return c.whatIf.Wait(p.settled(c))
}

// imagining returns the state of the cycle, ready for a what-if, or nil if the other pod
// makes no difference.
func (p *Plugin) imagining(ctx context.Context, state fwk.CycleState, other *corev1.Pod) (*cycle, *fwk.Status) {
	if !p.enabled() {
		return nil, nil
	}
	c, err := cycleOf(state)
	if err != nil {
		return nil, failed(klog.FromContext(ctx), err)
	}
	if c.doubt != nil {
		c.doubt.Store(false)
	}
	if c.view == nil || !claimstate.HoldsClaims(other) {
		return nil, nil
	}
	if c.whatIf == nil {
		c.whatIf = c.newWhatIf()
	}
	return c, nil
}

// evictionHelps reports whether there would be devices on the node if all pods of lower
// priority were gone. They are gone from all nodes at once, lest the state has to be made for
// each node: where devices are those of several nodes, that may promise too much.
func (p *Plugin) evictionHelps(ctx context.Context, c *cycle, v *variant, pod *corev1.Pod, nodeInfo fwk.NodeInfo) bool {
	if !p.switches.Preemption() || c.whatIf.Removed() {
		return false // switched off, or they are gone already
	}
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever || !evictable(pod, nodeInfo) {
		return false
	}
	without := p.evicted(c, pod, p.comesFree(c, pod, nodeInfo))
	if without == nil {
		return false
	}
	if aside := c.whatIf.Aside(); len(aside) > 0 {
		without = without.Fork()
		for _, claim := range aside {
			if without.Assume(claim) != nil {
				return false
			}
		}
	}
	found, err := v.supposed().Feasible(p.limit(ctx, c), without.State(), nodeInfo.Node())
	if gaveUp(answerOf(ctx, found.Verdict(), err)) {
		c.undecidedWithout.Store(true)
	}
	return err == nil && found.Verdict() == allocator.Satisfiable
}

// evictable reports whether a pod of lower priority on the node holds claims.
func evictable(pod *corev1.Pod, nodeInfo fwk.NodeInfo) bool {
	for _, other := range nodeInfo.GetPods() {
		if claimstate.HoldsClaims(other.GetPod()) && priority.PodPriority(other.GetPod()) < priority.PodPriority(pod) {
			return true
		}
	}
	return false
}

// evicted returns the state without all pods of lower priority, and, if the pod waits for
// them, without the claims that nobody needs any more. It is nil if that is not known.
func (p *Plugin) evicted(c *cycle, pod *corev1.Pod, waits bool) *pools.Ledger {
	priority, pods := priority.PodPriority(pod), p.residentsOf(c)
	if waits { // on one node
		return c.without(evictedAt{priority, true}, func(claim *resourceapi.ResourceClaim) (bool, bool) {
			if whatif.EvictsAll(pods, claim, priority) {
				return true, true
			}
			return whatif.Abandoned(pods, p.pods, claim)
		})
	}
	c.evictedOnce.Do(func() {
		c.findings.evicted = c.without(evictedAt{priority, false}, func(claim *resourceapi.ResourceClaim) (bool, bool) {
			return whatif.EvictsAll(pods, claim, priority), true
		})
	})
	return c.findings.evicted
}

// evictedAt identifies a state without pods below a priority.
type evictedAt struct {
	priority int32
	settled  bool
}

// without returns the state without claims, nil if there are none of them. Those of the pod
// stay: they never come free for it.
func (c *cycle) without(id any, gone model.Gone) *pools.Ledger {
	var own []*resourceapi.ResourceClaim
	for _, claim := range c.claims {
		own = append(own, claim.Object)
	}
	ledger, err := c.view.Without(id, gone, own)
	if err != nil {
		return nil
	}
	return ledger
}
