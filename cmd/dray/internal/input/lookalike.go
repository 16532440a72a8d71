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

// unusedKinds are kinds in groups that dray reads, which are not misspelt.
var unusedKinds = sets.New("ResourcePoolStatusRequest", "DeviceTaintRuleList")

// lookAlike returns the used kind that a misspelt one is meant to be. The kind (ResourceClaims) or
// the group (resources.k8s.io) may be misspelt.
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

// sameGroup reports whether a group is meant to be that of gk. Kinds of resource.k8s.io are also
// accepted in the core group.
func sameGroup(group string, gk schema.GroupKind) bool {
	switch {
	case gk.Group == group:
		return true
	case group == corev1.GroupName:
		return false
	case group == v1alpha1.GroupName:
		// this group shares a kind with resource.k8s.io, which is more likely meant
		return spelling.Close(group, gk.Group)
	case gk.Group == corev1.GroupName:
		return group == resourceapi.GroupName && used[group].Has(gk.Kind)
	}
	return spelling.Close(group, gk.Group) || used[group].Has(gk.Kind) && strings.HasSuffix(gk.Group, ".k8s.io")
}

// sameKind reports whether a kind is a misspelling of this one. loosely, for resource.k8s.io with
// its few kinds, accepts any similarity. The core group has many kinds.
func sameKind(kind, given string, loosely bool) bool {
	same := strings.EqualFold(kind, given) || strings.EqualFold(kind+"s", given) || strings.EqualFold(kind+"es", given)
	return same || loosely && spelling.Close(kind, given)
}
