// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/model"
	"github.com/dray-project/dray/schedplugin/internal/whatif"
)

// Preemption for a group asks what would be without other pods in its own way: it takes all
// pods of lower priority off their nodes, schedules the group anew from PreFilter on, and then
// puts one pod after the other back, through AddPod. What these pods hold has to be free in
// such a cycle, and only there.

// suppose has the cycle of a group see the devices free of pods which preemption took off
// their nodes for the time being.
func (p *Plugin) suppose(c *cycle, view *model.View) (*model.View, error) {
	if !c.grouped() || !p.switches.Preemption() {
		return view, nil
	}
	p.residentsOf(c)
	absent := p.residents.Absent()
	if len(absent) == 0 || !p.tentative() {
		return view, nil
	}
	supposed := &whatif.Case{}
	if err := supposed.Begin(view); err != nil {
		return nil, err
	}
	for _, pod := range absent {
		supposed.Remove(pod, p.source.Of(pod), c.own())
	}
	c.removed, c.doubt = supposed, new(atomic.Bool)
	return view.As(supposed.Ledger()), nil
}

// newWhatIf begins a what-if, without the pods that are removed already.
func (c *cycle) newWhatIf() *whatif.Case {
	if c.removed == nil {
		return &whatif.Case{}
	}
	return c.removed.Clone()
}

// awaited returns for each pod of a group the name of the node to nominate it to, if those pods
// that lack devices only have to wait for those of pods which were preempted for the group. They may get
// them on any node to which a pod of the group is nominated: which of the nodes comes free first
// is not known. It returns nil if waiting does not help.
func (p *Plugin) awaited(ctx context.Context, cycles *groupCycle, pods []*corev1.Pod) []string {
	if cycles == nil {
		return nil
	}
	free := &comingFree{charged: sets.New[types.UID]()}
	var lacking []int
	for i, pod := range pods {
		c := cycles.of(pod)
		if c == nil || c.placed != "" || len(c.refusals.List()) == 0 {
			continue
		}
		if c.view == nil || p.settled(c) == nil {
			return nil
		}
		// This state has the devices in use of the pods before it for which there was a node.
		lacking, free.state = append(lacking, i), p.settled(c).State()
	}
	if len(lacking) == 0 {
		return nil
	}
	nominated := p.nominations(cycles, pods)
	nodes := make([]string, len(pods))
	for i, pod := range pods {
		if c := cycles.of(pod); c != nil && c.placed != "" {
			nodes[i] = c.placed
		} else if nominated[i] != nil {
			nodes[i] = nominated[i].Node().Name
		}
	}
	for _, i := range lacking {
		takes := func(nodeInfo fwk.NodeInfo) bool {
			return nodeInfo != nil && p.takes(ctx, free, cycles.of(pods[i]), pods[i], nodeInfo)
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

// comingFree is what is in use once the devices that nobody needs any more are free, and pods of
// a group got theirs.
type comingFree struct {
	state *pools.State
	// charged are claims of these pods, which may share them.
	charged sets.Set[types.UID]
}

// takes reports whether a pod of a group gets devices on a node, and charges them.
func (p *Plugin) takes(ctx context.Context, free *comingFree, c *cycle, pod *corev1.Pod, nodeInfo fwk.NodeInfo) bool {
	own := c.own()
	if free.charged.HasAny(own.UnsortedList()...) {
		return true
	}
	allocated := p.supposeOn(ctx, free.state, c, pod, nodeInfo)
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

// nominations are the nodes to which the pods of a group are nominated, nil where there is none.
func (p *Plugin) nominations(cycles *groupCycle, pods []*corev1.Pod) []fwk.NodeInfo {
	nodes := make([]fwk.NodeInfo, len(pods))
	for i, pod := range pods {
		if c := cycles.of(pod); c != nil {
			nodes[i] = p.nominated(c, pod)
		} else { // it was not tried
			nodes[i] = p.nomination(pod)
		}
	}
	return nodes
}

// nominate says to which nodes the pods of a group are nominated from now on.
func nominate(pods []*corev1.Pod, nodes []string) *fwk.PodGroupPostFilterResult {
	result := &fwk.PodGroupPostFilterResult{NominatingInfos: make(map[types.NamespacedName]*fwk.NominatingInfo)}
	for i, node := range nodes {
		if node != "" {
			name := types.NamespacedName{Namespace: pods[i].Namespace, Name: pods[i].Name}
			result.NominatingInfos[name] = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}
		}
	}
	return result
}
