// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// Names of requests in v1. The prototype identifies requests by position.
func requestName(i int) string { return fmt.Sprintf("claim-%d", i) }
func optionName(j int) string  { return fmt.Sprintf("option-%d", j) }

// ask is a claim detail with its class, during translation.
type ask struct {
	detail *v1alpha1.DeviceClaimDetail
	class  *v1alpha1.DeviceClass
	// others are further classes that may serve it. upTo is the maximum number of devices, if it
	// differs from the minimum. totals are the amounts that the devices must have together.
	others []*v1alpha1.DeviceClass
	upTo   int64
	totals map[resourceapi.QualifiedName]resource.Quantity
	// extra is set if another ask is the same with fewer devices.
	extra bool
	// name is the name of the request in constraints and configuration.
	name string
	at   *field.Path
}

func (a *ask) admin() bool { return ptr.Deref(a.class.Spec.AdminAccess, false) }

// drivers returns the distinct drivers of its classes.
func (a *ask) drivers() []string {
	drivers := []string{a.class.Spec.Driver}
	for _, class := range a.others {
		if !slices.Contains(drivers, class.Spec.Driver) {
			drivers = append(drivers, class.Spec.Driver)
		}
	}
	return drivers
}

func (t *toV1) claim(claim *v1alpha1.DeviceClaim) (*resourceapi.ResourceClaim, []Reason) {
	l := lossesOf("DeviceClaim", claim)
	translated := &resourceapi.ResourceClaim{TypeMeta: typeMeta("ResourceClaim"), ObjectMeta: metadata(claim.ObjectMeta)}
	devices := &translated.Spec.Devices
	var asks []*ask
	most := int64(0)
	for i := range claim.Spec.Claims {
		request, found, count := t.request(claim, i, l)
		devices.Requests = append(devices.Requests, request)
		asks = append(asks, found...)
		most += count
	}
	if len(devices.Requests) > resourceapi.DeviceRequestsMaxSize || most > resourceapi.AllocationResultsMaxSize {
		l.whole(specPath.Child("claims"), "they may have %d devices, v1 allows %d", most, resourceapi.AllocationResultsMaxSize)
	}
	if l.fatal() {
		return nil, l.list
	}
	var beyond extension.Claim
	t.match(devices, &beyond, claim.Spec.MatchAttributes, asks, nil, specPath.Child("matchAttributes"), l)
	t.prefer(&beyond, claim.Spec.PreferredMatchAttributes, asks, nil, specPath, l)
	for _, a := range asks {
		t.match(devices, &beyond, a.detail.MatchAttributes, []*ask{a}, []string{a.name}, a.at.Child("matchAttributes"), l)
		t.prefer(&beyond, a.detail.PreferredMatchAttributes, []*ask{a}, []string{a.name}, a.at, l)
		t.configure(devices, claim.Namespace, a, l)
	}
	t.annotate(translated, asks, beyond, l)
	t.allocation(translated, claim, asks, l)
	return translated, l.list
}

// annotate adds what v1 cannot express to the annotation of the claim.
func (t *toV1) annotate(translated *resourceapi.ResourceClaim, asks []*ask, beyond extension.Claim, l *losses) {
	if !t.extended {
		return
	}
	at := metadataPath.Child("annotations")
	claim, err := extension.Of(translated)
	if err != nil {
		l.drop(at, "%v", err)
		return
	}
	for _, a := range asks {
		if a.upTo == 0 && len(a.others) == 0 && len(a.totals) == 0 {
			continue
		}
		if _, found := claim.Requests[a.name]; found {
			l.drop(at, "it says something of %s, which asks for more than v1 can say by itself", a.name)
			return
		}
		if claim.Requests == nil {
			claim.Requests = make(map[string]extension.Request)
		}
		claim.Requests[a.name] = t.extend(a, l)
	}
	if len(claim.Preferred)*len(beyond.Preferred) > 0 || len(claim.MatchCapacities)*len(beyond.MatchCapacities) > 0 {
		l.drop(at, "it says what is preferred, or what is to match, and so does the claim")
		return
	}
	claim.Preferred = append(claim.Preferred, beyond.Preferred...)
	claim.MatchCapacities = append(claim.MatchCapacities, beyond.MatchCapacities...)
	if err := claim.Annotate(translated); err != nil {
		l.drop(at, "%v", err)
	}
}

// request translates one claim instance. It also returns its details, and the maximum number of
// devices, apart from devices that a limit permits in addition.
func (t *toV1) request(claim *v1alpha1.DeviceClaim, i int, l *losses) (resourceapi.DeviceRequest, []*ask, int64) {
	instance, at := &claim.Spec.Claims[i], specPath.Child("claims").Index(i)
	request := resourceapi.DeviceRequest{Name: requestName(i)}
	wanted := t.numbered(instance, i, at)
	if len(instance.OneOf) == 0 && len(wanted) == 1 {
		a := wanted[0]
		if a.name = request.Name; !t.resolve(a, l) {
			return request, nil, 0
		}
		request.Exactly = t.exactly(a, l)
		return request, wanted, request.Exactly.Count
	}
	var asks []*ask
	most := int64(0)
	for j, a := range wanted {
		a.name = request.Name + "/" + optionName(j)
		if !t.resolve(a, l) {
			continue
		}
		switch {
		case a.admin():
			l.drop(a.at.Child("deviceClass"), "class %s has admin access, which no alternative has in v1", a.class.Name)
		case j >= resourceapi.FirstAvailableDeviceRequestMaxSize:
			l.drop(a.at, "v1 allows %d alternatives", resourceapi.FirstAvailableDeviceRequestMaxSize)
		default:
			exact := t.exactly(a, l)
			request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
				Name: optionName(j), DeviceClassName: exact.DeviceClassName, Selectors: exact.Selectors,
				AllocationMode: exact.AllocationMode, Count: exact.Count, Capacity: exact.Capacity,
			})
			asks = append(asks, a)
			if !a.extra {
				most = max(most, exact.Count)
			}
		}
	}
	if len(request.FirstAvailable) == 0 && !l.fatal() {
		l.whole(at.Child("oneOf"), "no alternative has a translation")
	}
	return request, asks, most
}

// match translates matchAttributes of one detail, or of all, to constraints. Those of amounts are
// an extension of v1. requests has the names of requests; nil stands for all.
func (t *toV1) match(devices *resourceapi.DeviceClaim, beyond *extension.Claim, names []string, asks []*ask, requests []string, at *field.Path, l *losses) {
	for i, name := range names {
		attribute, amount, err := t.matched(name, asks)
		switch {
		case err == nil && amount && !t.extended:
			err = errors.New("devices have an amount there, which v1 does not compare")
		case err == nil && amount && len(beyond.MatchCapacities) >= extension.MatchesMaxSize:
			err = fmt.Errorf("a claim has at most %d matches of amounts", extension.MatchesMaxSize)
		case err == nil && amount:
			beyond.MatchCapacities = append(beyond.MatchCapacities, extension.CapacityMatch{Capacity: attribute, Requests: requests})
			continue
		}
		if err == nil && len(devices.Constraints) >= resourceapi.DeviceConstraintsMaxSize {
			err = fmt.Errorf("v1 allows %d constraints", resourceapi.DeviceConstraintsMaxSize)
		}
		if err != nil {
			l.drop(at.Index(i), "%s: %v", name, err)
			continue
		}
		devices.Constraints = append(devices.Constraints, resourceapi.DeviceConstraint{Requests: requests, MatchAttribute: &attribute})
	}
}

// prefer translates preferredMatchAttributes of one detail, or of all.
func (t *toV1) prefer(beyond *extension.Claim, names []string, asks []*ask, requests []string, of *field.Path, l *losses) {
	for i, name := range names {
		attribute, amount, err := t.matched(name, asks)
		switch {
		case !t.extended:
			err = errors.New("v1 requires a match, or has none")
		case err == nil && amount:
			err = errors.New("devices have an amount there, of which a match is required, or none")
		case err == nil && len(beyond.Preferred) >= extension.MatchesMaxSize:
			err = fmt.Errorf("a claim has at most %d preferences", extension.MatchesMaxSize)
		}
		if err != nil {
			l.drop(of.Child("preferredMatchAttributes").Index(i), "%s: %v", name, err)
			continue
		}
		beyond.Preferred = append(beyond.Preferred, extension.Preference{MatchAttribute: attribute, Requests: requests})
	}
}

// matched returns the v1 name of an attribute that is compared, and whether it is an amount.
func (t *toV1) matched(name string, asks []*ask) (found resourceapi.FullyQualifiedName, amount bool, err error) {
	plain := false
	for _, a := range asks {
		for _, driver := range a.drivers() {
			domain, id, err := t.qualified(name, driver)
			if err != nil {
				return "", false, err
			}
			use := t.vocabularies.of(driver).names[name]
			if plain, amount = plain || use.plain, amount || use.amount; plain && amount {
				return "", false, errors.New("some devices have an amount there and others do not, which are not compared with each other")
			}
			full := resourceapi.FullyQualifiedName(domain + "/" + id)
			if found != "" && full != found && t.extended {
				t.common[name] = true
				full = commonDomain + "/" + resourceapi.FullyQualifiedName(name)
			} else if found != "" && full != found {
				return "", false, fmt.Errorf("v1 calls it %s and %s, depending on the driver, and compares neither with the other: publish it under a name with a domain", found, full)
			}
			found = full
		}
	}
	return found, amount, nil
}

// configure translates the configuration of a claim, for each driver that may get it.
func (t *toV1) configure(devices *resourceapi.DeviceClaim, namespace string, a *ask, l *losses) {
	for i, config := range a.detail.Configs {
		for _, driver := range a.drivers() {
			opaque, err := t.referents.opaque(driver, inNamespace(config, namespace))
			if err == nil && len(devices.Config) >= resourceapi.DeviceConfigMaxSize {
				err = fmt.Errorf("v1 allows %d", resourceapi.DeviceConfigMaxSize)
			}
			if err != nil {
				l.drop(a.at.Child("configs").Index(i), "%v", err)
				break
			}
			devices.Config = append(devices.Config, resourceapi.DeviceClaimConfiguration{
				Requests: []string{a.name}, DeviceConfiguration: opaque,
			})
		}
	}
}
