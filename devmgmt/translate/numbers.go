// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// numbered returns the details of the i-th instance. A detail with a limit of count becomes one
// alternative per number of devices, the largest first. That is equivalent, if v1 permits that many
// alternatives. It is done only for the first request, because in v1 a request does not give up
// devices for later requests.
func (t *toV1) numbered(instance *v1alpha1.DeviceClaimInstance, i int, at *field.Path) []*ask {
	var plain, numbered []*ask
	add := func(detail *v1alpha1.DeviceClaimDetail, at *field.Path) {
		plain = append(plain, &ask{detail: detail, at: at})
		least, most := t.between(detail)
		if i > 0 || least == most {
			numbered = append(numbered, &ask{detail: detail, at: at})
			return
		}
		// One more than permitted is enough to detect that there are too many.
		for n := most; n >= max(least, most-resourceapi.FirstAvailableDeviceRequestMaxSize); n-- {
			numbered = append(numbered, &ask{detail: withCount(detail, n), at: at, extra: n > least})
		}
	}
	if len(instance.OneOf) == 0 {
		add(&instance.DeviceClaimDetail, at)
	}
	for j := range instance.OneOf {
		add(&instance.OneOf[j], at.Child("oneOf").Index(j))
	}
	if len(numbered) > resourceapi.FirstAvailableDeviceRequestMaxSize {
		return plain
	}
	return numbered
}

// between returns the minimum and maximum number of devices of a detail, if alternatives of v1 can
// express them.
func (t *toV1) between(detail *v1alpha1.DeviceClaimDetail) (least, most int64) {
	limit, limited := detail.Limits[v1alpha1.ResourceCount]
	asked, found := detail.Requests[v1alpha1.ResourceCount]
	if !found {
		asked = *resource.NewQuantity(1, resource.DecimalSI)
	}
	var classes []*v1alpha1.DeviceClass
	if detail.DeviceType != nil {
		classes = t.byType[*detail.DeviceType]
	} else if class := t.classes[ptr.Deref(detail.DeviceClass, "")]; class != nil {
		classes = append(classes, class)
	}
	if t.extended || !limited || len(others(detail.Requests)) > 0 || len(classes) == 0 || asked.Sign() == 0 {
		return 0, 0
	}
	if class := classes[0]; ptr.Deref(class.Spec.AdminAccess, false) || t.vocabularies.of(class.Spec.Driver).shared {
		return 0, 0
	}
	if asked.CmpInt64(resourceapi.AllocationResultsMaxSize) > 0 {
		return 0, 0
	}
	if limit.CmpInt64(resourceapi.AllocationResultsMaxSize) > 0 {
		limit = *resource.NewQuantity(resourceapi.AllocationResultsMaxSize, resource.DecimalSI) // a claim cannot have more
	}
	return asked.Value(), limit.Value()
}

// withCount returns a copy of a detail with a number of devices.
func withCount(detail *v1alpha1.DeviceClaimDetail, n int64) *v1alpha1.DeviceClaimDetail {
	one := *detail
	count := *resource.NewQuantity(n, resource.DecimalSI)
	one.Requests = map[string]resource.Quantity{v1alpha1.ResourceCount: count}
	one.Limits = make(map[string]resource.Quantity)
	for _, name := range others(detail.Limits) {
		one.Limits[name] = detail.Limits[name]
	}
	return &one
}
