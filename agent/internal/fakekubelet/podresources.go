// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fakekubelet

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"net"
	"os"
	"slices"

	"google.golang.org/grpc"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// podResources reports all devices in use as those of one container.
type podResources struct {
	podresourcesapi.UnimplementedPodResourcesListerServer
	kubelet *Kubelet
}

// ServePodResources serves the pod resources API on a socket until the kubelet is dead.
func (k *Kubelet) ServePodResources(socket string) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.WaitForHandlers(true))
	podresourcesapi.RegisterPodResourcesListerServer(server, &podResources{kubelet: k})
	k.running.Go(func() { _ = server.Serve(listener) })
	k.running.Go(func() {
		<-k.ctx.Done()
		server.Stop()
	})
	return nil
}

func (p *podResources) List(context.Context, *podresourcesapi.ListPodResourcesRequest) (*podresourcesapi.ListPodResourcesResponse, error) {
	p.kubelet.mu.Lock()
	defer p.kubelet.mu.Unlock()
	container := &podresourcesapi.ContainerResources{Name: "container"}
	for _, resource := range slices.Sorted(maps.Keys(p.kubelet.inUse)) {
		container.Devices = append(container.Devices, &podresourcesapi.ContainerDevices{
			ResourceName: resource,
			DeviceIds:    slices.Sorted(maps.Keys(p.kubelet.inUse[resource])),
		})
	}
	return &podresourcesapi.ListPodResourcesResponse{PodResources: []*podresourcesapi.PodResources{
		{Name: "pod", Namespace: "default", Containers: []*podresourcesapi.ContainerResources{container}},
	}}, nil
}
