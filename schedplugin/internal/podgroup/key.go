// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"fmt"
	"hash/fnv"
	"strconv"
)

// stateKeyOf hashes all that decides whether there is a plan: devices in use, nodes, and what pods ask for. It is 0 in a what-if.
func (g *Groups) stateKeyOf(a *attempt) uint64 {
	preemption, common := a.first.State.Preemption(), a.common
	view := preemption.View()
	claims, err := g.Source.DRA.ResourceClaims().List()
	if preemption.InGroupPreemption() || err != nil {
		return 0
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
	g.addAsked(a, add)
	for _, nodeInfo := range a.nodes {
		used := nodeInfo.GetRequested()
		sum += uint64(used.GetMilliCPU())*3 + uint64(used.GetMemory())*5 + uint64(len(nodeInfo.GetPods()))*7
		add(nodeInfo.Node().Name, nodeInfo.Node().ResourceVersion)
	}
	for pool := range view.State.Snapshot().Pools() {
		for slice := range pool.Slices() {
			add(string(slice.UID), slice.ResourceVersion)
		}
	}
	return max(1, sum)
}

// addAsked adds what the pods of a group ask for: its pods, how many must start, and the DeviceClasses. The
// specs of claims are immutable.
func (g *Groups) addAsked(a *attempt, add func(texts ...string)) {
	if classes, err := g.Source.DRA.DeviceClasses().List(); err == nil {
		for _, class := range classes {
			add("class", string(class.UID), class.ResourceVersion)
		}
	}
	if a.group == nil {
		return
	}
	if object, err := g.Handle.SnapshotSharedLister().PodGroups().Get(a.group.name.Namespace, a.group.name.Name); err == nil && object.Spec.SchedulingPolicy.Gang != nil {
		add("minCount", strconv.Itoa(int(object.Spec.SchedulingPolicy.Gang.MinCount)))
	}
	if live, err := g.Handle.PodGroupManager().PodGroupStates().Get(a.group.name.Namespace, a.group.name.Name); err == nil {
		add("scheduled", strconv.Itoa(live.ScheduledPodsCount()))
		for _, pod := range live.UnscheduledPods() {
			add("pod", string(pod.UID), strconv.Itoa(len(pod.Spec.SchedulingGates)), strconv.FormatBool(pod.DeletionTimestamp != nil))
		}
	}
}
