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
	// DefaultMutationCacheTTL is how long the controller relies on what the API
	// server answered to a write, if it sees nothing newer. A slice that it
	// created and that somebody deleted at once may never be seen: its pool is
	// checked again when this time is over.
	DefaultMutationCacheTTL = time.Minute

	// DefaultSyncDelay is how long after an event of a slice its pool is checked.
	// By then, the events of the controller's own writes have arrived, and
	// somebody who edited a slice by hand still sees it mended.
	DefaultSyncDelay = 30 * time.Second
)

// writeInterval is the least time between attempts to write one pool. The first change is
// written at once; what changes within this time after it is written together.
const writeInterval = 250 * time.Millisecond

// maxWriteInterval is what the interval grows to while the API server turns attempts away.
const maxWriteInterval = 30 * time.Second

// workers is how many pools are published at the same time. More than one is
// needed so that a pool whose requests take long does not hold up the others.
const workers = 16

// Options configure StartController.
type Options struct {
	// DriverName is required: a DNS subdomain of at most 63 characters.
	DriverName string

	// KubeClient is required. It needs permission to get, list, watch, create,
	// update and delete ResourceSlices, and to get the owner if that is a node
	// without UID.
	KubeClient kubernetes.Interface

	// Owner may be nil; somebody must then delete the slices of a driver that
	// is no longer there. With a node as owner, the slices' NodeName is
	// set, and only slices with that NodeName are the controller's.
	Owner *Owner

	// Resources are published at first. Nil is the same as no pools.
	Resources *DriverResources

	// Queue replaces the default work queue. Its keys are names of pools.
	Queue workqueue.TypedRateLimitingInterface[string]

	// MutationCacheTTL replaces DefaultMutationCacheTTL.
	MutationCacheTTL *time.Duration

	// SyncDelay replaces DefaultSyncDelay.
	SyncDelay *time.Duration

	// ErrorHandler is told what goes wrong in the background: a pool that is
	// invalid by itself, which is not tried again before the next Update; an
	// error of the API server, after which the pool is tried again, later each
	// time; a *DroppedFieldsError, found with errors.As, if the API server
	// stored less than it was given; and a *ContestedPoolError if somebody else
	// publishes the same pool.
	//
	// Calls do not overlap, except for those that Update makes before it
	// returns. A pool is tried again once the handler has returned; other pools
	// do not wait for it. The handler must not call Stop or Withdraw.
	//
	// The default logs.
	ErrorHandler func(ctx context.Context, err error, msg string)

	// ReconcilePoolWithName makes the controller responsible for the one pool
	// with this name. NodeName is then not set even if the owner is a node, so
	// that the slices of a node's pool may have a NodeSelector or AllNodes. The
	// price is that the controller receives the events of all slices of the
	// driver if the API server cannot select by pool name.
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
