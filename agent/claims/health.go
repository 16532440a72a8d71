// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	drahealth "k8s.io/kubelet/pkg/apis/dra-health/v1"
	drahealthv1alpha1 "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
)

// Kubelet has the same limits (pkg/kubelet/cm/dra/healthinfo.go).
const (
	// healthTimeout is for how long a report counts that gives no timeout.
	healthTimeout = 30 * time.Second
	// maxHealthDevices is of how many devices of a driver the health is kept. A driver could
	// otherwise fill the memory with names.
	maxHealthDevices = 16384
)

// healthRetry is how long to wait before a driver is asked again for its health.
const healthRetry = time.Second

// healths has the health of devices that drivers reported (KEP-4680).
type healths struct {
	mutex   sync.Mutex
	drivers map[string]reportedHealth // drivers whose reports are received
	changed chan struct{}             // closed when a health changes
	expiry  *time.Timer               // for the report that expires first
}

// reportedHealth is what one process of a driver reported.
type reportedHealth struct {
	process int // number of the process, in the order of registration
	devices map[deviceName]deviceHealth
}

// deviceName identifies a device of one driver.
type deviceName struct{ pool, device string }

type deviceHealth struct {
	status  v1.ResourceHealthStatus
	message string
	until   time.Time // when it becomes unknown
}

// isLike tells whether the health is the same, whenever it expires.
func (h deviceHealth) isLike(other deviceHealth) bool {
	return h.status == other.status && h.message == other.message
}

// unknownHealth is that of devices that no driver reports.
var unknownHealth = deviceHealth{status: v1.ResourceHealthStatusUnknown}

func newHealths() *healths {
	return &healths{drivers: make(map[string]reportedHealth), changed: make(chan struct{})}
}

// set adds a report of a process of a driver. Devices that are not in the report keep their health
// until it expires. During a rolling update, the process that registered last counts.
func (h *healths) set(ctx context.Context, driver string, process int, devices []*drahealth.DeviceHealth) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	reported, found := h.drivers[driver]
	if found && reported.process > process {
		return
	}
	changed := found && reported.process < process
	if !found || changed {
		reported = reportedHealth{process: process, devices: make(map[deviceName]deviceHealth)}
		h.drivers[driver] = reported
	}
	ignored := 0
	for _, device := range devices {
		name := deviceName{device.GetDevice().GetPoolName(), device.GetDevice().GetDeviceName()}
		before, known := reported.devices[name]
		if !known && len(reported.devices) >= maxHealthDevices {
			ignored++
			continue
		}
		if !known {
			before = unknownHealth
		}
		reported.devices[name] = healthOf(device)
		changed = changed || !reported.devices[name].isLike(before)
	}
	if ignored > 0 {
		klog.FromContext(ctx).Error(nil, "Driver reports the health of too many devices", "driver", driver, "limit", maxHealthDevices, "ignored", ignored)
	}
	h.settle(changed)
}

func healthOf(device *drahealth.DeviceHealth) deviceHealth {
	out := deviceHealth{status: v1.ResourceHealthStatusUnknown, message: shortened(device.GetMessage())}
	switch device.GetHealth() {
	case drahealth.HealthStatus_HEALTHY:
		out.status = v1.ResourceHealthStatusHealthy
	case drahealth.HealthStatus_UNHEALTHY:
		out.status = v1.ResourceHealthStatusUnhealthy
	}
	timeout := healthTimeout
	if seconds := device.GetHealthCheckTimeoutSeconds(); seconds > 0 {
		timeout = time.Duration(min(seconds, math.MaxInt32)) * time.Second
	}
	out.until = time.Now().Add(timeout)
	return out
}

// shortened returns a message that the API server accepts. The limit is one of bytes.
func shortened(message string) string {
	const more = "..."
	if len(message) <= v1.ResourceHealthMessageMaxLength {
		return message
	}
	return strings.ToValidUTF8(message[:v1.ResourceHealthMessageMaxLength-len(more)], "") + more
}

// lose removes what a process of a driver reported, because nothing is received from it any more.
func (h *healths) lose(driver string, process int) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if reported, found := h.drivers[driver]; found && reported.process == process {
		delete(h.drivers, driver)
		h.settle(len(reported.devices) > 0)
	}
}

// expire removes reports that have expired.
func (h *healths) expire() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.settle(false)
}

// settle removes reports that have expired, and sets the timer for the next one. If a health
// changed, it tells so. The caller holds the mutex.
func (h *healths) settle(changed bool) {
	now := time.Now()
	var next time.Time
	for _, reported := range h.drivers {
		for name, health := range reported.devices {
			switch {
			case !now.Before(health.until):
				delete(reported.devices, name)
				changed = changed || !health.isLike(unknownHealth)
			case next.IsZero() || health.until.Before(next):
				next = health.until
			}
		}
	}
	if h.expiry != nil {
		h.expiry.Stop()
	}
	if !next.IsZero() {
		h.expiry = time.AfterFunc(next.Sub(now), h.expire)
	}
	if changed {
		close(h.changed)
		h.changed = make(chan struct{})
	}
}

// of returns the health of a device. It is unknown if the driver reports no health.
func (h *healths) of(driver string, name deviceName) deviceHealth {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if found, known := h.drivers[driver].devices[name]; known {
		return found
	}
	return unknownHealth
}

// follow receives reports of a process of a driver until ctx ends, or until the process says that
// it has none.
func (h *healths) follow(ctx context.Context, process int, from plugin) {
	logger := klog.FromContext(ctx).WithValues("driver", from.driver)
	for ctx.Err() == nil {
		stream, err := from.watchHealth(ctx)
		for err == nil {
			var answer *drahealth.NodeWatchResourcesResponse
			if answer, err = stream.Recv(); err == nil {
				h.set(ctx, from.driver, process, answer.GetDevices())
			}
		}
		h.lose(from.driver, process)
		logger.V(2).Info("Driver does not tell the health of its devices", "reason", err)
		if status.Code(err) == codes.Unimplemented {
			return
		}
		timer := time.NewTimer(healthRetry)
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
	}
}

// watchHealth calls the health service of the driver that accept chose.
func (p plugin) watchHealth(ctx context.Context) (drahealth.DRAResourceHealth_NodeWatchResourcesClient, error) {
	request := &drahealth.NodeWatchResourcesRequest{}
	if p.health == drahealthv1alpha1.DRAResourceHealthService {
		return drahealth.V1Alpha1ClientWrapper{Client: drahealthv1alpha1.NewDRAResourceHealthClient(p.conn)}.NodeWatchResources(ctx, request)
	}
	return drahealth.NewDRAResourceHealthClient(p.conn).NodeWatchResources(ctx, request)
}

// HealthChanged returns a channel that is closed when the result of ResourceStatus may have
// changed.
func (p *Preparer) HealthChanged() <-chan struct{} {
	p.plugins.health.mutex.Lock()
	defer p.plugins.health.mutex.Unlock()
	return p.plugins.health.changed
}

// ResourceStatus returns the health of the devices of each container of a pod, by container name,
// in the form of the pod's status. It leaves out claims that are not prepared. The health of
// devices is unknown if their driver does not report it. As in kubelet 1.37, extended resources are
// left out: API servers of Kubernetes 1.36 refuse a status with the claim that was generated for
// them.
func (p *Preparer) ResourceStatus(pod *v1.Pod) map[string][]v1.ResourceStatus {
	byName := p.claimsOf(pod)
	out := make(map[string][]v1.ResourceStatus)
	for _, container := range pod.Spec.Containers {
		uses, err := usesOf(pod, &container)
		if err != nil {
			continue // CDIDevices returns this error
		}
		for _, use := range uses {
			known := byName[use.claim]
			if known == nil || use.resource == "" {
				continue
			}
			if devices := p.healthOfDevices(known, use.request); len(devices) > 0 {
				out[container.Name] = append(out[container.Name], v1.ResourceStatus{Name: use.resource, Resources: devices})
			}
		}
	}
	return out
}

// healthOfDevices returns the health of the devices of a request. A device is named by its first
// CDI device, as in kubelet. Devices can have that in common, but the API server refuses a status
// with a name twice: then the one that is worst off counts.
func (p *Preparer) healthOfDevices(known *claimRecord, request string) []v1.ResourceHealth {
	var out []v1.ResourceHealth
	for _, driver := range known.driverNames() {
		for _, prepared := range known.Drivers[driver].Devices {
			if !prepared.isFor(request) {
				continue
			}
			id := v1.ResourceID(driver + "/" + prepared.Pool + "/" + prepared.Device)
			if len(prepared.CDI) > 0 {
				id = v1.ResourceID(prepared.CDI[0])
			}
			reported := p.plugins.health.of(driver, deviceName{prepared.Pool, prepared.Device})
			health := v1.ResourceHealth{ResourceID: id, Health: reported.status}
			if reported.message != "" {
				health.Message = &reported.message
			}
			switch i := slices.IndexFunc(out, func(other v1.ResourceHealth) bool { return other.ResourceID == id }); {
			case i < 0:
				out = append(out, health)
			case slices.Index(worstFirst, health.Health) < slices.Index(worstFirst, out[i].Health):
				out[i] = health
			}
		}
	}
	return out
}

var worstFirst = []v1.ResourceHealthStatus{v1.ResourceHealthStatusUnhealthy, v1.ResourceHealthStatusUnknown, v1.ResourceHealthStatusHealthy}
