// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletplugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	upstream "k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/dray-project/dray/agent/resourceslice"
)

// Helper serves kubelet for a driver and publishes its devices. The methods that are not
// listed here are those of upstream's Helper. Methods may be called concurrently.
type Helper struct {
	*upstream.Helper

	ctx     context.Context // that of Start, for what is started later
	options options
	plugin  DRAPlugin

	mutex     sync.Mutex
	stopped   bool
	published *resourceslice.Controller // nil until something is
}

// Start serves kubelet. It publishes nothing before PublishResources. What it started runs
// until Stop, or until ctx is done. DriverName and KubeClient are required.
func Start(ctx context.Context, plugin DRAPlugin, opts ...Option) (*Helper, error) {
	h := &Helper{ctx: ctx, plugin: plugin}
	for _, option := range opts {
		if err := option(&h.options); err != nil {
			return nil, err
		}
	}
	served, services := withHealth(plugin)
	// What the driver itself says of the health service comes later and counts.
	kubelet, err := upstream.Start(ctx, served, slices.Concat(services, h.options.kubelet, h.options.metadata.option())...)
	if err != nil {
		return nil, err
	}
	h.Helper = kubelet
	return h, nil
}

// PublishResources replaces what the driver has published. It returns before anything is
// written; what goes wrong then is told to HandleError, as an ErrRecoverable. It copies what
// it needs of resources.
func (h *Helper) PublishResources(_ context.Context, resources resourceslice.DriverResources) error {
	if h.options.nodeName == "" {
		return errors.New("publish resources: the option NodeName is required")
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.stopped {
		return errors.New("publish resources: the helper was stopped")
	}
	if h.published != nil {
		h.published.Update(&resources)
		return nil
	}
	published, err := resourceslice.StartController(h.ctx, resourceslice.Options{
		DriverName: h.options.driverName,
		KubeClient: h.options.kubeClient,
		Owner: &resourceslice.Owner{
			APIVersion: "v1",
			Kind:       "Node",
			Name:       h.options.nodeName,
			UID:        h.options.nodeUID,
		},
		Resources: &resources,
		ErrorHandler: func(ctx context.Context, err error, msg string) {
			h.plugin.HandleError(ctx, recoverable{err}, msg)
		},
		ReconcilePoolWithName: h.options.reconcilePoolWithName,
	})
	if err != nil {
		return fmt.Errorf("publish resources: %w", err)
	}
	h.published = published
	return nil
}

// Stop ends all that Start and PublishResources started, and waits for it. What is published
// stays. A nil Helper has nothing to stop.
func (h *Helper) Stop() {
	if h == nil {
		return
	}
	h.Helper.Stop()
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.stopped = true
	if h.published != nil {
		h.published.Stop()
	}
}

// recoverable is an error after which the driver may go on.
type recoverable struct{ error }

func (r recoverable) Unwrap() error        { return r.error }
func (r recoverable) Is(target error) bool { return target == ErrRecoverable }
