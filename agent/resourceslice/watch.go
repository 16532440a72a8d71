// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"context"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// poolIndex is the name of the index of slices by pool.
const poolIndex = "pool"

// startWatching starts the informer, and waits until it has synced.
func (c *Controller) startWatching(ctx context.Context) error {
	c.selectByPool.Store(c.options.ReconcilePoolWithName != "")
	logger := klog.FromContext(ctx)
	informer := cache.NewSharedIndexInformer(
		cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{ListWithContextFunc: c.list, WatchFuncWithContext: c.watch}, c.client),
		&resourceapi.ResourceSlice{},
		0, // no resync: unchanged slices need no check
		cache.Indexers{poolIndex: func(object any) ([]string, error) {
			if slice, ok := object.(*resourceapi.ResourceSlice); ok {
				return []string{slice.Spec.Pool.Name}, nil
			}
			return nil, nil
		}},
	)
	c.stored = newMutations(logger, informer.GetIndexer(), *c.options.MutationCacheTTL)
	handler, err := informer.AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { c.sliceStored(object) },
		UpdateFunc: func(old, object any) { c.requeue(old); c.sliceStored(object) },
		DeleteFunc: c.sliceDeleted,
	}, cache.HandlerOptions{Logger: &logger})
	if err != nil {
		return fmt.Errorf("watch ResourceSlices: %w", err)
	}
	c.background.Go(func() {
		defer c.queue.ShutDown()
		informer.RunWithContext(ctx)
	})
	select {
	case <-handler.HasSyncedChecker().Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("list ResourceSlices: %w", context.Cause(ctx))
	}
}

func (c *Controller) sliceStored(object any) {
	if slice, ok := object.(*resourceapi.ResourceSlice); ok {
		c.stored.OnAddOrUpdate(slice)
		c.requeue(slice)
	}
}

func (c *Controller) sliceDeleted(object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	if slice, ok := object.(*resourceapi.ResourceSlice); ok {
		c.stored.OnDelete(slice)
		c.forgetOwner()
		c.requeue(slice)
	}
}

// requeue queues the slice's pool to be checked after SyncDelay. Most events result from the
// controller's own writes.
func (c *Controller) requeue(object any) {
	if slice, ok := object.(*resourceapi.ResourceSlice); ok {
		c.queue.AddAfter(slice.Spec.Pool.Name, *c.options.SyncDelay)
	}
}

// selector returns the field selector of the controller's slices.
func (c *Controller) selector(byPool bool) string {
	selector := fields.Set{
		resourceapi.ResourceSliceSelectorDriver:   c.options.DriverName,
		resourceapi.ResourceSliceSelectorNodeName: c.nodeName(),
	}
	if byPool {
		selector[selectorPoolName] = c.options.ReconcilePoolWithName
	}
	return selector.String()
}

// nodeName returns the NodeName of the controller's slices, or empty.
func (c *Controller) nodeName() string {
	if isNode(c.options.Owner) && c.options.ReconcilePoolWithName == "" {
		return c.options.Owner.Name
	}
	return ""
}

func (c *Controller) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return c.listSlices(ctx, options)
}

func (c *Controller) listSlices(ctx context.Context, options metav1.ListOptions) (*resourceapi.ResourceSliceList, error) {
	list, err := selecting(c, options, func(options metav1.ListOptions) (*resourceapi.ResourceSliceList, error) {
		return c.client.ResourceSlices().List(ctx, options)
	})
	if err != nil {
		return nil, err
	}
	list.Items = slices.DeleteFunc(list.Items, func(slice resourceapi.ResourceSlice) bool { return !c.isOwn(&slice) })
	return list, nil
}

func (c *Controller) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	events, err := selecting(c, options, func(options metav1.ListOptions) (watch.Interface, error) {
		return c.client.ResourceSlices().Watch(ctx, options)
	})
	if err != nil || c.options.ReconcilePoolWithName == "" || c.selectByPool.Load() {
		return events, err
	}
	// A slice cannot move to another pool, since the pool's name is immutable.
	return watch.Filter(events, func(event watch.Event) (watch.Event, bool) {
		slice, ok := event.Object.(*resourceapi.ResourceSlice)
		return event, !ok || event.Type == watch.Bookmark || c.isOwn(slice)
	}), nil
}

// isOwn tells whether a slice belongs to a pool that the controller manages.
func (c *Controller) isOwn(slice *resourceapi.ResourceSlice) bool {
	only := c.options.ReconcilePoolWithName
	return only == "" || slice.Spec.Pool.Name == only
}

// selecting makes a request with a field selector. API servers before 1.37 return a bad request for
// the pool's name, and the request is repeated without it.
func selecting[T any](c *Controller, options metav1.ListOptions, request func(metav1.ListOptions) (T, error)) (T, error) {
	byPool := c.selectByPool.Load()
	options.FieldSelector = c.selector(byPool)
	answer, err := request(options)
	if byPool && apierrors.IsBadRequest(err) {
		c.selectByPool.Store(false)
		options.FieldSelector = c.selector(false)
		return request(options)
	}
	return answer, err
}
