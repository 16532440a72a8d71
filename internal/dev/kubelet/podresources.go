// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra"
)

// podDevices tells the pod-resources server of devices of plugins. Kubelet's own translation
// is private to its container manager; this one leaves out NUMA nodes.
type podDevices struct{ *devicemanager.ManagerImpl }

func (d podDevices) GetDevices(podUID, container string) []*podresourcesapi.ContainerDevices {
	return list(d.ManagerImpl.GetDevices(podUID, container))
}

func (d podDevices) GetAllocatableDevices(logger klog.Logger) []*podresourcesapi.ContainerDevices {
	return list(d.ManagerImpl.GetAllocatableDevices(logger))
}

func list(devices devicemanager.ResourceDeviceInstances) []*podresourcesapi.ContainerDevices {
	var out []*podresourcesapi.ContainerDevices
	for _, resource := range slices.Sorted(maps.Keys(devices)) {
		for _, id := range slices.Sorted(maps.Keys(devices[resource])) {
			out = append(out, &podresourcesapi.ContainerDevices{ResourceName: resource, DeviceIds: []string{id}})
		}
	}
	return out
}

// podClaims tells the pod-resources server of prepared claims.
type podClaims struct{ *dra.Manager }

func (c podClaims) GetDynamicResources(logger klog.Logger, pod *corev1.Pod, container *corev1.Container) []*podresourcesapi.DynamicResource {
	infos, err := c.GetContainerClaimInfos(pod, container)
	if err != nil {
		logger.Error(err, "Claims of a container are not known")
		return nil
	}
	var out []*podresourcesapi.DynamicResource
	for _, info := range infos {
		told := &podresourcesapi.DynamicResource{ClaimName: info.ClaimName, ClaimNamespace: info.Namespace}
		for driver, state := range info.DriverState {
			for _, device := range state.Devices {
				resource := &podresourcesapi.ClaimResource{DriverName: driver, PoolName: device.PoolName, DeviceName: device.DeviceName}
				for _, id := range device.CDIDeviceIDs {
					resource.CdiDevices = append(resource.CdiDevices, &podresourcesapi.CDIDevice{Name: id})
				}
				told.ClaimResources = append(told.ClaimResources, resource)
			}
		}
		slices.SortFunc(told.ClaimResources, func(a, b *podresourcesapi.ClaimResource) int {
			return strings.Compare(a.DriverName+"/"+a.PoolName+"/"+a.DeviceName, b.DriverName+"/"+b.PoolName+"/"+b.DeviceName)
		})
		out = append(out, told)
	}
	return out
}

// none has no exclusive CPUs and no memory.
type none struct{}

func (none) GetCPUs(*corev1.Pod, *corev1.Container) []int64 { return nil }
func (none) GetPodCPUs(string) []int64                      { return nil }
func (none) GetAllocatableCPUs() []int64                    { return nil }
func (none) GetMemory(klog.Logger, *corev1.Pod, *corev1.Container) []*podresourcesapi.ContainerMemory {
	return nil
}
func (none) GetPodMemory(klog.Logger, string) []*podresourcesapi.ContainerMemory { return nil }
func (none) GetAllocatableMemory(klog.Logger) []*podresourcesapi.ContainerMemory { return nil }
