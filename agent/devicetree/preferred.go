// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package devicetree

import (
	"cmp"
	"slices"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/dray-project/dray/agent/deviceplugin"
	"github.com/dray-project/dray/agent/inventory"
)

var _ deviceplugin.PreferredAllocator = &Scanner{}

// GetPreferredAllocation has kubelet take devices in another order than schedulers do. They give
// claims the first device that fits, and kubelet has a claim prepared only after it has chosen a
// pod's plugin devices. If it chose at random, it would give away devices of claims that are
// allocated and not prepared yet. So shares of devices that are in use are first, then the last
// device of the inventory.
func (s *Scanner) GetPreferredAllocation(request *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	in := s.latest()
	if in == nil {
		return nil, errNoDevices
	}
	rank := s.rank(in)
	response := &pluginapi.PreferredAllocationResponse{}
	for _, container := range request.GetContainerRequests() {
		chosen := slices.Clone(container.GetMustIncludeDeviceIDs())
		others := slices.DeleteFunc(slices.Clone(container.GetAvailableDeviceIDs()), func(id string) bool { return slices.Contains(chosen, id) })
		slices.SortFunc(others, func(a, b string) int { return cmp.Or(cmp.Compare(rank[a], rank[b]), cmp.Compare(a, b)) })
		missing := max(0, int(container.GetAllocationSize())-len(chosen))
		chosen = append(chosen, others[:min(missing, len(others))]...)
		response.ContainerResponses = append(response.ContainerResponses, &pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: chosen})
	}
	return response, nil
}

// rank returns the order in which plugin devices are given away, by their ID. Shares of a device
// have the same rank.
func (s *Scanner) rank(in *inventory.Inventory) map[string]int {
	held := make(map[inventory.ID]bool)
	for _, hold := range s.ledger.Holds() {
		held[hold.Device] = held[hold.Device] || s.ours(hold)
	}
	position := make(map[inventory.ID]int, len(in.Devices))
	for i := range in.Devices {
		position[in.Devices[i].ID] = i
	}
	rank := make(map[string]int)
	for pluginID, device := range pluginDevices(in, s.driver) {
		rank[pluginID] = -position[device.ID]
		if held[device.ID] {
			rank[pluginID] -= len(in.Devices)
		}
	}
	return rank
}
