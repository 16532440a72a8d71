// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reader stands for the client that kueue reads templates, classes and slices with, which is all that it reads. Like the
// cached client of a controller it answers from memory, with copies. Other calls are a mistake, and crash.
type reader struct {
	client.Client

	templates map[string]*resourceapi.ResourceClaimTemplate
	classes   map[string]*resourceapi.DeviceClass
	slices    []*resourceapi.ResourceSlice
}

// Get implements client.Reader for templates and classes.
func (r *reader) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	switch object := object.(type) {
	case *resourceapi.ResourceClaimTemplate:
		if template := r.templates[key.Name]; template != nil {
			template.DeepCopyInto(object)
			return nil
		}
		return apierrors.NewNotFound(resourceapi.Resource("resourceclaimtemplates"), key.Name)
	case *resourceapi.DeviceClass:
		if class := r.classes[key.Name]; class != nil {
			class.DeepCopyInto(object)
			return nil
		}
		return apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), key.Name)
	}
	panic(fmt.Sprintf("get %T", object))
}

// List implements client.Reader for slices, all or those of a driver, and for the classes of an extended resource: by the fields of
// which kueue makes an index.
func (r *reader) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var asked client.ListOptions
	asked.ApplyOptions(options)
	switch list := list.(type) {
	case *resourceapi.ResourceSliceList:
		driver, some := exact(asked, "spec.driver")
		for _, slice := range r.slices {
			if !some || slice.Spec.Driver == driver {
				list.Items = append(list.Items, *slice.DeepCopy())
			}
		}
	case *resourceapi.DeviceClassList:
		resource, some := exact(asked, "spec.extendedResourceName")
		for _, class := range r.classes {
			if name := class.Spec.ExtendedResourceName; !some || name != nil && *name == resource {
				list.Items = append(list.Items, *class.DeepCopy())
			}
		}
	default:
		panic(fmt.Sprintf("list %T", list))
	}
	return nil
}

// exact is the value that a field has to have, and whether it has to.
func exact(asked client.ListOptions, field string) (string, bool) {
	if asked.FieldSelector == nil {
		return "", false
	}
	return asked.FieldSelector.RequiresExactMatch(field)
}
