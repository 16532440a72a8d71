// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group.
const GroupName = "devmgmtproto.k8s.io"

// DevMgmtAPIVersion is the apiVersion of the kinds in this package.
const DevMgmtAPIVersion = GroupName + "/v1alpha1"

// SchemeGroupVersion is group and version of the kinds in this package.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(func(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&DevicePool{}, &DevicePoolList{},
		&DeviceClass{}, &DeviceClassList{},
		&DeviceClaim{}, &DeviceClaimList{},
	)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	scheme.AddTypeDefaultingFunc(&DevicePool{}, func(object any) { SetPoolDefaults(object.(*DevicePool)) })
	scheme.AddTypeDefaultingFunc(&DeviceClaim{}, func(object any) { SetClaimDefaults(object.(*DeviceClaim)) })
	return nil
})

// AddToScheme registers the kinds and their defaults.
func AddToScheme(scheme *runtime.Scheme) error { return schemeBuilder.AddToScheme(scheme) }

// Resource returns a resource, such as "devicepools", with the group.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}
