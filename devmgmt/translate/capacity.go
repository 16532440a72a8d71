// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	inf "gopkg.in/inf.v0"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// counterSet is the name of the set that holds the resources of a pool.
const counterSet = "resources"

// counters translates the resources of a pool, which its devices share. Their names are DNS labels
// in v1, without a domain.
func (t *toV1) counters(resources []v1alpha1.ResourceCapacity, l *losses) map[string]resourceapi.Counter {
	if len(resources) == 0 {
		return nil
	}
	if len(resources) > resourceapi.ResourceSliceMaxCountersPerCounterSet {
		l.whole(specPath.Child("resources"), "v1 allows %d", resourceapi.ResourceSliceMaxCountersPerCounterSet)
	}
	counters := make(map[string]resourceapi.Counter, len(resources))
	for i, r := range resources {
		at := specPath.Child("resources").Index(i)
		if len(validation.IsDNS1123Label(r.Name)) > 0 {
			l.drop(at.Child("name"), "%s: %s", r.Name, wantLabel)
			continue
		}
		counters[r.Name] = resourceapi.Counter{Value: r.Capacity}
	}
	return counters
}

// consume translates a device's requests of pool resources to counter consumption. Counters of v1
// have no block size, so amounts are rounded up here. That is exact, because a device's consumption
// does not depend on the claim.
func consume(device *resourceapi.Device, requests map[string]resource.Quantity, resources []v1alpha1.ResourceCapacity, counters map[string]resourceapi.Counter, at *field.Path, l *losses) {
	taken := make(map[string]resourceapi.Counter, len(requests))
	for _, r := range resources {
		amount, requested := requests[r.Name]
		if _, known := counters[r.Name]; !requested {
			continue
		} else if !known {
			l.drop(at.Key(r.Name), "the resource of the pool has no translation")
			continue
		}
		taken[r.Name] = resourceapi.Counter{Value: inBlocks(amount, blockSize(r))}
	}
	if len(taken) > 0 {
		device.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: counterSet, Counters: taken}}
	}
}

func blockSize(r v1alpha1.ResourceCapacity) resource.Quantity {
	if r.BlockSize == nil {
		return *resource.NewQuantity(1, resource.DecimalSI)
	}
	return *r.BlockSize
}

// inBlocks rounds an amount up to a multiple of the block size, with exact arithmetic.
func inBlocks(amount, block resource.Quantity) resource.Quantity {
	a, b := exact(amount), exact(block)
	if b.Sign() <= 0 {
		return amount
	}
	n := new(inf.Dec).QuoRound(a, b, 0, inf.RoundCeil)
	rounded := n.Mul(n, b)
	if rounded.Cmp(a) == 0 {
		return amount
	}
	return *resource.NewDecimalQuantity(*rounded, amount.Format)
}

// exact returns the number without changing the quantity's internal form.
func exact(q resource.Quantity) *inf.Dec {
	q = q.DeepCopy()
	return q.AsDec()
}

// capacities translates a device's own resources. A claim that shares the device consumes what it
// requests, rounded up to blocks, and nothing of resources that it does not request.
func (t *toV1) capacities(device *resourceapi.Device, resources []v1alpha1.ResourceCapacity, driver string, at *field.Path, l *losses) {
	if len(resources) == 0 {
		return
	}
	device.AllowMultipleAllocations = ptr.To(true)
	device.Capacity = make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity, len(resources))
	for i, r := range resources {
		name, err := t.keyIn(r.Name, driver)
		if err != nil {
			l.drop(at.Index(i).Child("name"), "%s: %v", r.Name, err)
			continue
		}
		if err := checkPolicy(r); err != nil {
			l.drop(at.Index(i), "%s: %v", r.Name, err)
			continue
		}
		device.Capacity[name] = resourceapi.DeviceCapacity{Value: r.Capacity, RequestPolicy: inSteps(blockSize(r))}
	}
}

// inSteps returns the request policy of a resource with a block size.
func inSteps(block resource.Quantity) *resourceapi.CapacityRequestPolicy {
	none := *resource.NewQuantity(0, block.Format)
	return &resourceapi.CapacityRequestPolicy{
		Default:    &none,
		ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: &none, Step: &block},
	}
}

// maxWhole bounds amounts that v1 handles as 64-bit integers.
const maxWhole = 1 << 61

// checkPolicy returns an error if v1 has no request policy for the resource.
func checkPolicy(r v1alpha1.ResourceCapacity) error {
	block := blockSize(r)
	switch {
	case !isWhole(block):
		return errors.New("v1 takes blocks as whole numbers")
	case block.Cmp(r.Capacity) > 0:
		return fmt.Errorf("a block of %s is more than there is, which v1 does not allow", block.String())
	case r.Capacity.CmpInt64(maxWhole) > 0:
		return fmt.Errorf("is more than %d", maxWhole)
	}
	return nil
}

func isWhole(q resource.Quantity) bool {
	return q.Cmp(*resource.NewQuantity(q.Value(), q.Format)) == 0
}

// others returns the sorted names of amounts other than the number of devices.
func others(amounts map[string]resource.Quantity) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(amounts)), func(name string) bool { return name == v1alpha1.ResourceCount })
}
