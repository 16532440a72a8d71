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

// Helper serves kubelet for a driver and publishes its devices. Other methods are those of the
// embedded upstream Helper. Methods may be called concurrently.
type Helper struct {
	*upstream.Helper

	ctx     context.Context // for goroutines that start later; done when Stop is called
	cancel  context.CancelFunc
	options options
	plugin  DRAPlugin

	mutex     sync.Mutex
	stopped   bool
	published *resourceslice.Controller // nil before PublishResources
}

// Start starts to serve kubelet. It publishes nothing before PublishResources. The helper runs
// until Stop is called or ctx is done. DriverName and KubeClient are required.
func Start(ctx context.Context, plugin DRAPlugin, opts ...Option) (*Helper, error) {
	h := &Helper{plugin: plugin}
	for _, option := range opts {
		if err := option(&h.options); err != nil {
			return nil, err
		}
	}
	served, services := withHealth(plugin)
	// Options of the driver come later, so that they override the defaults for the health service.
	kubelet, err := upstream.Start(ctx, served, slices.Concat(services, h.options.kubelet, h.options.metadata.option())...)
	if err != nil {
		return nil, err
	}
	h.Helper = kubelet
	h.ctx, h.cancel = context.WithCancel(ctx)
	return h, nil
}

// PublishResources replaces the published devices. It returns before anything is written. Later
// errors go to HandleError as ErrRecoverable. It copies what it needs of resources.
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

// Stop ends what Start and PublishResources started, and waits for it. ResourceSlices remain. Stop
// does nothing on a nil Helper.
func (h *Helper) Stop() {
	if h == nil {
		return
	}
	h.cancel() // PublishResources may wait for an API server that does not answer
	h.Helper.Stop()
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.stopped = true
	if h.published != nil {
		h.published.Stop()
	}
}

// recoverable wraps an error after which the driver may go on.
type recoverable struct{ error }

func (r recoverable) Unwrap() error        { return r.error }
func (r recoverable) Is(target error) bool { return target == ErrRecoverable }
