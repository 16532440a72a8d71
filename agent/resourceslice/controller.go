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

// Controller keeps the ResourceSlices of one driver, or of one driver on one
// node, as the driver wants them. Its methods may be called concurrently.
type Controller struct {
	options Options
	client  *draclient.Client
	queue   workqueue.TypedRateLimitingInterface[string] // names of pools
	stored  mutations                                    // slices by pool, with answers to writes that the watch has not seen

	cancel     context.CancelCauseFunc
	background sync.WaitGroup
	reporting  sync.Mutex // held while the ErrorHandler runs

	// selectByPool is false once the API server refused to select slices by
	// the name of their pool.
	selectByPool atomic.Bool

	creates, updates, deletes, repairs atomic.Int64

	ownerMutex   sync.Mutex
	ownerUID     types.UID // of the owner, if that is a node; empty if it must be looked up
	lastOwnerUID types.UID // the last one that was looked up

	mutex sync.Mutex
	pools map[string]*poolState
}

// poolState is what is known of one pool.
type poolState struct {
	// The mutex of the controller protects these.
	desired *desiredPool // nil if the pool must not exist
	settled bool         // desired is published, and no field was dropped
	dropped bool         // the last write of desired lost fields

	// The queue hands a pool to one worker at a time, to which these belong.
	writing     *desiredPool // of a write that raised the generation, until it is through
	writingTo   int64        // that generation
	published   bool         // last is published
	last        *desiredPool // that was written as a whole; nil if the pool was deleted
	lastOwner   types.UID    // of the slices at that time
	wrote       int          // successful writes of the attempt
	contest     contest
	tried       *desiredPool // of the last attempt
	notBefore   time.Time    // of the next attempt, whoever asks for it
	failures    int          // attempts since the last one that the API server did not turn away
	checkAfter  time.Time    // when slices that we created must have been seen
	deletedKeys map[string]bool
}

// StartController starts to publish. It returns once it has seen what is
// published already. The controller runs until Stop, or until ctx is done.
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

// newController returns a controller that watches, but has no workers.
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

// Stop ends all that runs in the background and waits for it. What is published
// stays: see Withdraw.
func (c *Controller) Stop() {
	if c == nil {
		return
	}
	c.cancel(errors.New("ResourceSlice controller: stopped"))
	c.background.Wait()
}

// GetStats returns what was written up to now.
func (c *Controller) GetStats() Stats {
	return Stats{
		NumCreates: c.creates.Load(),
		NumUpdates: c.updates.Load(),
		NumDeletes: c.deletes.Load(),
	}
}

// Repairs is how often a pool that was as desired had to be written again, because somebody
// else had written or deleted slices of it: see ContestedPoolError.
func (c *Controller) Repairs() int64 { return c.repairs.Load() }

// Update replaces all that is desired. Pools that are not in resources are
// deleted; nil is the same as no pools. Update copies what it needs, and returns
// before anything is written.
//
// Pools that stay the same cost no more than comparing them. Updates that follow
// each other faster than they can be written are written together.
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

// UpdatePool replaces what is desired of one pool and leaves the others as they
// are. With nil, the pool is deleted. It is for drivers with so many devices that
// repeating all of them in each Update costs too much.
func (c *Controller) UpdatePool(name string, pool *Pool) {
	if !c.accepts(name) {
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.setPool(name, pool)
}

// setPool expects the mutex to be locked.
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
		// The driver repeats what the API server could not store. Perhaps
		// it can now.
		previous = nil
	}
	desired := newDesiredPool(pool, previous)
	if desired == state.desired && state.settled {
		return
	}
	state.desired, state.settled = desired, false
	c.queue.Add(name)
}

// state expects the mutex to be locked.
func (c *Controller) state(name string) *poolState {
	state := c.pools[name]
	if state == nil {
		state = &poolState{deletedKeys: make(map[string]bool)}
		c.pools[name] = state
	}
	return state
}

// accepts refuses a pool that a controller with ReconcilePoolWithName is not
// responsible for.
func (c *Controller) accepts(pool string) bool {
	only := c.options.ReconcilePoolWithName
	if only == "" || pool == only {
		return true
	}
	err := fmt.Errorf("pool %q: the controller publishes only pool %q", pool, only)
	c.options.ErrorHandler(context.Background(), err, "update refused")
	return false
}

// run publishes pools until the queue is shut down.
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

// publish makes one attempt at a pool.
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
		// Trying again would not help.
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
		// How often something else failed says nothing about this.
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
			// It may come back at any time, and nothing tells when.
			c.queue.AddAfter(name, *c.options.SyncDelay)
			return
		}
		c.queue.AddRateLimited(name)
		return
	}
	c.queue.Forget(name)
}

// finished notes that a pool is as desired, and tells if somebody else has undone that too
// often. Slices that got another owner were not undone by another instance.
func (c *Controller) finished(ctx context.Context, name string, state *poolState, desired *desiredPool, repairing bool) {
	owner := c.knownOwner()
	if repairing && state.wrote > 0 && owner == state.lastOwner {
		c.repairs.Add(1)
		if state.contest.repaired(*c.options.SyncDelay) {
			c.report(ctx, &ContestedPoolError{PoolName: name, Repairs: state.contest.repairs, Writer: state.contest.writer}, "publishing ResourceSlices")
		}
	}
	if state.wrote > 0 && desired == nil && !repairing {
		state.contest.last = time.Now() // remembered, in case that the pool comes back
	}
	state.published, state.last, state.lastOwner = true, desired, owner
}

// settle notes what came of publishing desired, unless it is not desired any more.
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

// slicesOf returns the slices of a pool that exist, as far as is known.
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
