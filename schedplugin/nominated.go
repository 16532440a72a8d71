// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/whatif"
)

// setAside charges the devices which a nominated pod will get.
func (p *Plugin) setAside(ctx context.Context, c *cycle, pod *corev1.Pod, nodeInfo fwk.NodeInfo) error {
	var buffer [4]*resourceapi.ResourceClaim
	open := p.appendOpenClaims(buffer[:0], c, pod)
	if len(open) == 0 {
		return nil
	}
	return p.asides.SetAside(c.whatIf, &whatif.Place{
		View: c.view, Settled: p.settled(c), Node: nodeInfo, Own: c.own(), ClaimsOf: p.source.Of,
		Allocate: func(claims []*resourceapi.ResourceClaim, usage *pools.State) []*resourceapi.ResourceClaim {
			return p.allocateFor(p.limit(ctx, c), claims, usage, nodeInfo.Node())
		},
	}, pod.UID, open)
}

// allocateFor returns claims of a nominated pod with devices. It returns none if there are none:
// then the pod does not stand in the way.
func (p *Plugin) allocateFor(ctx context.Context, claims []*resourceapi.ResourceClaim, usage *pools.State, node *corev1.Node) []*resourceapi.ResourceClaim {
	problem, err := p.problems.of(p, claims)
	if err != nil {
		return nil // it does not get devices on any node
	}
	found, err := problem.Feasible(ctx, usage, node)
	if err != nil || found.Verdict() != allocator.Satisfiable {
		return nil
	}
	return withDevices(claims, found)
}

// withDevices returns claims with the devices that were found for them.
func withDevices(claims []*resourceapi.ResourceClaim, found allocator.Feasibility) []*resourceapi.ResourceClaim {
	results := found.Results()
	allocated := make([]*resourceapi.ResourceClaim, len(claims))
	for i, claim := range claims {
		allocated[i] = claimstate.WithAllocation(claim, &results[i])
	}
	return allocated
}

// appendOpenClaims lists the claims of a nominated pod that have no devices yet, but for those
// that it shares with the pod of the cycle.
func (p *Plugin) appendOpenClaims(list []*resourceapi.ResourceClaim, c *cycle, pod *corev1.Pod) []*resourceapi.ResourceClaim {
	tracker := p.dra.ResourceClaims()
	for name := range claimstate.Names(pod) {
		claim, err := tracker.Get(pod.Namespace, name)
		if err == nil && claim.Status.Allocation == nil && !c.own().Has(claim.UID) && tracker.GetPendingAllocation(claim.UID) == nil {
			list = append(list, claim)
		}
	}
	return list
}

// settled returns the state without the claims that hold devices for nobody any more, nil if
// there are none: all their consumers are gone, or going because they were preempted. The
// resource claim controller frees them.
func (p *Plugin) settled(c *cycle) *pools.Ledger {
	c.settledOnce.Do(func() {
		if !p.pods.Synced() {
			return // nothing is known to come free
		}
		pods := p.residentsOf(c)
		c.findings.settled = c.without(settledState{}, func(claim *resourceapi.ResourceClaim) (bool, bool) { return whatif.Abandoned(pods, p.pods, claim) })
	})
	return c.findings.settled
}

// settledState identifies the state without claims that nobody needs any more.
type settledState struct{}

// awaits reports whether a pod that preempted others only has to wait: the node it is
// nominated to will have its devices as soon as those of pods that left come free. Until
// then nothing on the node shows that they will, as soon as the last of these pods is gone.
func (p *Plugin) awaits(ctx context.Context, c *cycle, pod *corev1.Pod, statuses fwk.NodeToStatusReader) bool {
	if statuses == nil {
		return false
	}
	nodeInfo := p.nominated(c, pod)
	return nodeInfo != nil && statuses.Get(nodeInfo.Node().Name).Plugin() == Name && p.comesFreeFor(ctx, c, pod)
}

// comesFreeFor reports whether the node to which a pod is nominated will have its devices once
// those of pods that left come free.
func (p *Plugin) comesFreeFor(ctx context.Context, c *cycle, pod *corev1.Pod) bool {
	if c.view == nil || p.settled(c) == nil {
		return false
	}
	nodeInfo := p.nominated(c, pod)
	if nodeInfo == nil {
		return false
	}
	return p.supposeOn(ctx, p.settled(c).State(), c, pod, nodeInfo) != nil
}

// supposeOn returns the claims of a pod with the devices that they would get on a node, nil if
// there are none for them, or none have to be allocated.
func (p *Plugin) supposeOn(ctx context.Context, usage *pools.State, c *cycle, pod *corev1.Pod, nodeInfo fwk.NodeInfo) []*resourceapi.ResourceClaim {
	v, reason := p.variantFor(c, pod, nodeInfo)
	if reason != "" || v.problem == nil {
		return nil
	}
	found, err := v.supposed().Feasible(p.limit(ctx, c), usage, nodeInfo.Node())
	if gaveUp(answerOf(ctx, found.Verdict(), err)) {
		c.giveUpSearch()
	}
	if found.Verdict() != allocator.Satisfiable {
		return nil
	}
	return withDevices(v.objects(v.claims), found)
}

// comesFree reports whether devices come free on the node because the pod preempted others
// there, whether or not it preempts more.
func (p *Plugin) comesFree(c *cycle, pod *corev1.Pod, nodeInfo fwk.NodeInfo) bool {
	if p.settled(c) == nil {
		return false
	}
	nominated := p.nominated(c, pod)
	return nominated != nil && nominated.Node().Name == nodeInfo.Node().Name
}

// nominated is nomination, looked up once per cycle. A pod that is tried for the first time has
// preempted nobody, so that the queue, which has to be asked for each node, has nothing to tell.
func (p *Plugin) nominated(c *cycle, pod *corev1.Pod) fwk.NodeInfo {
	c.nominationOnce.Do(func() {
		if _, tried := p.endings.Of(pod.UID); tried || c.grouped() || pod.Status.NominatedNodeName != "" {
			c.nomination = p.nomination(pod)
		}
	})
	return c.nomination
}

// nomination returns the node to which a pod is nominated, nil if there is none. Until the
// API server tells, only the scheduling queue knows.
func (p *Plugin) nomination(pod *corev1.Pod) fwk.NodeInfo {
	nodes := p.handle.SnapshotSharedLister().NodeInfos()
	if name := pod.Status.NominatedNodeName; name != "" {
		if nodeInfo, err := nodes.Get(name); err == nil {
			return nodeInfo
		}
		return nil // it was deleted
	}
	list, err := nodes.List()
	if err != nil {
		return nil
	}
	for _, nodeInfo := range list {
		if nodeInfo.Node() == nil {
			continue
		}
		for _, nominated := range p.nominatedTo(nodeInfo.Node().Name) {
			if nominated.GetPod().UID == pod.UID {
				return nodeInfo
			}
		}
	}
	return nil
}

// nominatedTo asks the scheduling queue.
func (p *Plugin) nominatedTo(node string) []fwk.PodInfo {
	if !p.queued() {
		return nil
	}
	return p.handle.NominatedPodsForNode(node)
}

// residentsOf returns the pods on the nodes of a cycle.
func (p *Plugin) residentsOf(c *cycle) *whatif.Roll {
	c.residentsOnce.Do(func() {
		var changed []types.UID
		c.findings.residents, changed = p.residents.Follow(c.nodes, p.pods.Running)
		p.model.PodsChanged(changed)
	})
	return c.findings.residents
}
