// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !dray_kubernetes_1_36

package kubeletplugin

import (
	"context"
	"time"

	"google.golang.org/grpc"
	upstream "k8s.io/dynamic-resource-allocation/kubeletplugin"
	healthv1alpha1 "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
)

// ErrHealthNotSupported is returned by WatchHealthStatus of a driver that reports no health. It is
// upstream's value, so that errors.Is works.
var ErrHealthNotSupported = upstream.ErrHealthNotSupported

// Upstream's types of health.
type (
	// DeviceHealth is the health of one device.
	DeviceHealth = upstream.DeviceHealth
	// DeviceHealthReport is the health of several devices. Devices that it leaves out keep their
	// health.
	DeviceHealthReport = upstream.DeviceHealthReport
	// HealthStatus is the health of a device.
	HealthStatus = upstream.HealthStatus
)

// Health of a device.
const (
	HealthStatusUnknown   = upstream.HealthStatusUnknown
	HealthStatusHealthy   = upstream.HealthStatusHealthy
	HealthStatusUnhealthy = upstream.HealthStatusUnhealthy
)

// HealthWatcher is implemented by drivers that report the health of devices.
type HealthWatcher interface {
	// WatchHealthStatus sends a report of all devices, and then one after each change, until ctx is
	// done. If the last report is older than a device's HealthCheckTimeout, kubelet considers its
	// health unknown. It may be called again after it returned.
	WatchHealthStatus(ctx context.Context, reports chan<- DeviceHealthReport) error
}

// HealthService enables the health service. By default, it is enabled if the driver can report
// health.
func HealthService(enabled bool) Option { return forwarded(upstream.HealthService(enabled)) }

// HealthV1 enables version v1 of the health service. It is enabled by default.
func HealthV1(enabled bool) Option { return forwarded(upstream.HealthV1(enabled)) }

// HealthV1alpha1 enables version v1alpha1 of the health service. It is enabled by default.
func HealthV1alpha1(enabled bool) Option { return forwarded(upstream.HealthV1alpha1(enabled)) }

// withHealth returns the plugin with a WatchHealthStatus method, as upstream requires, and options
// for upstream. If the driver cannot report health, the health service is not announced.
func withHealth(plugin DRAPlugin) (upstream.DRAPlugin, []upstream.Option) {
	switch watcher := plugin.(type) {
	case HealthWatcher:
		return withWatcher{plugin, watcher}, nil
	case healthv1alpha1.DRAResourceHealthServer:
		return withWatcher{plugin, olderWatcher{watcher}}, nil
	}
	return withWatcher{plugin, silent{}}, []upstream.Option{upstream.HealthService(false)}
}

type withWatcher struct {
	DRAPlugin
	HealthWatcher
}

// silent is a HealthWatcher for drivers that report no health.
type silent struct{}

func (silent) WatchHealthStatus(context.Context, chan<- DeviceHealthReport) error {
	return ErrHealthNotSupported
}

// olderWatcher is a driver that implements the service v1alpha1, as drivers for Kubernetes 1.36 do.
type olderWatcher struct {
	server healthv1alpha1.DRAResourceHealthServer
}

func (w olderWatcher) WatchHealthStatus(ctx context.Context, reports chan<- DeviceHealthReport) error {
	return w.server.NodeWatchResources(&healthv1alpha1.NodeWatchResourcesRequest{}, &olderStream{ctx: ctx, reports: reports})
}

// olderStream converts what a driver sends to a stream of v1alpha1.
type olderStream struct {
	grpc.ServerStream // nil: drivers call only Context and Send
	ctx               context.Context
	reports           chan<- DeviceHealthReport
}

func (s *olderStream) Context() context.Context { return s.ctx }

func (s *olderStream) Send(response *healthv1alpha1.NodeWatchResourcesResponse) error {
	select {
	case <-s.ctx.Done():
		return s.ctx.Err()
	case s.reports <- olderReport(response):
		return nil
	}
}

func olderReport(response *healthv1alpha1.NodeWatchResourcesResponse) DeviceHealthReport {
	var report DeviceHealthReport
	for _, device := range response.GetDevices() {
		health := DeviceHealth{
			PoolName:           device.GetDevice().GetPoolName(),
			DeviceName:         device.GetDevice().GetDeviceName(),
			Health:             HealthStatusUnknown,
			HealthCheckTimeout: time.Duration(device.GetHealthCheckTimeoutSeconds()) * time.Second,
			Message:            device.GetMessage(),
		}
		switch device.GetHealth() {
		case healthv1alpha1.HealthStatus_HEALTHY:
			health.Health = HealthStatusHealthy
		case healthv1alpha1.HealthStatus_UNHEALTHY:
			health.Health = HealthStatusUnhealthy
		}
		if seconds := device.GetLastUpdatedTime(); seconds != 0 {
			health.LastUpdated = time.Unix(seconds, 0)
		}
		report.Devices = append(report.Devices, health)
	}
	return report
}
