// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// Device is a device as expressions see it. It keeps references to the API object, which must not change
// afterwards. It is safe for concurrent use.
type Device struct {
	driver string
	object *resourceapi.Device
	err    error // why no expression can be evaluated

	// Both are made when they are first needed. Concurrent calls may each make one.
	known    atomic.Pointer[deviceIndex]       // for evaluation
	digested atomic.Pointer[[sha256.Size]byte] // of everything an expression can see
}

// NewDevice prepares a device of a driver. If an attribute has no value, or a version is not semantic, each
// evaluation returns an error.
func NewDevice(driver string, device *resourceapi.Device) *Device {
	return &Device{driver: driver, object: device, err: checkAttributes(device)}
}

func (d *Device) index() *deviceIndex {
	if d.known.Load() == nil {
		d.known.CompareAndSwap(nil, d.makeIndex())
	}
	return d.known.Load()
}

func (d *Device) digest() [sha256.Size]byte {
	if d.digested.Load() == nil {
		digest := d.makeDigest()
		d.digested.CompareAndSwap(nil, &digest)
	}
	return *d.digested.Load()
}

// checkAttributes returns the error of the first invalid attribute, by name.
func checkAttributes(device *resourceapi.Device) error {
	var worst resourceapi.QualifiedName
	var err error
	for name, attribute := range device.Attributes {
		if problem := checkAttribute(&attribute); problem != nil && (err == nil || name < worst) {
			worst, err = name, problem
		}
	}
	if err != nil {
		return fmt.Errorf("attribute %s: %w", worst, err)
	}
	return nil
}

func (d *Device) multiple() bool {
	return d.object.AllowMultipleAllocations != nil && *d.object.AllowMultipleAllocations
}

// deviceIndex holds the converted values of a device.
type deviceIndex struct {
	attributes openTable
	capacities []located
	// whole is the activation for programs that do not read capacities. Other evaluations need their own
	// quantities, see capacityTable.
	whole activation
}

// located is a key in a map of the API object, with its qualified name.
type located struct {
	Name
	key resourceapi.QualifiedName
}

// locate returns the qualified names in a map, sorted. A bare name is in the domain of the driver. If the same
// name exists with an explicit domain, the latter wins.
func locate[V any](driver string, m map[resourceapi.QualifiedName]V) []located {
	names := make([]located, 0, len(m))
	for key := range maps.Keys(m) {
		name := Name{driver, string(key)}
		if domain, id, qualified := strings.Cut(string(key), "/"); qualified {
			name = Name{domain, id}
		}
		names = append(names, located{name, key})
	}
	slices.SortFunc(names, func(a, b located) int {
		return cmp.Or(compareNames(a.Name, b.Name), cmp.Compare(len(b.key), len(a.key)))
	})
	return slices.CompactFunc(names, func(a, b located) bool { return a.Name == b.Name })
}

func (d *Device) makeIndex() *deviceIndex {
	w := theSharedEnv()
	names := locate(d.driver, d.object.Attributes)
	values := make([]ref.Val, len(names))
	for i, name := range names {
		attribute := d.object.Attributes[name.key]
		values[i] = attributeValue(w, &attribute)
	}
	index := &deviceIndex{
		attributes: byDomain(names, values, false),
		capacities: locate(d.driver, d.object.Capacity),
	}
	index.whole = d.bind(index.attributes, d.capacityTable(index.capacities))
	return index
}

// capacityTable copies all capacities: operations on a quantity can change its representation, and thereby the
// results of later operations.
func (d *Device) capacityTable(names []located) openTable {
	quantities := make([]resource.Quantity, len(names))
	values := make([]ref.Val, len(names))
	for i, name := range names {
		quantities[i] = d.object.Capacity[name.key].Value
		values[i] = apiservercel.Quantity{Quantity: &quantities[i]}
	}
	return byDomain(names, values, true)
}

// byDomain arranges values as a map of maps.
func byDomain(names []located, values []ref.Val, quantities bool) openTable {
	outer := &table{}
	for len(names) > 0 {
		domain := names[0].Domain
		inner := &table{quantities: quantities}
		for len(names) > 0 && names[0].Domain == domain {
			inner.keys = append(inner.keys, names[0].ID)
			inner.values = append(inner.values, values[0])
			names, values = names[1:], values[1:]
		}
		outer.keys = append(outer.keys, domain)
		outer.values = append(outer.values, closedTable{inner})
	}
	return openTable{outer}
}

// activation binds the variable "device". It implements [interpreter.Activation].
type activation struct{ device ref.Val }

func (d *Device) bind(attributes, capacities openTable) activation {
	return activation{closedTable{&table{
		keys:   []string{multipleName, attributesName, capacityName, driverName},
		values: []ref.Val{types.Bool(d.multiple()), attributes, capacities, types.String(d.driver)},
	}}}
}

// ResolveName implements [interpreter.Activation].
func (b activation) ResolveName(name string) (any, bool) {
	return b.device, name == deviceName
}

// Parent implements [interpreter.Activation].
func (b activation) Parent() interpreter.Activation { return nil }

// variables returns the activation for one evaluation.
func (d *Device) variables(r *Reads) activation {
	index := d.index()
	if r.Exact && len(r.Capacities) == 0 {
		return index.whole
	}
	return d.bind(index.attributes, d.capacityTable(index.capacities))
}
