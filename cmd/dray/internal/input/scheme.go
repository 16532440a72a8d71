// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"strings"

	appsapi "k8s.io/api/apps/v1"
	batchapi "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodeapi "k8s.io/api/node/v1"
	policyapi "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	priorityapi "k8s.io/api/scheduling/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcev1beta1 "k8s.io/dynamic-resource-allocation/api/v1beta1"
	resourcev1beta2 "k8s.io/dynamic-resource-allocation/api/v1beta2"

	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// scheme has all versions that dray reads, with conversions to v1.
var scheme = newScheme()

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, addToScheme := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, resourceapi.AddToScheme, resourcev1beta2.AddToScheme, resourcev1beta1.AddToScheme, schedulingapi.AddToScheme,
		policyapi.AddToScheme, priorityapi.AddToScheme, nodeapi.AddToScheme, appsapi.AddToScheme, batchapi.AddToScheme,
		v1alpha1.AddToScheme,
	} {
		utilruntime.Must(addToScheme(s))
	}
	return s
}

// used has the kinds that dray uses, by API group.
var used = map[string]sets.Set[string]{
	corev1.GroupName: sets.New("Node", "Pod", "Namespace", "LimitRange"),
	resourceapi.GroupName: sets.New(
		"DeviceClass", "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"),
	schedulingapi.GroupName: sets.New("PodGroup", "PriorityClass"),
	nodeapi.GroupName:       sets.New("RuntimeClass"),
	policyapi.GroupName:     sets.New("PodDisruptionBudget"),
	v1alpha1.GroupName:      sets.New("DeviceClaim", "DeviceClass", "DevicePool"),
}

func isUsed(gk schema.GroupKind) bool { return used[gk.Group].Has(gk.Kind) }

// versionsOf returns the versions of a kind that dray reads, the preferred one first.
func versionsOf(gk schema.GroupKind) []string {
	var versions []string
	for _, gv := range scheme.PrioritizedVersionsForGroup(gk.Group) {
		if scheme.Recognizes(gv.WithKind(gk.Kind)) {
			versions = append(versions, gv.String())
		}
	}
	return versions
}

// itemKind returns the kind of a typed list's items.
func itemKind(gvk schema.GroupVersionKind) (schema.GroupVersionKind, bool) {
	kind, isList := strings.CutSuffix(gvk.Kind, "List")
	return gvk.GroupVersion().WithKind(kind), isList && kind != ""
}

// isUntypedList reports whether gvk is the List whose items carry their own kinds.
func isUntypedList(gvk schema.GroupVersionKind) bool {
	return gvk.Group == "" && gvk.Version == "v1" && gvk.Kind == "List"
}
