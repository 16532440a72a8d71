// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodedriver

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/utils/ptr"
)

// modelKubelet does what kubelet 1.37 does with devices of one resource: its device manager, and its
// pod-resources server. It does nothing by itself.
type modelKubelet struct {
	resource string
	choose   *rand.Rand

	// saved is kubelet's checkpoint of devices, by pod and container. It is written when devices are allocated, not when
	// they become free.
	saved map[types.UID]map[string][]string

	// What a restart loses.
	assigned map[types.UID]map[string][]string
	active   map[types.UID]*corev1.Pod // the pods that it knows and that did not end
	ready    bool                      // all sources have told their pods
	healthy  []string                  // the devices that the plugin offers
}

func newModelKubelet(resource string, choose *rand.Rand) *modelKubelet {
	return &modelKubelet{resource: resource, choose: choose, assigned: make(map[types.UID]map[string][]string), active: make(map[types.UID]*corev1.Pod)}
}

// restart is another process in the same folder.
func (k *modelKubelet) restart() {
	k.active, k.ready, k.healthy = make(map[types.UID]*corev1.Pod), false, nil
	k.assigned = copied(k.saved)
}

// free takes devices back from pods that are not active, once all are known.
func (k *modelKubelet) free() {
	if !k.ready {
		return
	}
	for uid := range k.assigned {
		if k.active[uid] == nil {
			delete(k.assigned, uid)
		}
	}
}

// devices are those that a container has.
func (k *modelKubelet) devices(pod *corev1.Pod, container string) []string {
	return k.assigned[pod.UID][container]
}

// ofPod are all devices of a pod.
func (k *modelKubelet) ofPod(uid types.UID) []string {
	var out []string
	for _, devices := range k.assigned[uid] {
		out = append(out, devices...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// admit allocates what the containers of a pod want, as they come. Allocate asks the plugin. The pod is
// active from the beginning, and no more if it is refused.
func (k *modelKubelet) admit(pod *corev1.Pod, allocate func([]string) error) error {
	k.active[pod.UID] = pod
	reusable := make(map[string]bool) // devices of init containers, for those that come after
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		if err := k.allocate(pod, container, reusable, allocate); err != nil {
			return err
		}
		for _, device := range k.devices(pod, container.Name) {
			reusable[device] = !isSidecar(container)
		}
	}
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		if err := k.allocate(pod, container, reusable, allocate); err != nil {
			return err
		}
		for _, device := range k.devices(pod, container.Name) {
			delete(reusable, device)
		}
	}
	return nil
}

func (k *modelKubelet) allocate(pod *corev1.Pod, container *corev1.Container, reusable map[string]bool, ask func([]string) error) error {
	wanted := container.Resources.Limits[corev1.ResourceName(k.resource)]
	need := int(wanted.Value()) - len(k.devices(pod, container.Name))
	if need <= 0 {
		return nil
	}
	k.free()
	var devices []string
	for _, device := range slices.Sorted(maps.Keys(reusable)) {
		if len(devices) < need && reusable[device] {
			devices = append(devices, device)
		}
	}
	used := make(map[string]bool)
	for uid := range k.assigned {
		for _, device := range k.ofPod(uid) {
			used[device] = true
		}
	}
	free := slices.DeleteFunc(slices.Clone(k.healthy), func(device string) bool { return used[device] })
	if len(devices)+len(free) < need {
		delete(k.active, pod.UID)
		return fmt.Errorf("allocate: %s: too few devices", container.Name)
	}
	k.choose.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	devices = append(devices, free[:need-len(devices)]...)
	if err := ask(devices); err != nil {
		delete(k.active, pod.UID)
		return fmt.Errorf("allocate: %s: %w", container.Name, err)
	}
	if k.assigned[pod.UID] == nil {
		k.assigned[pod.UID] = make(map[string][]string)
	}
	k.assigned[pod.UID][container.Name] = append(k.assigned[pod.UID][container.Name], devices...)
	k.saved = copied(k.assigned)
	return nil
}

func copied(assigned map[types.UID]map[string][]string) map[types.UID]map[string][]string {
	out := make(map[types.UID]map[string][]string)
	for uid, containers := range assigned {
		out[uid] = maps.Clone(containers)
	}
	return out
}

func isSidecar(container *corev1.Container) bool {
	return ptr.Deref(container.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
}

// list is what the pod-resources server answers: active pods, without their ordinary init containers.
func (k *modelKubelet) list() *podresourcesapi.ListPodResourcesResponse {
	k.free()
	out := &podresourcesapi.ListPodResourcesResponse{}
	for _, uid := range slices.Sorted(maps.Keys(k.active)) {
		pod := k.active[uid]
		told := &podresourcesapi.PodResources{Name: pod.Name, Namespace: pod.Namespace}
		for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			ordinary := !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == container.Name }) && !isSidecar(&container)
			if ordinary {
				continue
			}
			devices := &podresourcesapi.ContainerResources{Name: container.Name}
			for _, id := range slices.Sorted(slices.Values(k.devices(pod, container.Name))) {
				devices.Devices = append(devices.Devices, &podresourcesapi.ContainerDevices{ResourceName: k.resource, DeviceIds: []string{id}})
			}
			told.Containers = append(told.Containers, devices)
		}
		out.PodResources = append(out.PodResources, told)
	}
	return out
}
