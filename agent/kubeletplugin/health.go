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

// ErrHealthNotSupported is what WatchHealthStatus returns if it reports nothing. It is
// upstream's, for errors.Is.
var ErrHealthNotSupported = upstream.ErrHealthNotSupported

// Upstream's types of health.
type (
	// DeviceHealth is what is known of the health of one device.
	DeviceHealth = upstream.DeviceHealth
	// DeviceHealthReport is what is known of several devices. Those that it leaves out stay as
	// they were.
	DeviceHealthReport = upstream.DeviceHealthReport
	// HealthStatus is the health of a device.
	HealthStatus = upstream.HealthStatus
)

// What is known of a device's health.
const (
	HealthStatusUnknown   = upstream.HealthStatusUnknown
	HealthStatusHealthy   = upstream.HealthStatusHealthy
	HealthStatusUnhealthy = upstream.HealthStatusUnhealthy
)

// HealthWatcher is implemented by drivers that report the health of devices.
type HealthWatcher interface {
	// WatchHealthStatus sends a report of all devices, and then one after each change,
	// until ctx is done. Kubelet takes a device whose report is older than its
	// HealthCheckTimeout for unknown. It may be called again after it returned.
	WatchHealthStatus(ctx context.Context, reports chan<- DeviceHealthReport) error
}

// HealthService tells whether health is reported: by default, if the driver can.
func HealthService(enabled bool) Option { return forwarded(upstream.HealthService(enabled)) }

// HealthV1 tells whether version v1 of the health service is served: by default.
func HealthV1(enabled bool) Option { return forwarded(upstream.HealthV1(enabled)) }

// HealthV1alpha1 tells whether version v1alpha1 of the health service is served: by default.
func HealthV1alpha1(enabled bool) Option { return forwarded(upstream.HealthV1alpha1(enabled)) }

// withHealth returns the plugin as upstream wants it, and what upstream is to be told about
// the health service: a driver that cannot report is not announced as one that can.
func withHealth(plugin DRAPlugin) (upstream.DRAPlugin, []upstream.Option) {
	switch watcher := plugin.(type) {
	case HealthWatcher:
		return served{plugin, watcher}, nil
	case healthv1alpha1.DRAResourceHealthServer:
		return served{plugin, olderWatcher{watcher}}, nil
	}
	return served{plugin, silent{}}, []upstream.Option{upstream.HealthService(false)}
}

type served struct {
	DRAPlugin
	HealthWatcher
}

// silent reports nothing.
type silent struct{}

func (silent) WatchHealthStatus(context.Context, chan<- DeviceHealthReport) error {
	return ErrHealthNotSupported
}

// olderWatcher is a driver that serves v1alpha1 by itself, as drivers for Kubernetes 1.36 do.
type olderWatcher struct {
	server healthv1alpha1.DRAResourceHealthServer
}

func (w olderWatcher) WatchHealthStatus(ctx context.Context, reports chan<- DeviceHealthReport) error {
	return w.server.NodeWatchResources(&healthv1alpha1.NodeWatchResourcesRequest{}, &olderStream{ctx: ctx, reports: reports})
}

// olderStream passes on what a driver sends to kubelet.
type olderStream struct {
	grpc.ServerStream // nil: a driver has no use for more of it than what is here
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
