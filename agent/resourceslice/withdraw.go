// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"context"
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Withdraw stops the controller and deletes all that is published, including
// what an earlier run of the driver left. It is for a driver that will not come
// back: while one restarts, its devices had better stay published.
//
// The context is that of the deletes. The one given to StartController may be
// done already.
func (c *Controller) Withdraw(ctx context.Context) error {
	c.Stop()
	list, err := c.listSlices(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("withdraw: list ResourceSlices: %w", err)
	}
	var failed []error
	for i := range list.Items {
		slice := &list.Items[i]
		err := c.deleteSlice(ctx, slice, unchanged(slice))
		if apierrors.IsConflict(err) {
			// It changed since the list. Nobody but a person could have done
			// that, and the slice goes nevertheless.
			err = c.deleteSlice(ctx, slice, nil)
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("withdraw: %w", err)
	}
	return nil
}

// TaintAll returns resources with the taint added to each device that has no
// taint with the same key and effect. It is for a driver that lost sight of its
// hardware: what is published is then no longer known to be true, but deleting it
// would tell consumers that the devices are gone.
//
// Slices with more devices than taints permit are divided; the second parts
// come at the end of their pool. The result shares no memory with resources,
// which may be nil.
func TaintAll(resources *DriverResources, taint resourceapi.DeviceTaint) *DriverResources {
	out := resources.DeepCopy()
	if out == nil {
		return &DriverResources{}
	}
	for name, pool := range out.Pools {
		for i := range pool.Slices {
			for j := range pool.Slices[i].Devices {
				addTaint(&pool.Slices[i].Devices[j], taint)
			}
		}
		pool.Slices = divide(pool.Slices)
		out.Pools[name] = pool
	}
	return out
}

func addTaint(device *resourceapi.Device, taint resourceapi.DeviceTaint) {
	for _, present := range device.Taints {
		if present.Key == taint.Key && present.Effect == taint.Effect {
			return
		}
	}
	device.Taints = append(device.Taints, *taint.DeepCopy())
}

// divide moves to new slices what slices with taints have no room for.
func divide(parts []Slice) []Slice {
	const most = resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures
	out := parts
	for i, part := range parts {
		if len(part.Devices) <= most {
			continue
		}
		out[i].Devices = part.Devices[:most:most]
		for devices := range slices.Chunk(part.Devices[most:], most) {
			part.Devices = devices
			out = append(out, part)
		}
	}
	return out
}
