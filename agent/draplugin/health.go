// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package draplugin

import (
	"context"
	"time"

	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/dray-project/dray/agent/inventory"
)

// healthInterval is how often the health of all devices is reported if nothing changes. After half
// a minute without a report, kubelet considers it unknown.
const healthInterval = 10 * time.Second

// WatchHealthStatus reports the health of all devices: first at once, then at each change, and at
// healthInterval. If the source has ended, the health is unknown.
func (p plugin) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	again := time.NewTicker(healthInterval)
	defer again.Stop()
	for {
		in, changed, lost := p.current()
		if in != nil {
			select {
			case <-ctx.Done():
				return nil
			case reports <- p.healthReport(in, lost):
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-again.C:
		}
	}
}

func (d *Driver) healthReport(in *inventory.Inventory, lost error) kubeletplugin.DeviceHealthReport {
	var out kubeletplugin.DeviceHealthReport
	for i := range in.Devices {
		device := &in.Devices[i]
		if device.Driver != d.options.DriverName {
			continue
		}
		health := kubeletplugin.DeviceHealth{
			PoolName:    device.Pool,
			DeviceName:  device.ID.Device,
			Health:      kubeletplugin.HealthStatusHealthy,
			LastUpdated: time.Now(),
			Message:     inventory.HealthMessage(device.Health.Message),
		}
		switch {
		case lost != nil:
			health.Health, health.Message = kubeletplugin.HealthStatusUnknown, inventory.HealthMessage(lost.Error())
		case device.Health.Unhealthy:
			health.Health = kubeletplugin.HealthStatusUnhealthy
		}
		out.Devices = append(out.Devices, health)
	}
	return out
}
