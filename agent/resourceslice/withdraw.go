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

// Withdraw stops the controller and deletes all its slices, including those of an earlier run of
// the driver. It is for a driver that is uninstalled. While a driver restarts, its devices should
// stay published.
//
// ctx is for the requests. The context of StartController may be done already.
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
			// The slice was changed since it was listed, most likely by a person. Delete it
			// nevertheless.
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

// TaintAll returns resources in which each device has the taint, unless it has one with the same
// key and effect. It is for a driver that can no longer observe its hardware. Deleting the slices
// would tell consumers that the devices are gone.
//
// Slices with more devices than taints permit are divided. The second parts come at the end of
// their pool. The result shares no memory with resources, which may be nil.
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

// divide moves devices to new slices if their slice has too many, because of taints.
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
