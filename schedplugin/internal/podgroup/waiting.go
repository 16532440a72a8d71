// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/pools"
)

// Await returns nominations for the pods of a group if those without devices only have to wait for the
// devices of the group's victims. A pod may wait for any node to which a pod of the group is nominated: it is
// unknown which of them is freed first. It returns nil if waiting does not help. With topology constraints,
// it must help in one of the placements.
func (g *Groups) Await(ctx context.Context, cycle *Cycle, pods []*corev1.Pod) *fwk.PodGroupPostFilterResult {
	if cycle == nil {
		return nil
	}
	for _, a := range cycle.attempts {
		if nodes := g.awaitIn(ctx, a, pods); nodes != nil {
			return nominations(pods, nodes)
		}
	}
	return nil
}

func (g *Groups) awaitIn(ctx context.Context, a *attempt, pods []*corev1.Pod) []string {
	free := &laterState{charged: sets.New[types.UID]()}
	var lacking []int
	for i, pod := range pods {
		m := a.members[nameOf(pod)]
		if m == nil || m.node != "" || len(m.State.Refusals()) == 0 {
			continue
		}
		preemption := m.State.Preemption()
		if preemption == nil || preemption.Settled() == nil {
			return nil
		}
		// In this state, the devices of pods that found a node before are in use.
		lacking, free.state = append(lacking, i), preemption.Settled().State()
	}
	if len(lacking) == 0 {
		return nil
	}
	nominated := g.nominated(a, pods)
	nodes := make([]string, len(pods))
	for i, pod := range pods {
		if m := a.members[nameOf(pod)]; m != nil && m.node != "" {
			nodes[i] = m.node
		} else if nominated[i] != nil {
			nodes[i] = nominated[i].Node().Name
		}
	}
	for _, i := range lacking {
		takes := func(nodeInfo fwk.NodeInfo) bool {
			return nodeInfo != nil && g.takes(ctx, free, a.members[nameOf(pods[i])], nodeInfo)
		}
		if takes(nominated[i]) {
			continue
		}
		at := slices.IndexFunc(nominated, takes)
		if at < 0 {
			return nil
		}
		nodes[i] = nominated[at].Node().Name
	}
	return nodes
}

// laterState is what is in use once victims have freed their devices, and waiting pods of the group got
// theirs.
type laterState struct {
	state *pools.State
	// charged are the claims that waiting pods got. Several pods may share one.
	charged sets.Set[types.UID]
}

// takes reports whether a pod of a group gets devices on a node in the later state, and marks them as in use.
func (g *Groups) takes(ctx context.Context, free *laterState, m *Member, nodeInfo fwk.NodeInfo) bool {
	own := m.State.Preemption().Own()
	if free.charged.HasAny(own.UnsortedList()...) {
		return true
	}
	allocated := g.DryRun(ctx, free.state, m, nodeInfo)
	if allocated == nil {
		return false
	}
	state := free.state
	for _, claim := range allocated {
		var err error
		if state, err = state.Assume(claim); err != nil {
			return false
		}
	}
	free.state, free.charged = state, free.charged.Union(own)
	return true
}

// nominated returns for each pod the node to which it is nominated, nil if there is none in the placement.
func (g *Groups) nominated(a *attempt, pods []*corev1.Pod) []fwk.NodeInfo {
	within := sets.New[string]()
	for _, nodeInfo := range a.nodes {
		within.Insert(nodeInfo.Node().Name)
	}
	nodes := make([]fwk.NodeInfo, len(pods))
	for i, pod := range pods {
		var nodeInfo fwk.NodeInfo
		if m := a.members[nameOf(pod)]; m != nil && m.State.Preemption() != nil {
			nodeInfo = m.State.Preemption().Nominated()
		} else { // it was not tried, or needs no devices
			nodeInfo = g.Preemption.Nomination(pod)
		}
		if nodeInfo != nil && within.Has(nodeInfo.Node().Name) {
			nodes[i] = nodeInfo
		}
	}
	return nodes
}

// nominations returns the PostFilter result that nominates pods to nodes.
func nominations(pods []*corev1.Pod, nodes []string) *fwk.PodGroupPostFilterResult {
	result := &fwk.PodGroupPostFilterResult{NominatingInfos: make(map[types.NamespacedName]*fwk.NominatingInfo)}
	for i, node := range nodes {
		if node != "" {
			result.NominatingInfos[nameOf(pods[i])] = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}
		}
	}
	return result
}

// nominate returns nominations to the nodes that a scheduling run assigned.
func nominate(pods []*corev1.Pod, assigned *fwk.PodGroupAssignments) *fwk.PodGroupPostFilterResult {
	to := make(map[types.NamespacedName]string)
	for _, one := range assigned.ProposedAssignments {
		to[nameOf(one.GetPod())] = one.GetNodeName()
	}
	nodes := make([]string, len(pods))
	for i, pod := range pods {
		nodes[i] = to[nameOf(pod)]
	}
	return nominations(pods, nodes)
}
