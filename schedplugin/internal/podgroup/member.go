// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
)

// place is where a plan puts a pod: its node and devices.
type place struct {
	node string
	// claims are the planned allocations by the UIDs of claims, extended is that of the claim for extended resources.
	claims   map[types.UID]*resourceapi.AllocationResult
	extended *resourceapi.AllocationResult
}

// Cycle returns the Cycle of the pod's group.
func (m *Member) Cycle() *Cycle {
	if m == nil {
		return nil
	}
	return m.cycle
}

// Undecided returns the flag that is set once a search for a pod of the group was given up.
func (m *Member) Undecided() *atomic.Bool { return &m.cycle.undecided }

// giveUp records that the search for a plan was given up.
func (m *Member) giveUp() {
	if !m.State.Preemption().GiveUp() {
		m.cycle.undecided.Store(true)
	}
}

// Plan searches a plan when called for the first pod of an attempt that needs devices, if the group is to be planned. It
// returns why the pod has to wait if the plan leaves it out, and the status code. Nodes are all nodes of the cluster.
func (m *Member) Plan(ctx context.Context, nodes []fwk.NodeInfo) (string, fwk.Code) {
	if m == nil || m.State.Preemption() == nil {
		return "", fwk.Success
	}
	a := m.attempt
	if a.first == nil {
		a.first, a.nodes = m, m.groups.Nodes(nodes)
		m.groups.planFirst(ctx, m)
	}
	switch {
	case a.invalid != "":
		return a.invalid, fwk.UnschedulableAndUnresolvable
	case !a.mustFollowPlan():
		return a.whyNoCommonDevices(), fwk.Unschedulable
	}
	if m.place = a.plan.places[nameOf(m.Pod)]; m.place == nil {
		return "the other pods of the group get devices together only if this one waits", fwk.UnschedulableAndUnresolvable
	}
	return "", fwk.Success
}

// Node returns the pod's node in the plan, empty without a plan.
func (m *Member) Node() string {
	if m == nil || m.place == nil {
		return ""
	}
	return m.place.node
}

// InPlanWith reports whether this pod and another one are in the same plan.
func (m *Member) InPlanWith(other *corev1.Pod) bool {
	return m != nil && m.place != nil && m.attempt.plan.places[nameOf(other)] != nil
}

// NotFree is the result of WhyNotOn for a planned node whose planned devices other pods have, or will have.
const NotFree = "devices that were planned for the pods of the group are in use or set aside meanwhile"

// WhyNotOn says why a pod of a planned group must not go to a node. It is empty if the pod may. Claims are
// those of the pod, and usage is what the pod sees in use.
func (m *Member) WhyNotOn(node string, claims []*claimstate.Claim, usage func() *pools.State) string {
	switch {
	case m == nil:
		return ""
	case m.place == nil:
		return m.attempt.whyNoCommonDevices()
	case m.place.node != node:
		return "the pods of the group get devices together only if this one goes to node " + m.place.node
	case !m.place.devicesFree(claims, usage()):
		return NotFree
	}
	return ""
}

// devicesFree reports whether the planned devices are still free, as the pod sees it. In preemption for a
// group, victims are put back one by one: a victim is kept only if the plan does not need its devices.
func (l *place) devicesFree(claims []*claimstate.Claim, state *pools.State) bool {
	for _, claim := range claims {
		allocation := l.of(claim)
		if claim.Allocated() != nil || allocation == nil {
			continue
		}
		for i := range allocation.Devices.Results {
			result := &allocation.Devices.Results[i]
			if result.ShareID != nil || result.AdminAccess != nil {
				continue
			}
			if !obtainable(state, result) {
				return false
			}
			alone := &resourceapi.ResourceClaim{ // several devices may consume the same counters
				ObjectMeta: metav1.ObjectMeta{Namespace: claim.Object.Namespace, Name: result.Device, UID: claim.Object.UID + types.UID(result.Pool)},
				Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{
					Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{*result}},
				}},
			}
			var err error
			if state, err = state.Assume(alone); err != nil {
				return false
			}
		}
	}
	return true
}

// obtainable reports whether a device exists and is free.
func obtainable(state *pools.State, result *resourceapi.DeviceRequestAllocationResult) bool {
	pool, found := state.Snapshot().Pool(pools.PoolID{Driver: result.Driver, Name: result.Pool})
	if !found {
		return false
	}
	usage := state.Pool(pool)
	for device := range pool.Lookup(result.Device) {
		if usage.Obtainable(device) {
			return true
		}
	}
	return false
}

// of returns the planned allocation of a claim, nil if there is none.
func (l *place) of(claim *claimstate.Claim) *resourceapi.AllocationResult {
	if claim.Extended {
		return l.extended
	}
	return l.claims[claim.Object.UID]
}

// hasShares reports whether the plan has shares of devices. In a what-if, it is unknown whether their capacity is still free.
func (l *place) hasShares() bool {
	for _, allocation := range append(slices.Collect(maps.Values(l.claims)), l.extended) {
		if allocation != nil && slices.ContainsFunc(allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool { return r.ShareID != nil }) {
			return true
		}
	}
	return false
}

// Planned returns the planned allocations of claims, in order. It is false if a claim has none. In a what-if
// it is also false with shares of devices, as it is unknown whether their capacity is still free.
func (m *Member) Planned(claims []*claimstate.Claim, supposed bool) ([]resourceapi.AllocationResult, bool) {
	if m == nil || m.place == nil || supposed && m.place.hasShares() {
		return nil, false
	}
	var list []resourceapi.AllocationResult
	for _, claim := range claims {
		allocation := m.place.of(claim)
		if allocation == nil {
			return nil, false
		}
		list = append(list, *allocation)
	}
	return list, true
}

// RefusedOn records that the plugin itself refuses a node. Then the planned node says nothing about other plugins. It may be
// called from several goroutines.
func (m *Member) RefusedOn(node string) {
	if m == nil || m.attempt.plan == nil {
		return
	}
	if planned := m.attempt.plan.places[nameOf(m.Pod)]; planned != nil && planned.node == node {
		m.refused.Store(true)
	}
}

// Placed records the node that was found for the pod.
func (m *Member) Placed(node string) {
	if m != nil {
		m.node = node
	}
}
