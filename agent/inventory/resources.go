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
	// TaintUnhealthy is the key of the taint of unhealthy devices, with the
	// driver's name and a slash before it. Its value is the reason, as TaintValue has it. Its effect is
	// NoSchedule: as with the device plugin, pods that have the device keep it. If the
	// device's health says Evict, it is NoExecute.
	TaintUnhealthy = "unhealthy"
	// TaintInUse is the same for devices that the device plugin handed out.
	TaintInUse = "in-use-by-device-plugin"
	// TaintSourceLost is the same for all devices of a source that ended.
	TaintSourceLost = "source-lost"
	// CapacityShares is the capacity of shared devices that limits how many
	// users they have at the same time. Each takes one if it asks for nothing
	// else.
	CapacityShares resourceapi.QualifiedName = "shares"
)

// Drivers are the names of the drivers that have devices, in the order of their
// first devices.
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

// DriverResources are the pools of one driver, with slices that are valid by the
// rules of the API: what is not is left out, and Unpublished says why. Previous is what was returned for the same driver the last
// time, or nil: devices stay in their slices. A pool of previous that has no
// device any more becomes empty. InUse tells which devices are handed out
// through the device plugin; it may be nil.
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

// published is the device as it is in a ResourceSlice.
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

// SourceTaint is a taint of one of this package's keys. The value may be any text: see
// TaintValue.
func SourceTaint(driver, key, value string) resourceapi.DeviceTaint {
	return resourceapi.DeviceTaint{Key: driver + "/" + key, Value: TaintValue(value), Effect: resourceapi.DeviceTaintEffectNoSchedule}
}

// attributes are those of the source, and the ones that Kubernetes defines.
func (d *Device) attributes() map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	out := maps.Clone(d.Attributes)
	if out == nil {
		return d.standardAttributes()
	}
	maps.Copy(out, d.standardAttributes())
	return out
}

// standardAttributes are those that Kubernetes defines.
func (d *Device) standardAttributes() map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	out := make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute)
	if d.Topology.PCIBusID != "" {
		out[deviceattribute.StandardDeviceAttributePCIBusID] = resourceapi.DeviceAttribute{StringValue: ptr.To(d.Topology.PCIBusID)}
	}
	if d.Topology.PCIeRoot != "" {
		out[deviceattribute.StandardDeviceAttributePCIeRoot] = resourceapi.DeviceAttribute{StringValue: ptr.To(d.Topology.PCIeRoot)}
	}
	if len(d.Topology.NUMANodes) > 0 {
		// The form that is one number needs no feature gate.
		out[deviceattribute.StandardDeviceAttributeNUMANode] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(d.Topology.NUMANodes[0]))}
	}
	return out
}

// sharedCapacity is the capacity of a shared device: a claim that does not say how
// much it needs gets an equal part, not everything.
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
