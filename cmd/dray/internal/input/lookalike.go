// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/dray-project/dray/cmd/dray/internal/spelling"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// unusedKinds of the groups that dray reads are no mistakes.
var unusedKinds = sets.New("ResourcePoolStatusRequest", "DeviceTaintRuleList")

// lookAlike finds the kind that was meant by one that is like it but for its spelling: in
// the kind (ResourceClaims), or in the group (resources.k8s.io).
func lookAlike(gk schema.GroupKind) (string, bool) {
	for _, group := range slices.Sorted(maps.Keys(used)) {
		if !sameGroup(group, gk) {
			continue
		}
		for _, kind := range sets.List(used[group]) {
			if sameKind(kind, gk.Kind, group == resourceapi.GroupName) {
				return (schema.GroupKind{Group: group, Kind: kind}).String(), true
			}
		}
		if group == resourceapi.GroupName && gk.Group != group && !unusedKinds.Has(gk.Kind) {
			return "group " + group, true
		}
	}
	return "", false
}

// sameGroup reports whether the group is meant: it is the same, or hardly differs. Kinds
// of resource.k8s.io are also looked for in the core group.
func sameGroup(group string, gk schema.GroupKind) bool {
	switch {
	case gk.Group == group:
		return true
	case group == corev1.GroupName:
		return false
	case group == v1alpha1.GroupName:
		// It shares a kind with resource.k8s.io, which is meant more often.
		return spelling.Close(group, gk.Group)
	case gk.Group == corev1.GroupName:
		return group == resourceapi.GroupName && used[group].Has(gk.Kind)
	}
	return spelling.Close(group, gk.Group) || used[group].Has(gk.Kind) && strings.HasSuffix(gk.Group, ".k8s.io")
}

// sameKind reports whether a kind that is not exactly this one is meant to be it. Few other
// kinds are in resource.k8s.io, where any likeness counts; the core group has many.
func sameKind(kind, given string, loosely bool) bool {
	same := strings.EqualFold(kind, given) || strings.EqualFold(kind+"s", given) || strings.EqualFold(kind+"es", given)
	return same || loosely && spelling.Close(kind, given)
}
