// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// classReader stands for the client that Karpenter reads device classes with, which is
// all it reads. Like the cached client of a controller it answers from memory, with a copy.
type classReader struct {
	client.Client // nil: any other call is a mistake and crashes

	classes map[string]*resourceapi.DeviceClass
}

func newClassReader(classes []*resourceapi.DeviceClass) *classReader {
	r := &classReader{classes: make(map[string]*resourceapi.DeviceClass, len(classes))}
	for _, class := range classes {
		r.classes[class.Name] = class
	}
	return r
}

// Get implements client.Reader for device classes.
func (r *classReader) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	class, ok := r.classes[key.Name]
	if !ok {
		return apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), key.Name)
	}
	class.DeepCopyInto(object.(*resourceapi.DeviceClass))
	return nil
}
