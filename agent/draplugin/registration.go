// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package draplugin

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// checksAfterRegistration are the pauses before slices are checked when kubelet registered the
// driver. A kubelet that starts deletes all slices of its node. It does so about when it registers
// drivers.
var checksAfterRegistration = []time.Duration{time.Second, 4 * time.Second}

// registrations are what kubelet said of the driver's registration. Upstream's helper keeps it, too,
// but not for concurrent readers.
type registrations struct {
	accepted atomic.Bool   // by the latest answer
	first    chan struct{} // closed when kubelet accepted the first
	once     sync.Once
	next     chan struct{} // buffered channel of size 1
}

func newRegistrations() *registrations {
	return &registrations{first: make(chan struct{}), next: make(chan struct{}, 1)}
}

// intercept sees the answers of kubelet.
func (r *registrations) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	answer, err := handler(ctx, request)
	status, ok := request.(*registration.RegistrationStatus)
	if !ok || info.FullMethod != registration.Registration_NotifyRegistrationStatus_FullMethodName {
		return answer, err
	}
	r.accepted.Store(status.GetPluginRegistered())
	if status.GetPluginRegistered() {
		r.once.Do(func() { close(r.first) })
		select {
		case r.next <- struct{}{}:
		default: // the slices will be checked anyway
		}
	}
	return answer, err
}

// awaitKubelet waits until kubelet registered the driver, for as long as the options say. It returns
// false if ctx is done before.
func (d *Driver) awaitKubelet(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-d.registrations.first:
	case <-time.After(d.options.AwaitKubelet):
	}
	return true
}

// followKubelet checks the published slices each time kubelet registered the driver.
func (d *Driver) followKubelet(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.registrations.next:
		}
		for _, pause := range checksAfterRegistration {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
				d.controller().Check()
			}
		}
	}
}
