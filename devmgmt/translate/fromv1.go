// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// fromV1 is the state of a translation to the prototype.
type fromV1 struct {
	classes map[string]*v1alpha1.DeviceClass // already translated, by name
	pools   map[string]string                // driver by pool name
	found   referents
}

// FromV1 translates to the prototype. The reasons name what the prototype cannot express. Without
// reasons, the translation is complete. It includes the objects with configuration.
//
// Names of slices, generations of pools and metadata set by an API server are not kept, since
// nothing depends on them.
func FromV1(in V1) (Prototype, []Reason) {
	t := &fromV1{
		classes: make(map[string]*v1alpha1.DeviceClass), pools: make(map[string]string),
		found: make(referents),
	}
	var out Prototype
	var reasons []Reason
	for _, slices := range byPool(in.Slices) {
		pool, lost := t.pool(slices)
		if reasons = append(reasons, lost...); pool != nil {
			out.Pools = append(out.Pools, pool)
		}
	}
	for _, class := range in.Classes {
		translated, lost := t.class(class)
		if reasons = append(reasons, lost...); translated != nil {
			out.Classes = append(out.Classes, translated)
			t.classes[class.Name] = translated
		}
	}
	for _, claim := range in.Claims {
		translated, lost := t.claim(claim)
		if reasons = append(reasons, lost...); translated != nil {
			out.Claims = append(out.Claims, translated)
		}
	}
	out.Referents = slices.SortedFunc(maps.Values(t.found), func(a, b *unstructured.Unstructured) int {
		return cmp.Compare(referentOf(a).String(), referentOf(b).String())
	})
	return out, reasons
}

// byPool returns the slices of each pool's latest generation, sorted by name. Pools are in the
// order of the input.
func byPool(all []*resourceapi.ResourceSlice) [][]*resourceapi.ResourceSlice {
	type id struct{ driver, pool string }
	position := make(map[id]int)
	var pools [][]*resourceapi.ResourceSlice
	for _, slice := range all {
		at, known := position[id{slice.Spec.Driver, slice.Spec.Pool.Name}]
		switch {
		case !known:
			position[id{slice.Spec.Driver, slice.Spec.Pool.Name}] = len(pools)
			pools = append(pools, []*resourceapi.ResourceSlice{slice})
		case slice.Spec.Pool.Generation > pools[at][0].Spec.Pool.Generation:
			pools[at] = []*resourceapi.ResourceSlice{slice}
		case slice.Spec.Pool.Generation == pools[at][0].Spec.Pool.Generation:
			pools[at] = append(pools[at], slice)
		}
	}
	for _, slicesOfPool := range pools {
		slices.SortFunc(slicesOfPool, func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
	}
	return pools
}

// unhandled returns the JSON names of set fields of a struct that are not in handled.
func unhandled(object any, handled ...string) []string {
	var names []string
	value := reflect.Indirect(reflect.ValueOf(object))
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		if !slices.Contains(handled, name) && !value.Field(i).IsZero() {
			names = append(names, name)
		}
	}
	return names
}

// refuse adds a reason for each set field that the translation does not handle.
func refuse(l *losses, at *field.Path, object any, handled ...string) {
	for _, name := range unhandled(object, handled...) {
		l.drop(at.Child(name), "the prototype has no such field")
	}
}

func (t *fromV1) pool(all []*resourceapi.ResourceSlice) (*v1alpha1.DevicePool, []Reason) {
	first := &all[0].Spec
	l := lossesOf("ResourceSlice", all[0])
	pool := &v1alpha1.DevicePool{TypeMeta: prototypeMeta("DevicePool"), ObjectMeta: metadata(all[0].ObjectMeta)}
	pool.Name = first.Pool.Name
	pool.Spec.Driver, pool.Spec.NodeName = first.Driver, first.NodeName
	name := specPath.Child("pool", "name")
	if len(validation.IsDNS1123Subdomain(pool.Name)) > 0 {
		l.whole(name, "%s: the prototype wants the name of an object, a DNS name", pool.Name)
	}
	if driver, taken := t.pools[pool.Name]; taken {
		l.whole(name, "a pool of driver %s has the same name", driver)
	}
	if first.Pool.ResourceSliceCount != int64(len(all)) {
		l.whole(specPath.Child("pool", "resourceSliceCount"), "it is %d, but %d are there", first.Pool.ResourceSliceCount, len(all))
	}
	for _, slice := range all {
		own := lossesOf("ResourceSlice", slice)
		t.slice(pool, slice, own)
		l.list = append(l.list, own.list...)
	}
	if len(pool.Spec.Devices) == 0 {
		l.whole(specPath.Child("devices"), "the prototype wants at least one in a pool")
	}
	if l.fatal() {
		return nil, l.list
	}
	t.pools[pool.Name] = pool.Spec.Driver
	factor(&pool.Spec)
	v1alpha1.SetPoolDefaults(pool)
	return pool, l.list
}

// slice adds the content of a slice to its pool.
func (t *fromV1) slice(pool *v1alpha1.DevicePool, slice *resourceapi.ResourceSlice, l *losses) {
	spec := &slice.Spec
	if !ptr.Equal(spec.NodeName, pool.Spec.NodeName) || spec.NodeName == nil && !ptr.Deref(spec.AllNodes, false) {
		l.whole(specPath.Child("nodeName"), "the prototype has pools of one node, or of all")
	}
	refuse(l, specPath, spec, "driver", "pool", "nodeName", "allNodes", "devices", "sharedCounters")
	meta := metadata(slice.ObjectMeta)
	if meta.Name = pool.Name; !reflect.DeepEqual(meta, metadata(pool.ObjectMeta)) {
		l.drop(metadataPath, "it differs from that of the first slice of the pool")
	}
	for i, set := range spec.SharedCounters {
		at := specPath.Child("sharedCounters").Index(i)
		if len(pool.Spec.Resources) > 0 {
			l.whole(at, "the prototype has one set of resources for all devices of a pool")
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(set.Counters)) {
			pool.Spec.Resources = append(pool.Spec.Resources, v1alpha1.ResourceCapacity{Name: name, Capacity: set.Counters[name].Value})
		}
	}
	for i := range spec.Devices {
		t.device(pool, &spec.Devices[i], specPath.Child("devices").Index(i), l)
	}
}

func (t *fromV1) device(pool *v1alpha1.DevicePool, of *resourceapi.Device, at *field.Path, l *losses) {
	refuse(l, at, of, "name", "attributes", "capacity", "allowMultipleAllocations", "consumesCounters")
	device := v1alpha1.Device{Name: of.Name}
	names := make(map[string]bool)
	for _, key := range slices.Sorted(maps.Keys(of.Attributes)) {
		attribute := v1alpha1.Attribute{Name: unqualify(key, pool.Spec.Driver)}
		value := of.Attributes[key]
		attribute.StringValue = value.StringValue
		if value.IntValue != nil {
			attribute.IntValue = ptr.To(int(*value.IntValue))
		}
		if value.VersionValue != nil {
			attribute.SemVerValue = ptr.To(v1alpha1.SemVer(*value.VersionValue))
		}
		for _, name := range unhandled(&value, "string", "int", "version") {
			l.drop(at.Child("attributes").Key(string(key)).Child(name), "the prototype has no attributes of this type")
		}
		switch {
		case len(unhandled(&value, "bool", "bools", "ints", "strings", "versions")) == 0:
		case names[attribute.Name]:
			l.drop(at.Child("attributes").Key(string(key)), "it is there twice, with and without the name of the driver")
		default:
			device.Attributes, names[attribute.Name] = append(device.Attributes, attribute), true
		}
	}
	t.capacities(pool.Spec.Driver, &device, of, names, at.Child("capacity"), l)
	for i, consumption := range of.ConsumesCounters {
		if i > 0 {
			l.drop(at.Child("consumesCounters").Index(i), "the prototype has one set of resources for all devices of a pool")
			continue
		}
		for name, counter := range consumption.Counters {
			device.Requests = withAmount(device.Requests, name, counter.Value)
		}
	}
	slices.SortFunc(device.Attributes, func(a, b v1alpha1.Attribute) int { return cmp.Compare(a.Name, b.Name) })
	pool.Spec.Devices = append(pool.Spec.Devices, device)
}

// capacities translates capacities: to resources of a device that can be shared, and otherwise to
// quantity attributes.
func (t *fromV1) capacities(driver string, device *v1alpha1.Device, of *resourceapi.Device, names map[string]bool, at *field.Path, l *losses) {
	shared := ptr.Deref(of.AllowMultipleAllocations, false)
	for _, key := range slices.Sorted(maps.Keys(of.Capacity)) {
		capacity, name := of.Capacity[key], unqualify(key, driver)
		switch {
		case !shared && names[name]:
			l.drop(at.Key(string(key)), "there is an attribute of the same name")
		case !shared && capacity.RequestPolicy != nil:
			l.drop(at.Key(string(key)).Child("requestPolicy"), "the prototype lets nobody take parts of a device that is not shared")
		case !shared:
			device.Attributes = append(device.Attributes, v1alpha1.Attribute{Name: name, QuantityValue: &capacity.Value})
		case !isInSteps(capacity.RequestPolicy):
			l.drop(at.Key(string(key)).Child("requestPolicy"), "the prototype has amounts in blocks of one size, and takes nothing of what is not requested")
		default:
			device.Resources = append(device.Resources, v1alpha1.ResourceCapacity{Name: name, Capacity: capacity.Value, BlockSize: capacity.RequestPolicy.ValidRange.Step})
		}
	}
	if shared && len(device.Resources) == 0 {
		l.drop(at, "a device of the prototype that can be shared has resources to share")
	}
}

// isInSteps reports whether a policy has the form that inSteps returns.
func isInSteps(policy *resourceapi.CapacityRequestPolicy) bool {
	if policy == nil || policy.Default == nil || !policy.Default.IsZero() || len(policy.ValidValues) > 0 || policy.ValidRange == nil {
		return false
	}
	r := policy.ValidRange
	return r.Min != nil && r.Min.IsZero() && r.Max == nil && r.Step != nil && r.Step.Sign() > 0
}

// unqualify returns the prototype's name of an attribute or a capacity.
func unqualify(key resourceapi.QualifiedName, driver string) string {
	domain, id, isQualified := strings.Cut(string(key), "/")
	if !isQualified {
		return string(key)
	}
	return nameOf(domain, id, driver)
}

// sameText reports whether attributes are equal, including their text: 1Gi and 1073741824 differ.
func sameText(a, b v1alpha1.Attribute) bool {
	return a.Equal(b) && (a.QuantityValue == nil || a.QuantityValue.String() == b.QuantityValue.String())
}

// factor moves attributes that all devices share to the pool.
func factor(pool *v1alpha1.DevicePoolSpec) {
	for _, attribute := range pool.Devices[0].Attributes {
		same := func(other v1alpha1.Attribute) bool { return sameText(attribute, other) }
		if !slices.ContainsFunc(pool.Devices, func(d v1alpha1.Device) bool { return !slices.ContainsFunc(d.Attributes, same) }) {
			pool.Attributes = append(pool.Attributes, attribute)
		}
	}
	for i := range pool.Devices {
		device := &pool.Devices[i]
		device.Attributes = slices.DeleteFunc(device.Attributes, func(a v1alpha1.Attribute) bool { return slices.ContainsFunc(pool.Attributes, a.Equal) })
		if len(device.Attributes) == 0 {
			device.Attributes = nil
		}
	}
}
