// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podclaims

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// ApplyTaintRules returns the slices with the taints of the rules added to the devices that they select. Other
// slices are returned unchanged.
func ApplyTaintRules(all []*resourceapi.ResourceSlice, rules []*resourceapi.DeviceTaintRule) []*resourceapi.ResourceSlice {
	if len(rules) == 0 {
		return all
	}
	patched := slices.Clone(all)
	for i, slice := range patched {
		for _, rule := range rules {
			if selectsSlice(rule.Spec.DeviceSelector, slice) {
				patched[i] = taintSlice(patched[i], rule)
			}
		}
	}
	return patched
}

// selectsSlice reports whether the rule can select devices of the slice. A rule without a selector selects
// nothing.
func selectsSlice(s *resourceapi.DeviceTaintSelector, slice *resourceapi.ResourceSlice) bool {
	return s != nil &&
		(s.Driver == nil || *s.Driver == slice.Spec.Driver) &&
		(s.Pool == nil || *s.Pool == slice.Spec.Pool.Name)
}

func taintSlice(slice *resourceapi.ResourceSlice, rule *resourceapi.DeviceTaintRule) *resourceapi.ResourceSlice {
	patched := slice.DeepCopy()
	for i := range patched.Spec.Devices {
		device := &patched.Spec.Devices[i]
		if name := rule.Spec.DeviceSelector.Device; name == nil || *name == device.Name {
			device.Taints = append(device.Taints, rule.Spec.Taint)
		}
	}
	return patched
}
