// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/resourceslice"
)

const (
	// TaintUnhealthy is the name part of the key of the taint for unhealthy devices, after the
	// driver's name and a slash. Its value is the reason, converted by TaintValue. Its effect is
	// NoSchedule, so that pods keep the device, as with the device plugin. If Health.Evict is set,
	// it is NoExecute.
	TaintUnhealthy = "unhealthy"
	// TaintInUse is such a key for devices that the device plugin has allocated.
	TaintInUse = "in-use-by-device-plugin"
	// TaintSourceLost is such a key for all devices of a source that has ended.
	TaintSourceLost = "source-lost"
	// CapacityShares is the capacity of a shared device that limits its number of users. A claim
	// that does not request it consumes one.
	CapacityShares resourceapi.QualifiedName = "shares"
)

// Drivers returns the drivers that have devices, in the order of their first devices.
func (in *Inventory) Drivers() []string {
	var names []string
	seen := make(map[string]bool)
	for i := range in.Devices {
		if name := in.Devices[i].Driver; !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// DriverResources returns the pools of one driver, with valid slices. It leaves out what the API
// server would refuse: see Unpublished. previous is the last result for this driver, or nil.
// Devices stay in their slices, and a pool without devices becomes empty. inUse tells which devices
// the device plugin has allocated, and may be nil.
func (in *Inventory) DriverResources(driver string, previous *resourceslice.DriverResources, inUse func(ID) bool) *resourceslice.DriverResources {
	contents := in.contents(driver, inUse).pools
	before := make(map[string]resourceslice.Pool)
	if previous != nil {
		before = previous.Pools
	}
	for name := range before {
		if _, known := contents[name]; !known {
			contents[name] = resourceslice.Slice{}
		}
	}
	out := &resourceslice.DriverResources{Pools: make(map[string]resourceslice.Pool, len(contents))}
	for name, content := range contents {
		out.Pools[name] = resourceslice.Pool{Slices: resourceslice.Split(before[name].Slices, content)}
	}
	return out
}

// published returns the device for a ResourceSlice.
func (d *Device) published(inUse bool) resourceapi.Device {
	out := resourceapi.Device{
		Name:             d.ID.Device,
		Attributes:       d.attributes(),
		Capacity:         d.Capacity,
		ConsumesCounters: d.Consumes,
	}
	if d.Shares > 1 {
		out.AllowMultipleAllocations = ptr.To(true)
		out.Capacity = d.sharedCapacity()
	}
	out.Taints = slices.Clone(d.Taints)
	if d.Health.Unhealthy {
		taint := d.taint(TaintUnhealthy, d.Health.Reason)
		if d.Health.Evict {
			taint.Effect = resourceapi.DeviceTaintEffectNoExecute
		}
		out.Taints = append(out.Taints, taint)
	}
	if inUse {
		out.Taints = append(out.Taints, d.taint(TaintInUse, ""))
	}
	return out
}

func (d *Device) taint(key, value string) resourceapi.DeviceTaint {
	return SourceTaint(d.Driver, key, value)
}

// SourceTaint returns a taint with one of the keys of this package. The value may be any text,
// which is converted by TaintValue.
func SourceTaint(driver, key, value string) resourceapi.DeviceTaint {
	return resourceapi.DeviceTaint{Key: driver + "/" + key, Value: TaintValue(value), Effect: resourceapi.DeviceTaintEffectNoSchedule}
}

// attributes returns the source's attributes and those that Kubernetes defines.
func (d *Device) attributes() map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	out := make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute)
	maps.Copy(out, d.Attributes)
	maps.Copy(out, d.standardAttributes())
	return out
}

// standardAttributes returns the attributes that Kubernetes defines.
func (d *Device) standardAttributes() map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	out := make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute)
	if d.Topology.PCIBusID != "" {
		out[deviceattribute.StandardDeviceAttributePCIBusID] = resourceapi.DeviceAttribute{StringValue: ptr.To(d.Topology.PCIBusID)}
	}
	if d.Topology.PCIeRoot != "" {
		out[deviceattribute.StandardDeviceAttributePCIeRoot] = resourceapi.DeviceAttribute{StringValue: ptr.To(d.Topology.PCIeRoot)}
	}
	if len(d.Topology.NUMANodes) > 0 {
		// A single number needs no feature gate, unlike a list.
		out[deviceattribute.StandardDeviceAttributeNUMANode] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(d.Topology.NUMANodes[0]))}
	}
	return out
}

// sharedCapacity returns the capacity of a shared device. A claim without a request for capacity
// gets an equal part, not everything.
func (d *Device) sharedCapacity() map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
	out := make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity, len(d.Capacity)+1)
	for name, capacity := range d.Capacity {
		if capacity.RequestPolicy == nil {
			part := resource.NewQuantity(capacity.Value.Value()/int64(d.Shares), capacity.Value.Format)
			capacity.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: part}
		}
		out[name] = capacity
	}
	one := resource.NewQuantity(1, resource.DecimalSI)
	out[CapacityShares] = resourceapi.DeviceCapacity{
		Value:         *resource.NewQuantity(int64(d.Shares), resource.DecimalSI),
		RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: one, ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: one}},
	}
	return out
}
