// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// classReader implements the client with which Karpenter reads device classes, its only use. As a
// controller's cached client, it returns copies from memory.
type classReader struct {
	client.Client // nil: Karpenter must call no other method

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
