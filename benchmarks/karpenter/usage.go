// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"github.com/dray-project/dray/alloctest"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling/dynamicresources"
)

// capacities are the consumed capacities of a device.
type capacities = map[resourceapi.QualifiedName]resource.Quantity

// inUse collects the devices of allocated claims, as Karpenter does. A device with consumed
// capacity is shared; any other is allocated exclusively.
func inUse(c *alloctest.Case) dynamicresources.AllocatedDeviceState {
	state := dynamicresources.AllocatedDeviceState{
		ExclusiveDevices: sets.New[cloudprovider.DeviceID](),
		ConsumedCapacity: make(map[cloudprovider.DeviceID]capacities),
	}
	for _, claim := range c.Allocated {
		if claim.Status.Allocation == nil {
			continue
		}
		for i := range claim.Status.Allocation.Devices.Results {
			addResult(&state, &claim.Status.Allocation.Devices.Results[i])
		}
	}
	return state
}

func addResult(state *dynamicresources.AllocatedDeviceState, result *resourceapi.DeviceRequestAllocationResult) {
	id := cloudprovider.DeviceID{Driver: handle(result.Driver), Pool: handle(result.Pool), Device: handle(result.Device)}
	if result.ConsumedCapacity == nil {
		state.ExclusiveDevices.Insert(id)
		return
	}
	consumed := state.ConsumedCapacity[id]
	if consumed == nil {
		consumed = make(capacities)
		state.ConsumedCapacity[id] = consumed
	}
	for name, quantity := range result.ConsumedCapacity {
		sum := consumed[name]
		sum.Add(quantity)
		consumed[name] = sum
	}
}
