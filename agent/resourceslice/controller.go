// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	draclient "k8s.io/dynamic-resource-allocation/client"
	"k8s.io/klog/v2"
)

// Controller reconciles the ResourceSlices of one driver, or of one driver on one node, with what
// the driver wants. Its methods may be called concurrently.
type Controller struct {
	options Options
	client  *draclient.Client
	queue   workqueue.TypedRateLimitingInterface[string] // names of pools
	stored  mutations                                    // slices by pool, including responses to writes that the watch has not delivered yet

	cancel     context.CancelCauseFunc
	background sync.WaitGroup
	reporting  sync.Mutex // held while the ErrorHandler runs

	// selectByPool is false after the API server refused a field selector for the pool's name.
	selectByPool atomic.Bool

	creates, updates, deletes, repairs atomic.Int64

	ownerMutex   sync.Mutex
	ownerUID     types.UID // of an owner that is a node; empty if it must be looked up
	lastOwnerUID types.UID // the result of the last look-up

	mutex sync.Mutex
	pools map[string]*poolState
}

// poolState is the state of one pool in the controller.
type poolState struct {
	// These fields are guarded by the controller's mutex.
	desired *desiredPool // nil if the pool must not exist
	settled bool         // desired is published, and the API server dropped no field
	dropped bool         // the API server dropped fields of desired

	// The remaining fields belong to the worker that has the pool from the queue.
	writing     *desiredPool // set while a write that raises the generation is incomplete
	writingTo   int64        // the generation of that write
	published   bool         // last was published completely
	last        *desiredPool // the latest completely written pool; nil if it was deleted
	lastOwner   types.UID    // owner of the slices at that time
	wrote       int          // successful writes of the current attempt
	contest     contest
	tried       *desiredPool // desired pool of the last attempt
	notBefore   time.Time    // earliest time of the next attempt
	failures    int          // attempts in a row that failed because of the API server's state
	checkAfter  time.Time    // when written slices must have been seen in the watch
	deletedKeys map[string]bool
}

// StartController starts a controller. It returns when the controller has listed the published
// slices. The controller runs until Stop is called or ctx is done.
func StartController(ctx context.Context, options Options) (*Controller, error) {
	c, err := newController(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("start ResourceSlice controller: %w", err)
	}
	for range workers {
		c.background.Go(func() { c.run(ctx) })
	}
	return c, nil
}

// newController returns a controller with a watch, but without workers.
func newController(ctx context.Context, options Options) (*Controller, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	options = options.withDefaults()
	ctx, cancel := context.WithCancelCause(ctx)
	c := &Controller{
		options: options,
		client:  draclient.New(options.KubeClient),
		queue:   options.Queue,
		cancel:  cancel,
		pools:   make(map[string]*poolState),
	}
	if err := c.startWatching(ctx); err != nil {
		c.Stop()
		return nil, err
	}
	c.Update(options.Resources)
	return c, nil
}

// Stop stops the controller and waits for its goroutines. ResourceSlices remain: see Withdraw.
func (c *Controller) Stop() {
	if c == nil {
		return
	}
	c.cancel(errors.New("ResourceSlice controller: stopped"))
	c.background.Wait()
}

// GetStats returns the number of successful writes.
func (c *Controller) GetStats() Stats {
	return Stats{
		NumCreates: c.creates.Load(),
		NumUpdates: c.updates.Load(),
		NumDeletes: c.deletes.Load(),
	}
}

// Repairs returns how often a pool was written again because another writer had changed or deleted
// its slices: see ContestedPoolError.
func (c *Controller) Repairs() int64 { return c.repairs.Load() }

// Update replaces all desired pools. Pools that are not in resources are deleted; nil stands for no
// pools. Update copies what it needs, and returns before anything is written.
//
// Unchanged pools are only compared. Updates in quick succession are combined into one write.
func (c *Controller) Update(resources *DriverResources) {
	if resources == nil {
		resources = &DriverResources{}
	}
	for name := range resources.Pools {
		if !c.accepts(name) {
			return
		}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for name := range c.pools {
		if _, ok := resources.Pools[name]; !ok {
			c.setPool(name, nil)
		}
	}
	for name, pool := range resources.Pools {
		c.setPool(name, &pool)
	}
}

// UpdatePool replaces one desired pool, and leaves the others alone. nil deletes the pool. It is
// for drivers with so many devices that an Update with all of them is too expensive.
func (c *Controller) UpdatePool(name string, pool *Pool) {
	if !c.accepts(name) {
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.setPool(name, pool)
}

// Check compares all pools with what is stored, and repairs them, without waiting for SyncDelay. It
// is for drivers that know that somebody deletes slices, as kubelet does when it starts.
func (c *Controller) Check() {
	if c == nil {
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for name := range c.pools {
		c.queue.Add(name)
	}
}

// setPool sets a desired pool. The caller holds the mutex.
func (c *Controller) setPool(name string, pool *Pool) {
	state := c.state(name)
	if pool == nil {
		if state.desired != nil {
			state.desired, state.settled = nil, false
			c.queue.Add(name)
		}
		return
	}
	previous := state.desired
	if state.dropped {
		// The driver repeats a pool of which the API server dropped fields. Write it again, since
		// the API server may store them now.
		previous = nil
	}
	desired := newDesiredPool(pool, previous)
	if desired == state.desired && state.settled {
		return
	}
	state.desired, state.settled = desired, false
	c.queue.Add(name)
}

// state returns the state of a pool, which it creates if necessary. The caller holds the mutex.
func (c *Controller) state(name string) *poolState {
	state := c.pools[name]
	if state == nil {
		state = &poolState{deletedKeys: make(map[string]bool)}
		c.pools[name] = state
	}
	return state
}

// accepts tells whether the controller manages a pool. With ReconcilePoolWithName, it manages one
// pool only.
func (c *Controller) accepts(pool string) bool {
	only := c.options.ReconcilePoolWithName
	if only == "" || pool == only {
		return true
	}
	err := fmt.Errorf("pool %q: the controller publishes only pool %q", pool, only)
	c.options.ErrorHandler(context.Background(), err, "update refused")
	return false
}

// run is a worker: it publishes pools from the queue until that is shut down.
func (c *Controller) run(ctx context.Context) {
	for {
		name, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		c.publish(klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "pool", name)), name)
		c.queue.Done(name)
	}
}

// publish makes one attempt to publish a pool.
func (c *Controller) publish(ctx context.Context, name string) {
	c.mutex.Lock()
	state := c.state(name)
	desired := state.desired
	c.mutex.Unlock()

	if wait := time.Until(state.notBefore); wait > 0 {
		c.queue.AddAfter(name, wait)
		return
	}
	if desired != nil && desired.invalid != nil {
		// Another attempt would fail in the same way.
		c.report(ctx, fmt.Errorf("pool %q: %w", name, desired.invalid), "pool cannot be published")
		c.queue.Forget(name)
		return
	}
	repairing := state.published && state.last == desired
	if repairing {
		if wait := state.contest.wait(*c.options.SyncDelay); wait > 0 {
			c.queue.AddAfter(name, wait)
			return
		}
	}
	if state.tried != desired {
		// Failures with an earlier desired pool do not delay this one.
		state.tried = desired
		c.queue.Forget(name)
	}
	state.wrote = 0
	err := c.syncPool(ctx, name, state, desired)
	if err == nil {
		c.finished(ctx, name, state, desired, repairing)
	}
	c.settle(name, state, desired, err == nil)
	state.attempted(err)
	if err != nil {
		if ctx.Err() == nil {
			c.report(ctx, fmt.Errorf("pool %q: %w", name, err), "publishing ResourceSlices")
		}
		if errors.Is(err, errNoOwner) {
			// The node may be created at any time, and no event says so.
			c.queue.AddAfter(name, *c.options.SyncDelay)
			return
		}
		c.queue.AddRateLimited(name)
		return
	}
	c.queue.Forget(name)
}

// finished records that a pool is as desired. If another writer keeps changing it, it reports a
// ContestedPoolError. A write because of a changed owner is not a repair.
func (c *Controller) finished(ctx context.Context, name string, state *poolState, desired *desiredPool, repairing bool) {
	owner := c.knownOwner()
	if repairing && state.wrote > 0 && owner == state.lastOwner {
		c.repairs.Add(1)
		if state.contest.repaired(*c.options.SyncDelay) {
			c.report(ctx, &ContestedPoolError{PoolName: name, Repairs: state.contest.repairs, Writer: state.contest.writer}, "publishing ResourceSlices")
		}
	}
	if state.wrote > 0 && desired == nil && !repairing {
		state.contest.last = time.Now() // remembered in case the pool is created again
	}
	state.published, state.last, state.lastOwner = true, desired, owner
}

// settle records the result of publishing desired, unless the driver has replaced desired
// meanwhile.
func (c *Controller) settle(name string, state *poolState, desired *desiredPool, published bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if state.desired != desired {
		return
	}
	state.dropped = desired.dropped()
	state.settled = published && !state.dropped
	switch {
	case !published || desired != nil || len(state.deletedKeys) > 0:
	case state.contest.recent(*c.options.SyncDelay):
		c.queue.AddAfter(name, contestMemory**c.options.SyncDelay+time.Second)
	default:
		delete(c.pools, name)
	}
}

func (c *Controller) report(ctx context.Context, err error, msg string) {
	c.reporting.Lock()
	defer c.reporting.Unlock()
	c.options.ErrorHandler(ctx, err, msg)
}

// slicesOf returns the known slices of a pool.
func (c *Controller) slicesOf(pool string) ([]*resourceapi.ResourceSlice, error) {
	objects, err := c.stored.ByIndex(poolIndex, pool)
	if err != nil {
		return nil, fmt.Errorf("look up ResourceSlices: %w", err)
	}
	slices := make([]*resourceapi.ResourceSlice, 0, len(objects))
	for _, object := range objects {
		if slice, ok := object.(*resourceapi.ResourceSlice); ok {
			slices = append(slices, slice)
		}
	}
	return slices, nil
}
