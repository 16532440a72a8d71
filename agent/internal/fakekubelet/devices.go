// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fakekubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// plugin is a device plugin that has registered.
type plugin struct {
	resource string
	socket   string
	conn     *grpc.ClientConn
	api      pluginapi.DevicePluginClient
	options  *pluginapi.DevicePluginOptions
	orphaned bool // never removed, as in kubelet
}

func connect(ctx context.Context, resource, socket string) (*plugin, error) {
	conn, err := grpc.NewClient("passthrough:plugin",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}))
	if err != nil {
		return nil, err
	}
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if !conn.WaitForStateChange(ctx, state) {
			return nil, errors.Join(fmt.Errorf("connect to plugin %s: %w", resource, ctx.Err()), conn.Close())
		}
	}
	return &plugin{resource: resource, socket: socket, conn: conn, api: pluginapi.NewDevicePluginClient(conn)}, nil
}

// watch runs ListAndWatch until it ends. Then it removes the plugin, and sets its devices to
// unhealthy.
func (k *Kubelet) watch(p *plugin) {
	_ = k.follow(p)
	_ = p.conn.Close()
	k.sleep(k.options.ForgetDelay)
	k.mu.Lock()
	defer k.mu.Unlock()
	if p.orphaned {
		return
	}
	delete(k.plugins[p.resource], p.socket)
	lost := make(map[string]*pluginapi.Device)
	for id, device := range k.devices[p.resource] {
		lost[id] = &pluginapi.Device{ID: id, Health: pluginapi.Unhealthy, Topology: device.GetTopology()}
	}
	k.devices[p.resource] = lost
	k.notify()
}

func (k *Kubelet) follow(p *plugin) error {
	stream, err := p.api.ListAndWatch(k.ctx, &pluginapi.Empty{})
	if err != nil {
		return err
	}
	if err := k.reached(Watching); err != nil {
		return err
	}
	for step := Listed; ; step = Updated {
		list, err := stream.Recv()
		if err != nil {
			return err
		}
		devices := make(map[string]*pluginapi.Device)
		for _, device := range list.GetDevices() {
			devices[device.GetID()] = device
		}
		k.mu.Lock()
		k.devices[p.resource] = devices
		k.lists[p.resource]++
		k.notify()
		k.mu.Unlock()
		k.pause(k.options.ReadOn)
		if err := k.reached(step); err != nil {
			return err
		}
	}
}

// pause waits until on is closed or the kubelet dies. It does not wait if on is nil.
func (k *Kubelet) pause(on <-chan struct{}) {
	if on == nil {
		return
	}
	select {
	case <-on:
	case <-k.ctx.Done():
	}
}

// sleep waits, or returns early if the kubelet dies.
func (k *Kubelet) sleep(duration time.Duration) {
	select {
	case <-time.After(duration):
	case <-k.ctx.Done():
	}
}

// notify wakes waiting goroutines. The caller holds the lock.
func (k *Kubelet) notify() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// Lists returns how many lists of a resource's devices were received.
func (k *Kubelet) Lists(resource string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lists[resource]
}

// Devices returns the latest list of a resource's devices, by ID.
func (k *Kubelet) Devices(resource string) map[string]*pluginapi.Device {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.devices[resource])
}

// WaitFor waits until the devices of a resource meet the condition.
func (k *Kubelet) WaitFor(ctx context.Context, resource string, condition func(map[string]*pluginapi.Device) bool) error {
	for {
		k.mu.Lock()
		devices, changed := maps.Clone(k.devices[resource]), k.changed
		k.mu.Unlock()
		if condition(devices) {
			return nil
		}
		select {
		case <-changed:
		case <-k.ctx.Done():
			return errDead
		case <-ctx.Done():
			return fmt.Errorf("wait for devices of %s, which are %v: %w", resource, devices, ctx.Err())
		}
	}
}

// Allocation is the result of an allocation for a container.
type Allocation struct {
	Resource string
	IDs      []string
	Response *pluginapi.ContainerAllocateResponse
}

// Allocate allocates count healthy and unused devices for a container: those that the plugin
// prefers, or the first by ID.
func (k *Kubelet) Allocate(ctx context.Context, resource string, count int) (*Allocation, error) {
	ids, p, err := k.choose(ctx, resource, count)
	if err != nil {
		return nil, err
	}
	return k.allocate(ctx, p, ids)
}

// AllocateIDs allocates these devices for a container, healthy or not.
func (k *Kubelet) AllocateIDs(ctx context.Context, resource string, ids ...string) (*Allocation, error) {
	p, err := k.pluginOf(resource)
	if err != nil {
		return nil, err
	}
	return k.allocate(ctx, p, ids)
}

// Hold marks devices as in use without calling the plugin, as if they had been allocated earlier.
func (k *Kubelet) Hold(resource string, ids ...string) *Allocation {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hold(resource, ids)
	return &Allocation{Resource: resource, IDs: ids}
}

// hold marks devices as in use. The caller holds the mutex.
func (k *Kubelet) hold(resource string, ids []string) {
	if k.inUse[resource] == nil {
		k.inUse[resource] = make(map[string]bool)
	}
	for _, id := range ids {
		k.inUse[resource][id] = true
	}
}

// Free releases the devices of an allocation. As with kubelet, the plugin is not notified.
func (k *Kubelet) Free(allocation *Allocation) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range allocation.IDs {
		delete(k.inUse[allocation.Resource], id)
	}
}

func (k *Kubelet) pluginOf(resource string) (*plugin, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.plugins[resource] {
		return p, nil
	}
	return nil, fmt.Errorf("no plugin for %s", resource)
}

func (k *Kubelet) choose(ctx context.Context, resource string, count int) ([]string, *plugin, error) {
	p, err := k.pluginOf(resource)
	if err != nil {
		return nil, nil, err
	}
	k.mu.Lock()
	var available []string
	for _, id := range slices.Sorted(maps.Keys(k.devices[resource])) {
		if k.devices[resource][id].GetHealth() == pluginapi.Healthy && !k.inUse[resource][id] {
			available = append(available, id)
		}
	}
	k.mu.Unlock()
	if len(available) < count {
		return nil, nil, fmt.Errorf("%s: %d of %d devices are available", resource, len(available), count)
	}
	if !p.options.GetGetPreferredAllocationAvailable() {
		return available[:count], p, nil
	}
	preferred, err := p.api.GetPreferredAllocation(ctx, &pluginapi.PreferredAllocationRequest{
		ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{AvailableDeviceIDs: available, AllocationSize: int32(count)}},
	})
	if err != nil {
		return nil, nil, err
	}
	if len(preferred.GetContainerResponses()) != 1 {
		return available[:count], p, nil
	}
	return preferred.GetContainerResponses()[0].GetDeviceIDs(), p, nil
}

func (k *Kubelet) allocate(ctx context.Context, p *plugin, ids []string) (*Allocation, error) {
	if err := k.reached(Allocating); err != nil {
		return nil, err
	}
	response, err := p.api.Allocate(ctx, &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}}})
	if err != nil {
		return nil, err
	}
	if len(response.GetContainerResponses()) != 1 {
		return nil, fmt.Errorf("%s: %d answers for one container", p.resource, len(response.GetContainerResponses()))
	}
	if p.options.GetPreStartRequired() {
		if _, err := p.api.PreStartContainer(ctx, &pluginapi.PreStartContainerRequest{DevicesIds: ids}); err != nil {
			return nil, err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hold(p.resource, ids)
	return &Allocation{Resource: p.resource, IDs: ids, Response: response.GetContainerResponses()[0]}, nil
}
