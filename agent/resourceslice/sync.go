// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"context"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// syncPool makes the stored slices of a pool the desired ones. It deletes first, then updates, then
// creates. So devices that are gone are removed even if the new ones cannot be stored.
func (c *Controller) syncPool(ctx context.Context, name string, state *poolState, desired *desiredPool) error {
	started := time.Now()
	stored, err := c.slicesOf(name)
	if err != nil {
		return err
	}
	stored = state.withoutDeleted(stored)
	defer func() { c.checkLater(name, state, started) }()
	if desired == nil {
		state.contest.found(stored)
		return c.deleteSlices(ctx, state, stored)
	}
	owner, err := c.owner(ctx)
	if err != nil {
		return err
	}
	w := &writer{Controller: c, name: name, owner: owner, state: state, desired: desired}
	p := newPlan(desired, owner, stored, state.unfinished(desired))
	state.contest.found(p.wrong())
	return w.write(ctx, p)
}

// unfinished returns the generation of an incomplete write of desired, or zero.
func (s *poolState) unfinished(desired *desiredPool) int64 {
	if s.writing != desired {
		return 0
	}
	return s.writingTo
}

// withoutDeleted removes slices that were deleted, and whose deletion the watch has not delivered
// yet.
func (s *poolState) withoutDeleted(stored []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	if len(s.deletedKeys) == 0 {
		return stored
	}
	var out []*resourceapi.ResourceSlice
	unseen := make(map[string]bool)
	for _, slice := range stored {
		if key := instance(slice); s.deletedKeys[key] {
			unseen[key] = true
		} else {
			out = append(out, slice)
		}
	}
	s.deletedKeys = unseen
	return out
}

// instance returns a key that distinguishes objects of the same name.
func instance(slice *resourceapi.ResourceSlice) string { return slice.Name + "/" + string(slice.UID) }

// checkLater queues the pool again for when the cached responses to writes expire. If a slice was
// deleted before the watch delivered its creation, no event says so. With the libraries of Kubernetes
// 1.36, a deletion that the watch delivers leaves the response in the cache.
func (c *Controller) checkLater(name string, state *poolState, started time.Time) {
	switch {
	case state.checkAfter.IsZero():
	case started.After(state.checkAfter):
		state.checkAfter = time.Time{}
	default:
		c.queue.AddAfter(name, time.Until(state.checkAfter)+time.Millisecond)
	}
}

func (c *Controller) deleteSlices(ctx context.Context, state *poolState, slices []*resourceapi.ResourceSlice) error {
	for _, slice := range slices {
		err := c.deleteSlice(ctx, slice, unchanged(slice))
		state.requested()
		if err != nil {
			return err
		}
		state.deletedKeys[instance(slice)] = true
		state.wrote++
	}
	return nil
}

// unchanged returns preconditions that fail if the slice was changed since it was read.
func unchanged(slice *resourceapi.ResourceSlice) *metav1.Preconditions {
	return &metav1.Preconditions{UID: &slice.UID, ResourceVersion: &slice.ResourceVersion}
}

// deleteSlice deletes a slice if it meets the preconditions, which may be nil. It is no error if
// the slice is gone.
func (c *Controller) deleteSlice(ctx context.Context, slice *resourceapi.ResourceSlice, preconditions *metav1.Preconditions) error {
	err := c.client.ResourceSlices().Delete(ctx, slice.Name, metav1.DeleteOptions{Preconditions: preconditions})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("delete ResourceSlice %s: %w", slice.Name, err)
	}
	klog.FromContext(ctx).V(4).Info("Deleted ResourceSlice", "slice", klog.KObj(slice))
	c.deletes.Add(1)
	return nil
}

// writer makes one write of one pool.
type writer struct {
	*Controller
	name    string
	owner   *metav1.OwnerReference // nil if there is none
	state   *poolState
	desired *desiredPool
}

func (w *writer) write(ctx context.Context, p *plan) error {
	if err := w.deleteSlices(ctx, w.state, p.obsolete); err != nil {
		return err
	}
	if p.raised {
		w.state.writing, w.state.writingTo = w.desired, p.generation
	}
	for _, rewrite := range p.rewrite {
		if err := w.update(ctx, rewrite, p.generation); err != nil {
			return err
		}
	}
	for _, i := range p.create {
		if err := w.create(ctx, i, p.generation); err != nil {
			return err
		}
	}
	w.state.writing, w.state.writingTo = nil, 0
	return nil
}

func (w *writer) update(ctx context.Context, r rewrite, generation int64) error {
	slice := &resourceapi.ResourceSlice{ObjectMeta: *r.stored.ObjectMeta.DeepCopy(), Spec: w.spec(r.index, generation)}
	slice.OwnerReferences = withOwner(slice.OwnerReferences, w.owner)
	slice.Spec.Devices = withKnownTaintTimes(slice.Spec.Devices, r.stored.Spec.Devices)
	answer, err := w.client.ResourceSlices().Update(ctx, slice, metav1.UpdateOptions{})
	w.state.requested()
	if err != nil {
		if apierrors.IsNotFound(err) {
			w.state.deletedKeys[instance(r.stored)] = true
		}
		return fmt.Errorf("slice %d: update ResourceSlice %s: %w", r.index, slice.Name, err)
	}
	klog.FromContext(ctx).V(4).Info("Updated ResourceSlice", "slice", klog.KObj(answer), "generation", generation)
	w.updates.Add(1)
	w.state.contest.wrote(answer.ManagedFields)
	w.written(ctx, r.index, slice, answer, "update of ResourceSlice")
	return nil
}

func (w *writer) create(ctx context.Context, i int, generation int64) error {
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{GenerateName: namePrefix(i, len(w.desired.slices), w.options.DriverName, w.options.Owner)},
		Spec:       w.spec(i, generation),
	}
	slice.OwnerReferences = withOwner(nil, w.owner)
	answer, err := w.client.ResourceSlices().Create(ctx, slice, metav1.CreateOptions{})
	w.state.requested()
	if err != nil {
		return fmt.Errorf("slice %d: create ResourceSlice: %w", i, err)
	}
	klog.FromContext(ctx).V(4).Info("Created ResourceSlice", "slice", klog.KObj(answer), "generation", generation)
	w.creates.Add(1)
	w.state.contest.wrote(answer.ManagedFields)
	w.written(ctx, i, slice, answer, "create of ResourceSlice")
	return nil
}

// spec returns the spec to write. It shares memory with desired, which is not modified.
func (w *writer) spec(i int, generation int64) resourceapi.ResourceSliceSpec {
	desired := w.desired.slices[i]
	spec := resourceapi.ResourceSliceSpec{
		Driver: w.options.DriverName,
		Pool: resourceapi.ResourcePool{
			Name:               w.name,
			Generation:         generation,
			ResourceSliceCount: int64(len(w.desired.slices)),
		},
		NodeSelector:           w.desired.nodeSelector,
		Devices:                desired.Devices,
		SharedCounters:         desired.SharedCounters,
		PerDeviceNodeSelection: desired.PerDeviceNodeSelection,
	}
	writeLaterFields(&spec, &desired.Slice)
	if nodeName := w.nodeName(); nodeName != "" {
		spec.NodeName = &nodeName
	}
	if w.desired.allNodes {
		spec.AllNodes = ptr.To(true)
	}
	return spec
}

// written handles the response to a write. It records fields that the API server dropped.
func (w *writer) written(ctx context.Context, i int, sent, answer *resourceapi.ResourceSlice, msg string) {
	w.state.wrote++
	w.stored.Mutation(answer)
	w.state.checkAfter = time.Now().Add(*w.options.MutationCacheTTL)
	desired := w.desired.slices[i]
	desired.verified = answer
	if sameStored(sliceOf(&sent.Spec), sliceOf(&answer.Spec)) {
		return
	}
	// Treat the stored content as desired from now on. Otherwise, the same fields would be sent and
	// dropped repeatedly.
	desired.accepted = sliceOf(&answer.Spec)
	w.report(ctx, &DroppedFieldsError{
		PoolName:     w.name,
		SliceIndex:   i,
		DesiredSlice: sent.DeepCopy(),
		ActualSlice:  answer.DeepCopy(),
	}, msg)
}
