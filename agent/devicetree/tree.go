// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package devicetree

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/dray-project/dray/agent/cdi"
	"github.com/dray-project/dray/agent/deviceplugin"
	"github.com/dray-project/dray/agent/inventory"
)

// Of returns the device tree of one driver's devices, as resources <driver>/<type>. A device that
// is shared n ways becomes n plugin devices. A device is unhealthy if the inventory says so, or if
// inUse says that it is in use through the other front. inUse may be nil.
func Of(in *inventory.Inventory, driver string, inUse func(inventory.ID) bool) deviceplugin.DeviceTree {
	tree := deviceplugin.NewDeviceTree()
	for pluginID, device := range pluginDevices(in, driver) {
		state := pluginapi.Healthy
		if device.Health.Unhealthy || inUse != nil && inUse(device.ID) {
			state = pluginapi.Unhealthy
		}
		tree.AddDevice(device.Type, pluginID, deviceplugin.NewDeviceInfoWithTopologyHints(
			state, nil, nil, nil, nil, topologyHints(device), cdiSpec(in, device)))
	}
	return tree
}

// pluginDevices returns the devices of a driver that have a type, by their ID in the device plugin:
//
//	gpu-0          an exclusive device
//	gpu-0::1       the second share of a device
//	pool-b/gpu-0   a device whose name exists in several pools of the driver
//
// The name of a device has neither a colon nor a slash.
func pluginDevices(in *inventory.Inventory, driver string) map[string]*inventory.Device {
	ambiguous := ambiguousNames(in, driver)
	devices := make(map[string]*inventory.Device)
	for i := range in.Devices {
		device := &in.Devices[i]
		if device.Driver != driver || device.Type == "" {
			continue
		}
		name := device.ID.Device
		if ambiguous[name] {
			name = device.Pool + "/" + name
		}
		if device.Shares <= 1 {
			devices[name] = device
			continue
		}
		for share := range device.Shares {
			devices[fmt.Sprintf("%s::%d", name, share)] = device
		}
	}
	return devices
}

// ambiguousNames returns the names of devices that exist in several pools of a driver.
func ambiguousNames(in *inventory.Inventory, driver string) map[string]bool {
	pools := make(map[string]string)
	ambiguous := make(map[string]bool)
	for i := range in.Devices {
		device := &in.Devices[i]
		if device.Driver != driver {
			continue
		}
		if pool, known := pools[device.ID.Device]; known && pool != device.Pool {
			ambiguous[device.ID.Device] = true
		}
		pools[device.ID.Device] = device.Pool
	}
	return ambiguous
}

// counterSetID identifies a counter set on a node.
type counterSetID struct{ driver, pool, name string }

// exhausted returns a function that tells whether a device's counters do not suffice for it,
// because of devices that the device plugin has allocated. For claims, the scheduler checks
// counters.
func exhausted(in *inventory.Inventory, holds []inventory.Hold) func(inventory.ID) bool {
	left := make(map[counterSetID]map[string]resource.Quantity)
	for _, set := range in.CounterSets {
		counters := make(map[string]resource.Quantity)
		for name, counter := range set.Counters {
			counters[name] = counter.Value.DeepCopy()
		}
		left[counterSetID{set.Driver, set.Pool, set.Name}] = counters
	}
	held := make(map[inventory.ID]bool)
	for _, hold := range holds {
		device := in.Device(hold.Device)
		if hold.Front != inventory.FrontDevicePlugin || device == nil || held[hold.Device] {
			continue // several shares of a device consume its counters once
		}
		held[hold.Device] = true
		for _, consumption := range device.Consumes {
			counters := left[counterSetID{device.Driver, device.Pool, consumption.CounterSet}]
			for name, counter := range consumption.Counters {
				if rest, known := counters[name]; known {
					rest.Sub(counter.Value)
					counters[name] = rest
				}
			}
		}
	}
	return func(id inventory.ID) bool {
		device := in.Device(id)
		return device != nil && !held[id] && needsMoreThan(device, left)
	}
}

// needsMoreThan tells whether the remaining counters do not suffice for the device.
func needsMoreThan(d *inventory.Device, left map[counterSetID]map[string]resource.Quantity) bool {
	for _, consumption := range d.Consumes {
		counters := left[counterSetID{d.Driver, d.Pool, consumption.CounterSet}]
		for name, counter := range consumption.Counters {
			if rest, known := counters[name]; known && rest.Cmp(counter.Value) < 0 {
				return true
			}
		}
	}
	return false
}

// topologyHints returns the NUMA nodes of a device, or nil if it has none.
func topologyHints(d *inventory.Device) *pluginapi.TopologyInfo {
	if len(d.Topology.NUMANodes) == 0 {
		return nil
	}
	topology := &pluginapi.TopologyInfo{}
	for _, node := range d.Topology.NUMANodes {
		topology.Nodes = append(topology.Nodes, &pluginapi.NUMANode{ID: int64(node)})
	}
	return topology
}

// cdiSpec returns the spec of the CDI device <driver>/<type>=<device>, which all shares of a device
// use. It is nil if a container needs no edits.
func cdiSpec(in *inventory.Inventory, device *inventory.Device) *cdispec.Spec {
	if reflect.DeepEqual(device.Edits, cdispec.ContainerEdits{}) {
		return nil
	}
	name := device.ID.Device
	if ambiguousNames(in, device.Driver)[name] {
		name = strings.ReplaceAll(device.Pool, "/", "_") + ":" + name // no other pool has this name
	}
	return &cdispec.Spec{
		Kind:    cdi.Kind(device.Driver, device.Type),
		Devices: []cdispec.Device{{Name: name, ContainerEdits: device.Edits}},
	}
}
