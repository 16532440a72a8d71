// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// slicesDelay is for how long a driver must not be reachable before its ResourceSlices are deleted.
// Kubelet has the same. A container that is started again comes back sooner.
const slicesDelay = 30 * time.Second

// deleteStaleSlices deletes ResourceSlices of a node whose driver cannot be reached, until ctx is
// done. Kubelet does so, since pods with these devices would be scheduled to the node and could not
// start. A driver publishes its devices again when it is back. Drivers that have not registered since
// the start are looked at once, slicesDelay after it.
func (p *Preparer) deleteStaleSlices(ctx context.Context, node string) {
	due, first := time.Now().Add(slicesDelay), true
	for {
		var timer <-chan time.Time
		if !due.IsZero() {
			timer = time.After(time.Until(due))
		}
		select {
		case <-ctx.Done():
			return
		case <-p.plugins.lost:
			if due.IsZero() {
				due = time.Now().Add(slicesDelay)
			}
			continue
		case <-timer:
		}
		now := time.Now()
		if err := p.deleteSlices(ctx, node, p.plugins.staleAt(now, first)); err != nil {
			klog.FromContext(ctx).Error(err, "ResourceSlices of drivers that cannot be reached are not deleted yet", "node", node)
			due = now.Add(lastRetry)
			continue
		}
		due, first = p.plugins.nextStale(now), false
	}
}

// deleteSlices deletes the ResourceSlices of a node whose driver is stale.
func (p *Preparer) deleteSlices(ctx context.Context, node string, stale func(driver string) bool) error {
	slices := p.client.ResourceSlices()
	list, err := slices.List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(resourceapi.ResourceSliceSelectorNodeName, node).String()})
	if err != nil {
		return err
	}
	var failed []error
	for _, slice := range list.Items {
		if ptr.Deref(slice.Spec.NodeName, "") != node || !stale(slice.Spec.Driver) {
			continue
		}
		err := slices.Delete(ctx, slice.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &slice.UID}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			failed = append(failed, fmt.Errorf("ResourceSlice %s of driver %s: %w", slice.Name, slice.Spec.Driver, err))
			continue
		}
		klog.FromContext(ctx).Info("Deleted a ResourceSlice of a driver that cannot be reached", "node", node, "driver", slice.Spec.Driver, "resourceslice", slice.Name)
	}
	return errors.Join(failed...)
}

// staleAt returns a function that tells which drivers have not been reachable for slicesDelay. With
// unknown, drivers that never registered are stale, too.
func (p *plugins) staleAt(now time.Time, unknown bool) func(driver string) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	reachable, absent := make(map[string]bool), make(map[string]bool)
	for _, known := range p.known {
		reachable[known.driver] = reachable[known.driver] || known.connected
	}
	for driver, since := range p.absent {
		absent[driver] = now.Sub(since) >= slicesDelay
	}
	return func(driver string) bool {
		isStale, registered := absent[driver]
		return !reachable[driver] && (isStale || unknown && !registered)
	}
}

// nextStale forgets drivers that are stale, and returns when the next one is. It returns zero if
// there is none.
func (p *plugins) nextStale(now time.Time) (next time.Time) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for driver, since := range p.absent {
		switch at := since.Add(slicesDelay); {
		case now.Sub(since) >= slicesDelay:
			delete(p.absent, driver)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	return next
}

// recordAbsences has it recorded from now on since when drivers cannot be reached.
func (p *plugins) recordAbsences() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.absent = make(map[string]time.Time)
}

// noteAbsence records since when no process of a driver can be reached. The caller holds the mutex.
func (p *plugins) noteAbsence(driver string) {
	if p.absent == nil {
		return
	}
	for _, known := range p.known {
		if known.driver == driver && known.connected {
			delete(p.absent, driver)
			return
		}
	}
	if _, noted := p.absent[driver]; !noted {
		p.absent[driver] = time.Now()
		select {
		case p.lost <- struct{}{}:
		default:
		}
	}
}
