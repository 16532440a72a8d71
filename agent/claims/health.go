// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"maps"
	"sync"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	drahealth "k8s.io/kubelet/pkg/apis/dra-health/v1"
)

// healths has the health of devices that drivers reported (KEP-4680).
type healths struct {
	mutex   sync.Mutex
	drivers map[string]map[deviceName]v1.ResourceHealthStatus // drivers that report health
	changed chan struct{}                                     // closed when drivers changes
}

// deviceName identifies a device of one driver.
type deviceName struct{ pool, device string }

func newHealths() *healths {
	return &healths{drivers: make(map[string]map[deviceName]v1.ResourceHealthStatus), changed: make(chan struct{})}
}

// set adds a report of a driver. Devices that are not in the report keep their health.
func (h *healths) set(driver string, devices []*drahealth.DeviceHealth) {
	h.replace(driver, func(known map[deviceName]v1.ResourceHealthStatus) {
		for _, device := range devices {
			status := v1.ResourceHealthStatusUnknown
			switch device.GetHealth() {
			case drahealth.HealthStatus_HEALTHY:
				status = v1.ResourceHealthStatusHealthy
			case drahealth.HealthStatus_UNHEALTHY:
				status = v1.ResourceHealthStatusUnhealthy
			}
			known[deviceName{device.GetDevice().GetPoolName(), device.GetDevice().GetDeviceName()}] = status
		}
	})
}

// lose removes the health of a driver's devices, because it is no longer known.
func (h *healths) lose(driver string) {
	h.replace(driver, func(known map[deviceName]v1.ResourceHealthStatus) { clear(known) })
}

func (h *healths) replace(driver string, change func(map[deviceName]v1.ResourceHealthStatus)) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	before, known := h.drivers[driver]
	after := maps.Clone(before)
	if after == nil {
		after = make(map[deviceName]v1.ResourceHealthStatus)
	}
	change(after)
	h.drivers[driver] = after
	if !known || !maps.Equal(before, after) {
		close(h.changed)
		h.changed = make(chan struct{})
	}
}

// of returns the health of a device. It returns false if the driver reports no health.
func (h *healths) of(driver string, name deviceName) (v1.ResourceHealthStatus, bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	devices, speaks := h.drivers[driver]
	found, known := devices[name]
	if !known {
		found = v1.ResourceHealthStatusUnknown
	}
	return found, speaks
}

// follow receives reports of a driver until ctx ends.
func (h *healths) follow(ctx context.Context, driver string, conn *grpc.ClientConn) {
	client := drahealth.NewDRAResourceHealthClient(conn)
	for ctx.Err() == nil {
		stream, err := client.NodeWatchResources(ctx, &drahealth.NodeWatchResourcesRequest{})
		for err == nil {
			var answer *drahealth.NodeWatchResourcesResponse
			if answer, err = stream.Recv(); err == nil {
				h.set(driver, answer.GetDevices())
			}
		}
		h.lose(driver)
		klog.FromContext(ctx).V(2).Info("Driver does not tell the health of its devices", "driver", driver, "reason", err)
		timer := time.NewTimer(time.Second)
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
	}
}

// HealthChanged returns a channel that is closed when the result of ResourceStatus may have
// changed.
func (p *Preparer) HealthChanged() <-chan struct{} {
	p.plugins.health.mutex.Lock()
	defer p.plugins.health.mutex.Unlock()
	return p.plugins.health.changed
}

// ResourceStatus returns the health of the devices of each container of a pod, by container name,
// in the form of the pod's status. It leaves out devices of drivers that report no health, and
// claims that are not prepared.
func (p *Preparer) ResourceStatus(pod *v1.Pod) map[string][]v1.ResourceStatus {
	byName := p.claimsOf(pod)
	out := make(map[string][]v1.ResourceStatus)
	for _, container := range pod.Spec.Containers {
		uses, err := usesOf(pod, &container)
		if err != nil {
			continue // CDIDevices returns this error
		}
		for _, use := range uses {
			status := v1.ResourceStatus{Name: use.resource}
			if known := byName[use.claim]; known != nil {
				status.Resources = p.healthOf(known, use.request)
			}
			if len(status.Resources) > 0 {
				out[container.Name] = append(out[container.Name], status)
			}
		}
	}
	return out
}

func (p *Preparer) healthOf(known *claimRecord, request string) []v1.ResourceHealth {
	var out []v1.ResourceHealth
	for _, driver := range known.driverNames() {
		for _, prepared := range known.Drivers[driver].Devices {
			health, speaks := p.plugins.health.of(driver, deviceName{prepared.Pool, prepared.Device})
			if !speaks || !prepared.isFor(request) {
				continue
			}
			id := v1.ResourceID(driver + "/" + prepared.Pool + "/" + prepared.Device)
			if len(prepared.CDI) > 0 {
				id = v1.ResourceID(prepared.CDI[0])
			}
			out = append(out, v1.ResourceHealth{ResourceID: id, Health: health})
		}
	}
	return out
}
