// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/alloctest"
)

// want is one request of a claim, or one alternative of a request.
type want struct {
	claim       int
	request     string // name of the request
	name        string // as in results: the request, or request/subrequest
	class       *resourceapi.DeviceClass
	selectors   []resourceapi.DeviceSelector
	mode        resourceapi.DeviceAllocationMode
	count       int64
	admin       *bool
	tolerations []resourceapi.DeviceToleration
	capacity    *resourceapi.CapacityRequirements
	derived     []resourceapi.DeviceDerivedAttribute
}

func (w *want) adminAccess() bool { return ptr.Deref(w.admin, false) }

// wants returns the alternatives for every request of a claim; one for an exact
// request. The error says why the claim must be refused.
func wants(c *alloctest.Case, claim int) ([][]*want, error) {
	var all [][]*want
	for i := range c.Claims[claim].Spec.Devices.Requests {
		alternatives := alternativesOf(claim, &c.Claims[claim].Spec.Devices.Requests[i])
		if len(c.Claims[claim].Spec.Devices.Requests[i].FirstAvailable) > 0 && !c.Features.PrioritizedList {
			return nil, fmt.Errorf("claim %d uses a prioritized list, which is off", claim)
		}
		for _, alternative := range alternatives {
			if err := alternative.admit(c); err != nil {
				return nil, fmt.Errorf("claim %d request %s: %w", claim, alternative.name, err)
			}
		}
		all = append(all, alternatives)
	}
	return all, nil
}

func alternativesOf(claim int, request *resourceapi.DeviceRequest) []*want {
	if e := request.Exactly; e != nil {
		return []*want{{
			claim: claim, request: request.Name, name: request.Name, selectors: e.Selectors, mode: e.AllocationMode, count: e.Count,
			admin: e.AdminAccess, tolerations: e.Tolerations, capacity: e.Capacity, derived: e.DerivedAttributes,
			class: &resourceapi.DeviceClass{ObjectMeta: named(e.DeviceClassName)},
		}}
	}
	var alternatives []*want
	for _, s := range request.FirstAvailable {
		alternatives = append(alternatives, &want{
			claim: claim, request: request.Name, name: request.Name + "/" + s.Name, selectors: s.Selectors, mode: s.AllocationMode,
			count: s.Count, tolerations: s.Tolerations, capacity: s.Capacity, derived: s.DerivedAttributes,
			class: &resourceapi.DeviceClass{ObjectMeta: named(s.DeviceClassName)},
		})
	}
	return alternatives
}

// admit looks up the class and refuses what the features do not allow.
func (w *want) admit(c *alloctest.Case) error {
	i := slices.IndexFunc(c.Classes, func(class *resourceapi.DeviceClass) bool { return class.Name == w.class.Name })
	if i < 0 {
		return fmt.Errorf("class %q does not exist", w.class.Name)
	}
	w.class = c.Classes[i]
	switch {
	case w.admin != nil && !c.Features.AdminAccess:
		return fmt.Errorf("admin access is off")
	case w.capacity != nil && !c.Features.ConsumableCapacity:
		return fmt.Errorf("capacity requests are off")
	case len(w.derived) > 0 && !c.Features.DerivedAttributes:
		return fmt.Errorf("derived attributes are off")
	case w.mode != resourceapi.DeviceAllocationModeAll && w.mode != resourceapi.DeviceAllocationModeExactCount:
		return fmt.Errorf("allocation mode %q is unknown", w.mode)
	}
	for _, selector := range slices.Concat(w.class.Spec.Selectors, w.selectors) {
		if selector.CEL == nil {
			return fmt.Errorf("selector is of an unknown kind")
		}
	}
	return nil
}

// named is true if a list of request names, as in constraints and configs, includes
// the want. The empty list includes everything.
func (w *want) in(requests []string) bool {
	return len(requests) == 0 || slices.Contains(requests, w.request) || slices.Contains(requests, w.name)
}
