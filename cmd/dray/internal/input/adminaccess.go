// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// checkAdminAccess refuses claims and templates with admin access in a namespace without the
// required label, as the API server does. If the namespace was not read, it adds a warning.
func (r *reader) checkAdminAccess() {
	o := r.objects
	namespaces := make(map[string]*corev1.Namespace)
	for _, namespace := range o.Namespaces {
		namespaces[namespace.Name] = namespace
	}
	warned := make(map[string]bool)
	permitted := func(kind string, object metav1.Object, spec *resourceapi.ResourceClaimSpec) bool {
		if !asksForAdminAccess(spec) || object.GetUID() != "" {
			return true
		}
		origin, _ := o.Origin(kind, object.GetNamespace(), object.GetName())
		namespace := namespaces[object.GetNamespace()]
		const label = resourceapi.DRAAdminNamespaceLabelKey
		switch {
		case namespace == nil && !warned[object.GetNamespace()]:
			warned[object.GetNamespace()] = true
			r.warn(origin, fmt.Errorf("%s: adminAccess: Namespace %s was not read: the API server refuses admin access unless the namespace has the label %s: \"true\"",
				describe(kind, object), object.GetNamespace(), label))
		case namespace != nil && namespace.Labels[label] != "true":
			return r.object(origin, fmt.Errorf("%s: adminAccess: Namespace %s does not have the label %s: \"true\"", describe(kind, object), object.GetNamespace(), label))
		}
		return true
	}
	o.Claims = slices.DeleteFunc(o.Claims, func(c *resourceapi.ResourceClaim) bool { return !permitted("ResourceClaim", c, &c.Spec) })
	o.Templates = slices.DeleteFunc(o.Templates, func(t *resourceapi.ResourceClaimTemplate) bool {
		return !permitted("ResourceClaimTemplate", t, &t.Spec.Spec)
	})
}

func asksForAdminAccess(spec *resourceapi.ResourceClaimSpec) bool {
	return slices.ContainsFunc(spec.Devices.Requests, func(request resourceapi.DeviceRequest) bool {
		return request.Exactly != nil && ptr.Deref(request.Exactly.AdminAccess, false)
	})
}
