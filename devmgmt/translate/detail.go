// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// resolve finds the class of a detail. Without it, the detail cannot be translated.
func (t *toV1) resolve(a *ask, l *losses) bool {
	if a.detail.DeviceType != nil {
		return t.resolveType(a, *a.detail.DeviceType, l)
	}
	name := ptr.Deref(a.detail.DeviceClass, "")
	if a.class = t.classes[name]; a.class == nil {
		l.whole(a.at.Child("deviceClass"), "DeviceClass %s is not there: it decides what driver is meant and whether there is admin access", name)
	}
	return a.class != nil
}

// resolveType finds the classes of a device type. Classes with admin access are excluded, since
// access to them is controlled by name. v1 supports only the first class.
func (t *toV1) resolveType(a *ask, deviceType string, l *losses) bool {
	at, classes := a.at.Child("deviceType"), t.byType[deviceType]
	if len(classes) == 0 {
		l.whole(at, "%s: v1 requests a class, and no DeviceClass of this type without admin access is there", deviceType)
		return false
	}
	if a.class = classes[0]; t.extended {
		a.others = classes[1:]
		return true
	}
	names := make([]string, len(classes))
	for i, class := range classes {
		names[i] = class.Name
	}
	l.drop(at, "%s: v1 requests a class, and any class of this type will do, also one that is made later: without the type, it is class %s (there are: %s)",
		deviceType, names[0], strings.Join(names, ", "))
	return true
}

// extend returns the parts of a request that v1 cannot express.
func (t *toV1) extend(a *ask, l *losses) extension.Request {
	more := extension.Request{UpTo: a.upTo, Totals: a.totals}
	for _, class := range a.others {
		more.Classes = append(more.Classes, extension.Class{
			DeviceClassName: class.Name,
			Selectors:       t.constraints(a.detail.Constraints, class.Spec.Driver, a.at.Child("constraints"), l),
		})
	}
	return more
}

// exactly translates a detail to an exact request.
func (t *toV1) exactly(a *ask, l *losses) *resourceapi.ExactDeviceRequest {
	request := &resourceapi.ExactDeviceRequest{
		DeviceClassName: a.class.Name,
		Selectors:       t.constraints(a.detail.Constraints, a.class.Spec.Driver, a.at.Child("constraints"), l),
		AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
		Count:           t.count(a, l),
	}
	if a.admin() {
		request.AdminAccess = ptr.To(true)
		if driver := a.class.Spec.Driver; t.vocabularies.of(driver).partitioned {
			l.drop(a.at.Child("deviceClass"), "class %s has admin access and driver %s has partitions, for which v1 takes resources of the pool even so", a.class.Name, driver)
		}
	}
	t.amounts(a, request, l)
	for _, name := range others(a.detail.Limits) {
		l.drop(a.at.Child("limits").Key(name), "v1 has no upper limit of what is taken of a device")
	}
	return request
}

// count returns the number of devices, which is fixed in v1.
func (t *toV1) count(a *ask, l *losses) int64 {
	at := a.at.Child("requests").Key(v1alpha1.ResourceCount)
	least, found := a.detail.Requests[v1alpha1.ResourceCount]
	if !found {
		least = *resource.NewQuantity(1, resource.DecimalSI)
	}
	most, limited := a.detail.Limits[v1alpha1.ResourceCount]
	switch {
	case least.CmpInt64(resourceapi.AllocationResultsMaxSize) > 0:
		l.whole(at, "v1 allows %d devices", resourceapi.AllocationResultsMaxSize)
	case least.IsZero():
		l.whole(at, "v1 wants at least one device")
	case limited && most.Cmp(least) != 0 && t.extended:
		a.upTo = min(most.Value(), resourceapi.AllocationResultsMaxSize)
	case limited && most.Cmp(least) != 0:
		l.drop(a.at.Child("limits").Key(v1alpha1.ResourceCount), "v1 wants a fixed number of devices, or in the first request up to %d alternatives without amounts, shared devices and admin access. Without the limit, it is %s",
			resourceapi.FirstAvailableDeviceRequestMaxSize, least.String())
	}
	for _, driver := range a.drivers() {
		if least.Value() > 1 && !t.extended && t.vocabularies.of(driver).shared {
			l.drop(at, "driver %s has devices that can be shared, and v1 may take several shares of one device for several devices", driver)
		}
	}
	return least.Value()
}

// amounts translates requested amounts other than the number of devices. In the prototype, an
// amount is a sum over devices; in v1, it applies to each device. For a single device, both are the
// same.
func (t *toV1) amounts(a *ask, request *resourceapi.ExactDeviceRequest, l *losses) {
	limit, limited := a.detail.Limits[v1alpha1.ResourceCount]
	single := request.Count == 1 && limited && limit.CmpInt64(1) == 0
	if t.extended && !a.admin() && !(single && t.shares(a)) {
		t.totals(a, l)
		return
	}
	for _, name := range others(a.detail.Requests) {
		at, amount := a.at.Child("requests").Key(name), a.detail.Requests[name]
		key, err := t.amountKey(a, name)
		switch {
		case err != nil:
		case a.admin():
			err = fmt.Errorf("class %s has admin access, which takes nothing: v1 has it leave enough for other requests of the claim", a.class.Name)
		case !single:
			err = fmt.Errorf("several devices may provide it together, v1 wants it of each: limits[count] of 1 has a single device provide it")
		case amount.CmpInt64(maxWhole) > 0:
			err = fmt.Errorf("is more than %d", maxWhole)
		}
		if err != nil {
			l.drop(at, "%s: %v", name, err)
			continue
		}
		if request.Capacity == nil {
			request.Capacity = &resourceapi.CapacityRequirements{Requests: make(map[resourceapi.QualifiedName]resource.Quantity)}
		}
		request.Capacity.Requests[key] = amount
	}
}

// shares reports whether shared devices may serve the detail.
func (t *toV1) shares(a *ask) bool {
	return slices.ContainsFunc(a.drivers(), func(driver string) bool { return t.vocabularies.of(driver).shared })
}

// totals translates amounts that devices must have together. Each device counts with its whole
// amount. A share of a device counts with what is still missing.
func (t *toV1) totals(a *ask, l *losses) {
	for _, name := range others(a.detail.Requests) {
		at, amount := a.at.Child("requests").Key(name), a.detail.Requests[name]
		var key resourceapi.QualifiedName
		err := error(nil)
		for _, driver := range a.drivers() {
			if key, err = t.keyIn(name, driver); err != nil {
				break
			}
		}
		if err == nil && amount.Sign() == 0 {
			err = errors.New("0 asks for nothing")
		}
		if err != nil {
			l.drop(at, "%s: %v", name, err)
			continue
		}
		if a.totals == nil {
			a.totals = make(map[resourceapi.QualifiedName]resource.Quantity)
		}
		a.totals[key] = amount
	}
	// A limit of count that equals the request is a limit, too.
	if limit, limited := a.detail.Limits[v1alpha1.ResourceCount]; limited && len(a.totals) > 0 {
		a.upTo = min(limit.Value(), resourceapi.AllocationResultsMaxSize)
	}
}

// amountKey returns the v1 name of an amount. It must be the same for all drivers.
func (t *toV1) amountKey(a *ask, name string) (key resourceapi.QualifiedName, err error) {
	for _, driver := range a.drivers() {
		if key, err = t.keyIn(name, driver); err != nil {
			return key, err
		}
		if t.vocabularies.of(driver).names[name].amount {
			return key, fmt.Errorf("driver %s has attributes of this name, which v1 does not tell from resources", driver)
		}
	}
	return key, nil
}
