// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package scoring

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/model"
)

// PerMille is the scale of all shares.
const PerMille = 1000

// NodeDevices counts the devices of a node after an assignment, of the drivers whose devices the pod gets.
type NodeDevices struct {
	// total counts all devices, used those that will be in use.
	total, used int64
	// free counts the devices that can be allocated now, wasted those of them that cannot be allocated
	// afterwards, though the pod does not use them.
	free, wasted int64
}

// Usage is the share of devices in use, in per mille.
func (o NodeDevices) Usage() int64 { return Share(o.used, o.total) }

// Thrift is the share of free devices that stay allocatable or are used by the pod, in per mille.
func (o NodeDevices) Thrift() int64 { return PerMille - Share(o.wasted, o.free) }

// Share is part/of in per mille, 0 if of is 0.
func Share(part, of int64) int64 {
	if of == 0 {
		return 0
	}
	return part * PerMille / of
}

// NodeDevicesAfter counts the devices of a node after an assignment to claims, in order.
func NodeDevicesAfter(view *model.View, node *corev1.Node, claims []*claimstate.Claim, assignment *allocator.Assignment) (NodeDevices, error) {
	after := view.Branch()
	results := assignment.Results()
	for i, claim := range claims {
		if err := after.Assume(claimstate.WithAllocation(claim.Object, &results[i])); err != nil {
			return NodeDevices{}, err
		}
	}
	drivers := make(map[string]bool)
	picked := make(map[pools.DeviceID]bool)
	for _, choice := range assignment.Choices() {
		drivers[choice.Device.Driver], picked[choice.Device] = true, true
	}
	gathered, err := view.State.Snapshot().GatherPools(node)
	if err != nil {
		return NodeDevices{}, err
	}
	var o NodeDevices
	for reached := range gathered.Pools() {
		if drivers[reached.Pool().ID().Driver] {
			o.add(reached, view.State.Pool(reached.Pool()), after.State().Pool(reached.Pool()), picked)
		}
	}
	return o, nil
}

func (o *NodeDevices) add(v pools.PoolView, before, after pools.PoolUsage, picked map[pools.DeviceID]bool) {
	for device := range v.Devices() {
		o.total++
		if after.InUse(device) || after.Shared(device) {
			o.used++
		}
		if !before.Obtainable(device) {
			continue
		}
		o.free++
		if !picked[device.ID()] && !after.Obtainable(device) {
			o.wasted++
		}
	}
}
