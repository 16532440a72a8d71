// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"context"
	"errors"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
)

const (
	// DefaultMutationCacheTTL is how long the controller uses the API server's response to a write
	// if the watch delivers nothing newer. If a created slice is deleted at once, the watch may
	// never deliver it. So its pool is checked again after this time.
	DefaultMutationCacheTTL = time.Minute

	// DefaultSyncDelay is the delay from an event of a slice to the check of its pool. Meanwhile,
	// the events of the controller's own writes arrive. It also bounds how long manual changes of a
	// slice remain.
	DefaultSyncDelay = 30 * time.Second
)

// writeInterval is the minimum time between attempts to write one pool. The first change is written
// at once. Changes within this time are combined into one write.
const writeInterval = 250 * time.Millisecond

// maxWriteInterval bounds the backoff while the API server is overloaded or unreachable.
const maxWriteInterval = 30 * time.Second

// workers is the number of pools that are published concurrently, so that a slow pool does not
// delay others.
const workers = 16

// Options configure StartController.
type Options struct {
	// DriverName is required: a DNS subdomain of at most 63 characters.
	DriverName string

	// KubeClient is required. It needs permission to get, list, watch, create,
	// update and delete ResourceSlices, and to get the owner if that is a node
	// without UID.
	KubeClient kubernetes.Interface

	// Owner may be nil. Somebody must then delete the slices when the driver is removed. If the
	// owner is a node, slices get its NodeName, and the controller manages only slices with that
	// NodeName.
	Owner *Owner

	// Resources are the initial desired pools. nil stands for no pools.
	Resources *DriverResources

	// Queue replaces the default work queue. Its keys are names of pools.
	Queue workqueue.TypedRateLimitingInterface[string]

	// MutationCacheTTL replaces DefaultMutationCacheTTL.
	MutationCacheTTL *time.Duration

	// SyncDelay replaces DefaultSyncDelay.
	SyncDelay *time.Duration

	// ErrorHandler gets errors of background work. A pool that is invalid is not tried again before
	// the next Update. After an error of the API server, a pool is tried again with backoff. A
	// *DroppedFieldsError, found with errors.As, says that the API server dropped fields. A
	// *ContestedPoolError says that another writer publishes the same pool.
	//
	// Calls do not overlap, except for those that Update makes before it
	// returns. A pool is tried again once the handler has returned; other pools
	// do not wait for it. The handler must not call Stop or Withdraw.
	//
	// The default logs errors.
	ErrorHandler func(ctx context.Context, err error, msg string)

	// ReconcilePoolWithName makes the controller manage only the pool with this name. Slices do not
	// get a NodeName then, even if the owner is a node. So they may have a NodeSelector or
	// AllNodes. If the API server cannot select by pool name, the controller receives the events of
	// all slices of the driver.
	ReconcilePoolWithName string
}

func (o *Options) validate() error {
	if o.KubeClient == nil {
		return errors.New("options: KubeClient is required")
	}
	if o.DriverName == "" {
		return errors.New("options: DriverName is required")
	}
	return nil
}

// withDefaults fills in what may be left out.
func (o Options) withDefaults() Options {
	o.Owner = o.Owner.DeepCopy()
	o.MutationCacheTTL = ptr.To(ptr.Deref(o.MutationCacheTTL, DefaultMutationCacheTTL))
	o.SyncDelay = ptr.To(ptr.Deref(o.SyncDelay, DefaultSyncDelay))
	if o.Queue == nil {
		o.Queue = workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.DefaultTypedControllerRateLimiter[string](),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "dray_resource_slices"},
		)
	}
	if o.ErrorHandler == nil {
		o.ErrorHandler = func(ctx context.Context, err error, msg string) {
			utilruntime.HandleErrorWithContext(ctx, err, msg)
		}
	}
	return o
}
