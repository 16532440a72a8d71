// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"maps"
	"slices"

	"github.com/blang/semver/v4"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// indexedName is the format of slices' names. The number has a fixed length. So the names of a
// pool's slices sort by number, and names of different pools never coincide.
const indexedName = "%s-%04d"

const maxSlices = 10000

const wantLabel = "v1 wants a DNS label: at most 63 lower case letters, digits and hyphens"

// slices translates a pool. Devices are distributed over slices in order. The shared counters have
// a slice of their own, before them.
func (t *toV1) slices(pool *v1alpha1.DevicePool) ([]*resourceapi.ResourceSlice, []Reason) {
	l := lossesOf("DevicePool", pool)
	spec := &pool.Spec
	if len(spec.Driver) > resourceapi.DriverNameMaxLength {
		l.whole(specPath.Child("driver"), "v1 allows %d characters", resourceapi.DriverNameMaxLength)
	}
	if len(fmt.Sprintf(indexedName, pool.Name, 0)) > validation.DNS1123SubdomainMaxLength {
		l.whole(metadataPath.Child("name"), "is too long for names of slices made from it")
	}
	if pool.Status.AvailableDevices != 0 {
		l.report(statusPath.Child("availableDevices"), "a slice does not say how much of it is in use")
	}
	counters := t.counters(spec.Resources, l)
	var devices []resourceapi.Device
	size := resourceapi.ResourceSliceMaxDevices
	for i := range spec.Devices {
		device, ok := t.device(pool, i, counters, l)
		if !ok {
			continue
		}
		if len(device.ConsumesCounters) > 0 {
			size = resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures
		}
		devices = append(devices, device)
	}
	contents := slices.Collect(slices.Chunk(devices, size))
	if len(contents) >= maxSlices {
		l.whole(specPath.Child("devices"), "these are more than %d slices hold", maxSlices)
	}
	if l.fatal() {
		return nil, l.list
	}
	return published(pool, counters, contents), l.list
}

// published returns the slices of a pool.
func published(pool *v1alpha1.DevicePool, counters map[string]resourceapi.Counter, contents [][]resourceapi.Device) []*resourceapi.ResourceSlice {
	var all []*resourceapi.ResourceSlice
	add := func() *resourceapi.ResourceSliceSpec {
		slice := &resourceapi.ResourceSlice{TypeMeta: typeMeta("ResourceSlice"), ObjectMeta: metadata(pool.ObjectMeta)}
		slice.Name = fmt.Sprintf(indexedName, pool.Name, len(all))
		slice.Spec = resourceapi.ResourceSliceSpec{Driver: pool.Spec.Driver, NodeName: pool.Spec.NodeName}
		if pool.Spec.NodeName == nil {
			slice.Spec.AllNodes = ptr.To(true)
		}
		all = append(all, slice)
		return &slice.Spec
	}
	if len(counters) > 0 {
		add().SharedCounters = []resourceapi.CounterSet{{Name: counterSet, Counters: counters}}
	}
	for _, devices := range contents {
		add().Devices = devices
	}
	for _, slice := range all {
		slice.Spec.Pool = resourceapi.ResourcePool{Name: pool.Name, Generation: 1, ResourceSliceCount: int64(len(all))}
	}
	return all
}

// device translates one device. It reports whether there is a translation.
func (t *toV1) device(pool *v1alpha1.DevicePool, i int, counters map[string]resourceapi.Counter, l *losses) (resourceapi.Device, bool) {
	of, at := &pool.Spec.Devices[i], specPath.Child("devices").Index(i)
	device := resourceapi.Device{Name: of.Name}
	if len(validation.IsDNS1123Label(of.Name)) > 0 {
		l.drop(at.Child("name"), "%s: %s", of.Name, wantLabel)
		return device, false
	}
	t.capacities(&device, of.Resources, pool.Spec.Driver, at.Child("resources"), l)
	own := make(map[string]bool, len(of.Attributes))
	for j, attribute := range of.Attributes {
		own[attribute.Name] = true
		t.attribute(&device, attribute, pool.Spec.Driver, at.Child("attributes").Index(j), l)
	}
	for j, attribute := range pool.Spec.Attributes {
		if !own[attribute.Name] {
			t.attribute(&device, attribute, pool.Spec.Driver, specPath.Child("attributes").Index(j), l)
		}
	}
	consume(&device, of.Requests, pool.Spec.Resources, counters, at.Child("requests"), l)
	if n := len(device.Attributes) + len(device.Capacity); n > resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		l.drop(at, "it has %d attributes and resources, v1 allows %d", n, resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice)
		return device, false
	}
	t.share(&device, at, l)
	return device, true
}

// attribute adds an attribute to a device. Quantities become capacities in v1. Claims cannot
// consume them unless the device can be shared.
func (t *toV1) attribute(device *resourceapi.Device, attribute v1alpha1.Attribute, driver string, at *field.Path, l *losses) {
	name, err := t.keyIn(attribute.Name, driver)
	if err != nil {
		l.drop(at.Child("name"), "%s: %v", attribute.Name, err)
		return
	}
	if attribute.QuantityValue != nil {
		if device.AllowMultipleAllocations != nil {
			l.drop(at.Child("quantityValue"), "%s: in v1 the first share would take all of it, because device %s has resources to share", attribute.Name, device.Name)
			return
		}
		if device.Capacity == nil {
			device.Capacity = make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity)
		}
		device.Capacity[name] = resourceapi.DeviceCapacity{Value: *attribute.QuantityValue}
		return
	}
	value, err := attributeValue(attribute)
	if err != nil {
		l.drop(at, "%s: %v", attribute.Name, err)
		return
	}
	if device.Attributes == nil {
		device.Attributes = make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute)
	}
	device.Attributes[name] = value
}

// share publishes attributes that claims compare over devices of several drivers also under a
// common name.
func (t *toV1) share(device *resourceapi.Device, at *field.Path, l *losses) {
	for _, name := range slices.Sorted(maps.Keys(t.common)) {
		own, common := resourceapi.QualifiedName(name), resourceapi.QualifiedName(commonDomain+"/"+name)
		_, isAttribute := device.Attributes[common]
		_, isCapacity := device.Capacity[common]
		if isAttribute || isCapacity {
			l.drop(at, "it has %s and %s, and claims compare %s of several drivers", name, common, name)
			continue
		}
		if value, found := device.Attributes[own]; found {
			device.Attributes[common] = value
		}
		if value, found := device.Capacity[own]; found && value.RequestPolicy == nil {
			device.Capacity[common] = value
		}
	}
}

func attributeValue(attribute v1alpha1.Attribute) (resourceapi.DeviceAttribute, error) {
	var value resourceapi.DeviceAttribute
	var text string
	switch {
	case attribute.StringValue != nil:
		value.StringValue, text = attribute.StringValue, *attribute.StringValue
	case attribute.SemVerValue != nil:
		text = string(*attribute.SemVerValue)
		if _, err := semver.Parse(text); err != nil {
			return value, fmt.Errorf("v1 wants a version as semver.org 2.0.0 has it: %w", err)
		}
		value.VersionValue = &text
	case attribute.IntValue != nil:
		value.IntValue = ptr.To(int64(*attribute.IntValue))
	}
	if len(text) > resourceapi.DeviceAttributeMaxValueLength {
		return value, fmt.Errorf("the value has %d characters, v1 allows %d", len(text), resourceapi.DeviceAttributeMaxValueLength)
	}
	return value, nil
}
