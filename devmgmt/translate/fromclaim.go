// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

func (t *fromV1) claim(claim *resourceapi.ResourceClaim) (*v1alpha1.DeviceClaim, []Reason) {
	l := lossesOf("ResourceClaim", claim)
	translated := &v1alpha1.DeviceClaim{TypeMeta: prototypeMeta("DeviceClaim"), ObjectMeta: metadata(claim.ObjectMeta)}
	asks := make(map[string]*ask)
	devices := &claim.Spec.Devices
	if len(devices.Requests) == 0 {
		l.whole(specPath.Child("devices", "requests"), "the prototype wants at least one")
	}
	// allocated at once, since asks have pointers to its details
	translated.Spec.Claims = make([]v1alpha1.DeviceClaimInstance, len(devices.Requests))
	for i := range devices.Requests {
		t.request(&devices.Requests[i], i, &translated.Spec.Claims[i], asks, l)
	}
	if l.fatal() {
		return nil, l.list
	}
	for i := range devices.Constraints {
		at := specPath.Child("devices", "constraints").Index(i)
		if err := constrain(translated, &devices.Constraints[i], asks); err != nil {
			l.drop(at, "%v", err)
		}
	}
	for i := range devices.Config {
		if err := t.configure(&devices.Config[i], claim.Namespace, asks); err != nil {
			l.drop(specPath.Child("devices", "config").Index(i), "%v", err)
		}
	}
	t.status(translated, claim, l)
	return translated, l.list
}

// request translates one request, and adds its details to asks, by their names in v1.
func (t *fromV1) request(request *resourceapi.DeviceRequest, i int, instance *v1alpha1.DeviceClaimInstance, asks map[string]*ask, l *losses) {
	at := specPath.Child("devices", "requests").Index(i)
	if request.Name != requestName(i) {
		l.drop(at.Child("name"), "%s: the prototype knows requests by position: it becomes %s", request.Name, requestName(i))
	}
	if request.Exactly != nil {
		t.detail(request.Exactly, &instance.DeviceClaimDetail, request.Name, at.Child("exactly"), asks, l)
		return
	}
	instance.OneOf = make([]v1alpha1.DeviceClaimDetail, len(request.FirstAvailable))
	for j := range request.FirstAvailable {
		sub, at := &request.FirstAvailable[j], at.Child("firstAvailable").Index(j)
		if sub.Name != optionName(j) {
			l.drop(at.Child("name"), "%s: the prototype knows alternatives by position: it becomes %s", sub.Name, optionName(j))
		}
		refuse(l, at, sub, "name", "deviceClassName", "selectors", "allocationMode", "count", "capacity")
		exact := &resourceapi.ExactDeviceRequest{
			DeviceClassName: sub.DeviceClassName, Selectors: sub.Selectors, AllocationMode: sub.AllocationMode, Count: sub.Count, Capacity: sub.Capacity,
		}
		t.detail(exact, &instance.OneOf[j], request.Name+"/"+sub.Name, at, asks, l)
	}
}

func (t *fromV1) detail(request *resourceapi.ExactDeviceRequest, detail *v1alpha1.DeviceClaimDetail, name string, at *field.Path, asks map[string]*ask, l *losses) {
	class := t.classes[request.DeviceClassName]
	if class == nil {
		l.whole(at.Child("deviceClassName"), "DeviceClass %s is not there, or has no translation: it decides what driver is meant", request.DeviceClassName)
		return
	}
	a := &ask{detail: detail, class: class, name: name, at: at}
	asks[name] = a
	refuse(l, at, request, "deviceClassName", "selectors", "allocationMode", "count", "capacity", "adminAccess")
	if ptr.Deref(request.AdminAccess, false) != a.admin() {
		l.drop(at.Child("adminAccess"), "in the prototype it is the class that has admin access, or has not: see its annotation %s", AdminAccessAnnotation)
	}
	detail.DeviceClass = &request.DeviceClassName
	detail.Constraints = t.constraints(request.Selectors, class.Spec.Driver, at.Child("selectors"), l)
	if request.AllocationMode != "" && request.AllocationMode != resourceapi.DeviceAllocationModeExactCount {
		l.drop(at.Child("allocationMode"), "%s: the prototype wants a number of devices", request.AllocationMode)
	}
	count := *resource.NewQuantity(max(request.Count, 1), resource.DecimalSI)
	detail.Requests = map[string]resource.Quantity{v1alpha1.ResourceCount: count}
	if request.Capacity == nil || len(request.Capacity.Requests) == 0 {
		return
	}
	if request.Count > 1 {
		l.drop(at.Child("capacity"), "v1 wants it of each device, the prototype of all together")
		return
	}
	detail.Limits = map[string]resource.Quantity{v1alpha1.ResourceCount: count}
	for key, amount := range request.Capacity.Requests {
		detail.Requests[unqualify(key, class.Spec.Driver)] = amount
	}
}

func withAmount(amounts map[string]resource.Quantity, name string, amount resource.Quantity) map[string]resource.Quantity {
	if amounts == nil {
		amounts = make(map[string]resource.Quantity)
	}
	amounts[name] = amount
	return amounts
}

// constrain adds a constraint to the whole claim, or to one detail.
func constrain(claim *v1alpha1.DeviceClaim, constraint *resourceapi.DeviceConstraint, asks map[string]*ask) error {
	if constraint.MatchAttribute == nil {
		return errors.New("the prototype has matchAttributes only")
	}
	domain, id, _ := strings.Cut(string(*constraint.MatchAttribute), "/")
	switch len(constraint.Requests) {
	case 0:
		name := ""
		for _, a := range asks {
			own := nameOf(domain, id, a.class.Spec.Driver)
			if name != "" && own != name {
				return fmt.Errorf("%s has another name in the prototype, depending on the driver", *constraint.MatchAttribute)
			}
			name = own
		}
		claim.Spec.MatchAttributes = append(claim.Spec.MatchAttributes, name)
		return nil
	case 1:
		if a := asks[constraint.Requests[0]]; a != nil {
			a.detail.MatchAttributes = append(a.detail.MatchAttributes, nameOf(domain, id, a.class.Spec.Driver))
			return nil
		}
	}
	return errors.New("the prototype compares devices of one claim, or of all")
}

func (t *fromV1) configure(config *resourceapi.DeviceClaimConfiguration, namespace string, asks map[string]*ask) error {
	var a *ask
	if len(config.Requests) == 1 {
		a = asks[config.Requests[0]]
	}
	if a == nil {
		return errors.New("the prototype has configuration for one claim or alternative")
	}
	r, err := t.found.refer(a.class.Spec.Driver, config.DeviceConfiguration)
	if err != nil {
		return err
	}
	if r.Namespace != namespace {
		return fmt.Errorf("%s is not in the namespace of the claim", r)
	}
	a.detail.Configs = append(a.detail.Configs, v1alpha1.DeviceConfigReference{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name})
	return nil
}

// status translates the allocation and the consumers of a claim.
func (t *fromV1) status(translated *v1alpha1.DeviceClaim, claim *resourceapi.ResourceClaim, l *losses) {
	for _, name := range unhandled(&claim.Status, "allocation") {
		l.report(statusPath.Child(name), "the prototype has other words for it")
	}
	allocation, at := claim.Status.Allocation, statusPath.Child("allocation")
	if allocation == nil {
		return
	}
	if len(claim.Spec.Devices.Requests) != 1 || claim.Spec.Devices.Requests[0].Exactly == nil {
		l.drop(at, "the prototype does not say which device serves which of several claims or alternatives")
		return
	}
	if len(allocation.Devices.Config) > 0 {
		l.report(at.Child("devices", "config"), "the prototype does not say for which request each configuration is")
	}
	for i := range allocation.Devices.Results {
		result, path := &allocation.Devices.Results[i], at.Child("devices", "results").Index(i)
		refuse(l, path, result, "request", "driver", "pool", "device", "adminAccess", "shareID", "consumedCapacity")
		if id := result.ShareID; id != nil && *id != shareID(claim.Namespace, claim.Name, i) {
			l.report(path.Child("shareID"), "the prototype does not tell shares apart")
		}
		allocated := v1alpha1.DeviceAllocation{DevicePoolName: result.Pool, DeviceName: result.Device}
		for _, key := range slices.Sorted(maps.Keys(result.ConsumedCapacity)) {
			allocated.Allocations = append(allocated.Allocations,
				v1alpha1.ResourceAllocation{Name: unqualify(key, result.Driver), Allocation: result.ConsumedCapacity[key]})
		}
		translated.Status.Allocations = append(translated.Status.Allocations, allocated)
	}
}
