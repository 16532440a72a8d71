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

// numbered lists the details of the i-th instance. One with a limit of count becomes one for each number of
// devices, the most first, which is what it means, if v1 has that many alternatives and they can say it: those of
// the first request, as in v1 the devices of a request do not give way to what comes after it.
func (t *toV1) numbered(instance *v1alpha1.DeviceClaimInstance, i int, at *field.Path) []*ask {
	var plain, numbered []*ask
	add := func(detail *v1alpha1.DeviceClaimDetail, at *field.Path) {
		plain = append(plain, &ask{detail: detail, at: at})
		least, most := t.between(detail)
		if i > 0 || least == most {
			numbered = append(numbered, &ask{detail: detail, at: at})
			return
		}
		// One more than there may be is enough to see that there are too many.
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

// between is how few and how many devices a detail may have, if alternatives of v1 can say that.
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
		limit = *resource.NewQuantity(resourceapi.AllocationResultsMaxSize, resource.DecimalSI) // a claim has no more
	}
	return asked.Value(), limit.Value()
}

// withCount is a detail for a number of devices.
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
