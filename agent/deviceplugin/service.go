// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// deviceList is the latest state of a type's devices. Slow readers skip intermediate states, so
// that writers never wait and nothing is queued.
type deviceList struct {
	mu      sync.Mutex
	devices map[string]DeviceInfo
	changed chan struct{} // closed by the next call of set
}

func newDeviceList(devices map[string]DeviceInfo) *deviceList {
	return &deviceList{devices: devices, changed: make(chan struct{})}
}

// set replaces the devices. The caller must not modify them afterwards.
func (l *deviceList) set(devices map[string]DeviceInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.devices = devices
	close(l.changed)
	l.changed = make(chan struct{})
}

// get returns the devices, and a channel that is closed when they are replaced.
func (l *deviceList) get() (map[string]DeviceInfo, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.devices, l.changed
}

// service implements the device plugin service for one type, on one socket.
type service struct {
	pluginapi.UnimplementedDevicePluginServer
	*server
	// ctx is done when the socket is no longer served. Streams then end without an error.
	ctx context.Context // for the service's goroutines
}

func (s *service) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return s.pluginOptions(), nil
}

// ListAndWatch sends all devices at once, and again after each change.
func (s *service) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	logger := klog.FromContext(s.ctx)
	defer s.streamStarted()()
	for {
		devices, changed := s.devices.get()
		response := &pluginapi.ListAndWatchResponse{}
		for _, id := range slices.Sorted(maps.Keys(devices)) {
			response.Devices = append(response.Devices, devices[id].message(id))
		}
		logger.V(4).Info("Sending devices", "resource", s.resource, "devices", len(response.Devices))
		if err := stream.Send(response); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			return nil
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// Allocate calls the plugin's Allocator first, if there is one.
func (s *service) Allocate(_ context.Context, request *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	if s.hooks.allocator != nil {
		response, err := s.hooks.allocator.Allocate(request)
		var useDefault *UseDefaultMethodError
		if !errors.As(err, &useDefault) {
			return response, err
		}
	}
	response := &pluginapi.AllocateResponse{}
	devices, _ := s.devices.get()
	for _, container := range request.GetContainerRequests() {
		merged, err := s.merge(devices, container.GetDevicesIds())
		if err != nil {
			return nil, err
		}
		response.ContainerResponses = append(response.ContainerResponses, merged)
	}
	if s.hooks.postAllocator != nil {
		if err := s.hooks.postAllocator.PostAllocate(response); err != nil {
			return nil, err
		}
	}
	return response, nil
}

// merge returns what a container gets for its devices, in the order of the request. Equal mounts,
// device nodes and CDI devices are included once. If two devices set a variable or an annotation,
// the later one wins.
func (s *service) merge(devices map[string]DeviceInfo, ids []string) (*pluginapi.ContainerAllocateResponse, error) {
	nodes, mounts, names := newOrderedSet[deviceNode](), newOrderedSet[mount](), newOrderedSet[string]()
	merged := &pluginapi.ContainerAllocateResponse{Envs: map[string]string{}, Annotations: map[string]string{}}
	for _, id := range ids {
		device, exists := devices[id]
		if !exists {
			return nil, status.Errorf(codes.NotFound, "allocate %s: device %s does not exist", s.resource, id)
		}
		if device.state != pluginapi.Healthy {
			return nil, status.Errorf(codes.FailedPrecondition, "allocate %s: device %s is not healthy", s.resource, id)
		}
		if device.cdiSpec != nil {
			qualified, err := s.specs.ensure(s.ctx, device.cdiSpec)
			if err != nil {
				return nil, fmt.Errorf("allocate %s: device %s: %w", s.resource, id, err)
			}
			names.add(qualified...)
		}
		nodes.add(device.nodes...)
		mounts.add(device.mounts...)
		maps.Copy(merged.Envs, device.envs)
		maps.Copy(merged.Annotations, device.annotations)
	}
	for _, node := range nodes.values {
		merged.Devices = append(merged.Devices, &pluginapi.DeviceSpec{ContainerPath: node.containerPath, HostPath: node.hostPath, Permissions: node.permissions})
	}
	for _, m := range mounts.values {
		merged.Mounts = append(merged.Mounts, &pluginapi.Mount{ContainerPath: m.containerPath, HostPath: m.hostPath, ReadOnly: m.readOnly})
	}
	for _, name := range names.values {
		merged.CdiDevices = append(merged.CdiDevices, &pluginapi.CDIDevice{Name: name})
	}
	return merged, nil
}

func (s *service) GetPreferredAllocation(_ context.Context, request *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	if s.hooks.preferredAllocator == nil {
		return nil, status.Errorf(codes.Unimplemented, "the plugin of %s has no preferred allocation", s.resource)
	}
	return s.hooks.preferredAllocator.GetPreferredAllocation(request)
}

func (s *service) PreStartContainer(_ context.Context, request *pluginapi.PreStartContainerRequest) (*pluginapi.PreStartContainerResponse, error) {
	if s.hooks.preStarter == nil {
		return nil, status.Errorf(codes.Unimplemented, "the plugin of %s does nothing before containers start", s.resource)
	}
	if err := s.hooks.preStarter.PreStartContainer(request); err != nil {
		return nil, err
	}
	return &pluginapi.PreStartContainerResponse{}, nil
}

// orderedSet has distinct values in the order of insertion.
type orderedSet[T comparable] struct {
	values []T
	known  map[T]bool
}

func newOrderedSet[T comparable]() *orderedSet[T] { return &orderedSet[T]{known: make(map[T]bool)} }

func (s *orderedSet[T]) add(values ...T) {
	for _, value := range values {
		if !s.known[value] {
			s.known[value] = true
			s.values = append(s.values, value)
		}
	}
}
