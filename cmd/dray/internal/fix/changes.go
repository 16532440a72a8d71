// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fix

import (
	"fmt"
	"slices"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/diagnosis"
	"github.com/dray-project/dray/cmd/dray/internal/spelling"
)

// change is a change of a claim's spec, with its description.
type change struct {
	text string
	spec *resourceapi.ResourceClaimSpec
}

// request has pointers to the fields of a request, or of one of its alternatives.
type request struct {
	name        string
	class       *string
	selectors   *[]resourceapi.DeviceSelector
	mode        *resourceapi.DeviceAllocationMode
	count       *int64
	tolerations *[]resourceapi.DeviceToleration
}

// requests returns the requests of a spec, for modification. Requests with admin access are left
// out, since they get all devices.
func requests(spec *resourceapi.ResourceClaimSpec) []request {
	var all []request
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if e := r.Exactly; e != nil && (e.AdminAccess == nil || !*e.AdminAccess) {
			all = append(all, request{r.Name, &e.DeviceClassName, &e.Selectors, &e.AllocationMode, &e.Count, &e.Tolerations})
		}
		for k := range r.FirstAvailable {
			s := &r.FirstAvailable[k]
			all = append(all, request{r.Name + "/" + s.Name, &s.DeviceClassName, &s.Selectors, &s.AllocationMode, &s.Count, &s.Tolerations})
		}
	}
	return all
}

// changes returns the changes of a spec to try, in order: first names that do not exist, then
// taints, counts, constraints and selectors. So what the user really wants is given up last.
func changes(spec *resourceapi.ResourceClaimSpec, classes []string, taints []resourceapi.DeviceTaint) []change {
	var all []change
	// vary adds a change for each request. apply modifies a request of a copy, and returns a
	// description, or an empty text if it does not apply.
	vary := func(apply func(r request) string) {
		for i := range requests(spec) {
			changed := spec.DeepCopy()
			r := requests(changed)[i]
			if text := apply(r); text != "" {
				all = append(all, change{"request " + r.name + ": " + text, changed})
			}
		}
	}
	for n := range min(maxNames, len(classes)) {
		vary(func(r request) string {
			near := spelling.Nearest(*r.class, classes)
			if slices.Contains(classes, *r.class) || n >= len(near) {
				return ""
			}
			was := *r.class
			*r.class = near[n]
			return fmt.Sprintf("deviceClassName %s instead of %s", near[n], was)
		})
	}
	for i := range taints {
		taint := &taints[i]
		vary(func(r request) string {
			if len(*r.tolerations) >= resourceapi.DeviceTolerationsMaxLength {
				return ""
			}
			toleration := resourceapi.DeviceToleration{Key: taint.Key, Operator: resourceapi.DeviceTolerationOpEqual, Value: taint.Value, Effect: taint.Effect}
			*r.tolerations = append(*r.tolerations, toleration)
			return "the taint " + diagnosis.TaintText(taint) + " is tolerated"
		})
	}
	for less := range maxCount {
		vary(func(r request) string {
			if *r.mode == resourceapi.DeviceAllocationModeAll {
				if less > 0 {
					return ""
				}
				*r.mode, *r.count = resourceapi.DeviceAllocationModeExactCount, 1
				return "one device instead of all"
			}
			was := max(1, *r.count)
			if *r.count = was - int64(less) - 1; *r.count < 1 {
				return ""
			}
			return fmt.Sprintf("count %d instead of %d", *r.count, was)
		})
	}
	for i := range spec.Devices.Constraints {
		changed := spec.DeepCopy()
		changed.Devices.Constraints = slices.Delete(changed.Devices.Constraints, i, i+1)
		all = append(all, change{"without constraints[" + strconv.Itoa(i) + "]" + constraintText(&spec.Devices.Constraints[i]), changed})
	}
	for n := range maxSelectors {
		vary(func(r request) string {
			if n >= len(*r.selectors) {
				return ""
			}
			*r.selectors = slices.Delete(*r.selectors, n, n+1)
			return "without selectors[" + strconv.Itoa(n) + "]"
		})
	}
	return all
}

// Limits of the API, and the number of similar names to try.
const (
	maxNames     = 3
	maxCount     = resourceapi.AllocationResultsMaxSize
	maxSelectors = resourceapi.DeviceSelectorsMaxSize
)

func constraintText(c *resourceapi.DeviceConstraint) string {
	switch {
	case c.MatchAttribute != nil:
		return ": matchAttribute " + string(*c.MatchAttribute)
	case c.DistinctAttribute != nil:
		return ": distinctAttribute " + string(*c.DistinctAttribute)
	}
	return ""
}

// maxTaints is how many distinct taints are tried.
const maxTaints = 8

// taintsOf returns the distinct taints that prevent allocation.
func taintsOf(c *cluster.Cluster) ([]resourceapi.DeviceTaint, error) {
	states, err := c.Inventory(nil)
	if err != nil {
		return nil, err
	}
	var taints []resourceapi.DeviceTaint
	for i := range states {
		for k := range states[i].Devices {
			for _, taint := range states[i].Devices[k].Taints {
				same := func(t resourceapi.DeviceTaint) bool {
					return t.Key == taint.Key && t.Value == taint.Value && t.Effect == taint.Effect
				}
				if taint.Effect == resourceapi.DeviceTaintEffectNone || slices.ContainsFunc(taints, same) || len(taints) == maxTaints {
					continue
				}
				taints = append(taints, taint)
			}
		}
	}
	return taints, nil
}
