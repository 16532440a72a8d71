// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"weak"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/pools"
)

// clusterKeyOf hashes all that decides whether there is a plan, except limits: devices that exist and that are in use, nodes, and what the
// pods ask for. It is the zero clusterKey in a what-if. Least is how many of the pods must get devices.
func (g *Groups) clusterKeyOf(a *attempt, pods []*waitingPod, least int) clusterKey {
	preemption, common := a.first.State.Preemption(), a.common
	view := preemption.View()
	claims, err := g.Source.DRA.ResourceClaims().List()
	if preemption.InGroupPreemption() || err != nil {
		return clusterKey{}
	}
	var sum uint64
	add := func(texts ...string) {
		h := fnv.New64a()
		for _, text := range texts {
			_, _ = h.Write([]byte(text))
			_, _ = h.Write([]byte{0})
		}
		sum += h.Sum64() // addition does not depend on the order
	}
	if !common.IsZero() {
		add("common", fmt.Sprintf("%+v", common))
	}
	// Devices in use are taken from the view, as the manager may be ahead of it. Consumers of claims are taken from the manager.
	add("held", strconv.FormatUint(view.HeldHash, 16))
	for _, claim := range claims {
		if claim.Status.Allocation != nil {
			add("allocated", string(claim.UID), claim.ResourceVersion)
		}
	}
	if classes, err := g.Source.DRA.DeviceClasses().List(); err == nil {
		for _, class := range classes {
			add("class", string(class.UID), class.ResourceVersion)
		}
	}
	add("least", strconv.Itoa(least))
	for _, w := range pods {
		add("pod", string(w.pod.UID), w.kindKey)
	}
	for _, nodeInfo := range a.nodes {
		add(nodeTexts(nodeInfo)...)
	}
	return clusterKey{max(1, sum), weak.Make(view.State.Snapshot())}
}

// clusterKey identifies a state of the cluster. The zero clusterKey stands for a state that is not known.
type clusterKey struct {
	sum uint64
	// devices are those that exist. A device may change while its slice has the same version: taints by rules are not in the slice.
	devices weak.Pointer[pools.Snapshot]
}

// nodeTexts are what a plan reads of a node: its object, and what pods use there.
func nodeTexts(nodeInfo fwk.NodeInfo) []string {
	node, used := nodeInfo.Node(), nodeInfo.GetRequested()
	texts := []string{"node", node.Name, string(node.UID), node.ResourceVersion, strconv.Itoa(len(nodeInfo.GetPods()))}
	for _, amount := range []int64{used.GetMilliCPU(), used.GetMemory(), used.GetEphemeralStorage()} {
		texts = append(texts, strconv.FormatInt(amount, 10))
	}
	scalars := used.GetScalarResources()
	for _, name := range slices.Sorted(maps.Keys(scalars)) {
		texts = append(texts, string(name), strconv.FormatInt(scalars[name], 10))
	}
	return texts
}
