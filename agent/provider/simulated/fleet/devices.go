// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/resourceslice"
)

// inventory returns the devices that the node has now.
func (m *member) inventory() *inventory.Inventory {
	m.mu.Lock()
	devices := maps.Clone(m.devices)
	m.mu.Unlock()
	return m.kind.Inventory(m.index, devices)
}

// publish writes the ResourceSlices of a node. Only one worker does that for a node at a time.
func (f *Fleet) publish(ctx context.Context, m *member) (time.Duration, error) {
	m.mu.Lock()
	uid, fresh, hushed := m.uid, !m.settled && !m.adopted, m.ended || m.silent
	m.mu.Unlock()
	if uid == "" || hushed {
		return 0, nil // the node is queued again when it is registered, or is no longer silent
	}
	if err := f.publishAs(ctx, m, uid, fresh); err != nil {
		return 0, fmt.Errorf("ResourceSlices of node %s: %w", m.name, err)
	}
	f.settle(m, true)
	return 0, nil
}

func (f *Fleet) publishAs(ctx context.Context, m *member, node types.UID, fresh bool) error {
	in := m.inventory()
	if fresh {
		err := f.createAll(ctx, in, m.name, node, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	stored, err := f.storedSlices(ctx, m.name)
	if err != nil {
		return err
	}
	drivers := m.kind.Drivers()
	for driver := range stored {
		if !slices.Contains(drivers, driver) {
			drivers = append(drivers, driver)
		}
	}
	var failed []error
	for _, driver := range drivers {
		failed = append(failed, f.publishPool(ctx, stored[driver], f.slicesOf(in, driver, m.name, node, stored[driver])))
	}
	return errors.Join(failed...)
}

func (f *Fleet) createAll(ctx context.Context, in *inventory.Inventory, name string, node types.UID, options metav1.CreateOptions) error {
	for _, driver := range in.Drivers() {
		for _, slice := range f.slicesOf(in, driver, name, node, nil) {
			if _, err := f.options.Client.ResourceV1().ResourceSlices().Create(ctx, slice, options); err != nil {
				return err
			}
		}
	}
	return nil
}

// storedSlices returns the fleet's slices of a node from the API server, by driver, sorted by their
// numbers.
func (f *Fleet) storedSlices(ctx context.Context, node string) (map[string][]*resourceapi.ResourceSlice, error) {
	list, err := f.options.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: resourceapi.ResourceSliceSelectorNodeName + "=" + node, LabelSelector: LabelFleet + "=" + f.options.Name,
	})
	if err != nil {
		return nil, err
	}
	out := make(map[string][]*resourceapi.ResourceSlice)
	for i := range list.Items {
		if slice := &list.Items[i]; ptr.Deref(slice.Spec.NodeName, "") == node {
			out[slice.Spec.Driver] = append(out[slice.Spec.Driver], slice)
		}
	}
	for _, of := range out {
		slices.SortFunc(of, func(a, b *resourceapi.ResourceSlice) int {
			return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
		})
	}
	return out, nil
}

// slicesOf returns the desired ResourceSlices of one driver. Devices stay in the slices in which
// they are stored. A driver without devices has no slices.
func (f *Fleet) slicesOf(in *inventory.Inventory, driver, name string, node types.UID, stored []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	var previous *resourceslice.DriverResources
	if len(stored) > 0 {
		pool := resourceslice.Pool{}
		for _, slice := range stored {
			pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: slice.Spec.Devices, SharedCounters: slice.Spec.SharedCounters})
		}
		previous = &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{name: pool}}
	}
	contents := in.DriverResources(driver, previous, nil).Pools[name].Slices
	if !slices.Contains(in.Drivers(), driver) {
		contents = nil
	}
	var out []*resourceapi.ResourceSlice
	for i, content := range contents {
		out = append(out, &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("%s-%s-%d", name, driver, i), Labels: map[string]string{LabelFleet: f.options.Name},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: node, Controller: ptr.To(true)}},
			},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: driver, NodeName: &name, Devices: content.Devices, SharedCounters: content.SharedCounters,
				Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: int64(len(contents))},
			},
		})
	}
	return out
}

// publishPool updates the slices of a pool. If one slice changes, it is one write. If several
// change, it increases the pool's generation, so that readers see a consistent pool.
func (f *Fleet) publishPool(ctx context.Context, stored, want []*resourceapi.ResourceSlice) error {
	client := f.options.Client.ResourceV1().ResourceSlices()
	byName := make(map[string]*resourceapi.ResourceSlice)
	generation, inPlace := int64(0), len(stored) == len(want)
	for _, slice := range stored {
		byName[slice.Name] = slice
		generation = max(generation, slice.Spec.Pool.Generation)
	}
	var changed []*resourceapi.ResourceSlice
	for _, slice := range want {
		slice.Spec.Pool.Generation = generation
		if before := byName[slice.Name]; before == nil || !isSame(before, slice) {
			changed = append(changed, slice)
			inPlace = inPlace && before != nil
		}
	}
	if !inPlace || len(changed) > 1 {
		changed = want
		for _, slice := range want {
			slice.Spec.Pool.Generation = generation + 1
		}
	}
	for _, slice := range changed {
		var err error
		if before := byName[slice.Name]; before != nil {
			slice.ResourceVersion = before.ResourceVersion
			keepTimes(before.Spec.Devices, slice.Spec.Devices)
			_, err = client.Update(ctx, slice, metav1.UpdateOptions{})
		} else {
			_, err = client.Create(ctx, slice, metav1.CreateOptions{})
		}
		if err != nil {
			return err
		}
	}
	for _, old := range stored {
		if !slices.ContainsFunc(want, func(slice *resourceapi.ResourceSlice) bool { return slice.Name == old.Name }) {
			if err := client.Delete(ctx, old.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	return nil
}

func isSame(a, b *resourceapi.ResourceSlice) bool {
	return a.Spec.Pool == b.Spec.Pool && resourceslice.DevicesDeepEqual(a.Spec.Devices, b.Spec.Devices) &&
		equality.Semantic.DeepEqual(a.Spec.SharedCounters, b.Spec.SharedCounters) && equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences)
}

// keepTimes copies the time of addition for taints that existed before.
func keepTimes(before, after []resourceapi.Device) {
	type key struct {
		device string
		taint  resourceapi.DeviceTaint
	}
	times := make(map[key]*metav1.Time)
	keyOf := func(device string, taint resourceapi.DeviceTaint) key {
		taint.TimeAdded = nil
		return key{device, taint}
	}
	for _, device := range before {
		for _, taint := range device.Taints {
			times[keyOf(device.Name, taint)] = taint.TimeAdded
		}
	}
	for _, device := range after {
		for i, taint := range device.Taints {
			device.Taints[i].TimeAdded = times[keyOf(device.Name, taint)]
		}
	}
}

// dryRunKinds sends a dry-run request for a node of each kind and its ResourceSlices, to find out
// whether the API server accepts them.
func (f *Fleet) dryRunKinds(ctx context.Context) error {
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	tried := make(map[*inventory.SimulatedNodes]bool)
	for _, m := range f.members {
		if tried[m.kind] {
			continue
		}
		tried[m.kind] = true
		_, err := f.options.Client.CoreV1().Nodes().Create(ctx, f.newNode(m, metav1.Now()), dryRun)
		if !isFinal(err) {
			err = f.createAll(ctx, m.kind.Inventory(m.index, nil), m.name, "simulated", dryRun)
		}
		if isFinal(err) && !apierrors.IsBadRequest(err) { // webhooks may not support dry run
			return fmt.Errorf("nodes %s: the API server refuses what they are made of: %w", m.kind.Name, err)
		}
	}
	return nil
}
