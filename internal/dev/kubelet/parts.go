// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"
	"k8s.io/kubernetes/pkg/kubelet/server"
)

// Parts are the parts of one kubelet. Start makes them. Do may be called by one goroutine at a
// time; the parts themselves are asked by drivers at any time.
type Parts struct {
	devices *devicemanager.ManagerImpl
	claims  *dra.Manager
	ready   atomic.Bool

	mutex sync.Mutex
	pods  map[types.UID]*corev1.Pod
}

// Start starts the parts in kubelet's folder dir. They run until ctx is done; what they keep in
// the folder stays.
func Start(ctx context.Context, client kubernetes.Interface, node, dir string) (*Parts, error) {
	logger := klog.FromContext(ctx)
	folder := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"device-plugins", "plugins_registry", "pod-resources"} {
		if err := os.MkdirAll(folder(name), 0o750); err != nil {
			return nil, err
		}
	}
	devices, err := newDevices(logger, folder("device-plugins/kubelet.sock"), nil, topologymanager.NewFakeManager(logger))
	if err != nil {
		return nil, fmt.Errorf("device manager: %w", err)
	}
	claims, err := dra.NewManager(logger, client, dir)
	if err != nil {
		return nil, fmt.Errorf("DRA manager: %w", err)
	}
	p := &Parts{devices: devices, claims: claims, pods: make(map[types.UID]*corev1.Pod)}
	if err := devices.Start(logger, p.GetActivePods, p, containermap.NewContainerMap(), sets.New[string]()); err != nil {
		return nil, fmt.Errorf("device manager: %w", err)
	}
	getNode := func(ctx context.Context) (*corev1.Node, error) {
		return client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	}
	if err := claims.Start(ctx, p.GetActivePods, getNode, p); err != nil {
		return nil, fmt.Errorf("DRA manager: %w", err)
	}
	plugins := pluginmanager.NewPluginManager(folder("plugins_registry"), &record.FakeRecorder{})
	plugins.AddHandler(registerapi.DRAPlugin, claims.GetWatcherHandler())
	plugins.AddHandler(registerapi.DevicePlugin, devices.GetWatcherHandler())
	go plugins.Run(ctx, p, ctx.Done())
	go server.ListenAndServePodResources(ctx, folder("pod-resources/kubelet.sock"), podresources.PodResourcesProviders{
		Pods: p, Devices: podDevices{devices}, Cpus: none{}, Memory: none{}, DynamicResources: podClaims{claims},
	})
	return p, nil
}

// AddSource is part of the interface of kubelet's sources. They are told by Ready.
func (p *Parts) AddSource(string) {}

// AllReady reports whether all pods are known.
func (p *Parts) AllReady() bool { return p.ready.Load() }

// GetActivePods returns the pods that did not end.
func (p *Parts) GetActivePods() []*corev1.Pod { return p.GetPods() }

// GetPods returns all pods that were told and not forgotten.
func (p *Parts) GetPods() []*corev1.Pod {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.Collect(maps.Values(p.pods))
}

// GetPodByName returns a pod that was told and not forgotten.
func (p *Parts) GetPodByName(namespace, name string) (*corev1.Pod, bool) {
	for _, pod := range p.GetPods() {
		if pod.Namespace == namespace && pod.Name == name {
			return pod, true
		}
	}
	return nil, false
}

// Do carries out a request.
func (p *Parts) Do(ctx context.Context, request *Request) *Answer {
	answer := &Answer{}
	if err := p.do(ctx, request, answer); err != nil {
		answer.Error = err.Error()
	}
	return answer
}

func (p *Parts) do(ctx context.Context, request *Request, answer *Answer) error {
	switch request.Operation {
	case Ready:
		p.ready.Store(true)
		return nil
	case Capacity:
		answer.Capacity, answer.Allocatable, _ = p.devices.GetCapacity(klog.FromContext(ctx))
		return nil
	}
	if request.Pod == nil {
		return fmt.Errorf("%s: no pod", request.Operation)
	}
	switch request.Operation {
	case Know:
		p.add(request.Pod)
		return nil
	case Admit:
		return p.admit(ctx, request.Pod, answer)
	case Forget:
		return p.forget(ctx, request.Pod)
	case Health:
		status := request.Pod.Status.DeepCopy()
		p.devices.UpdateAllocatedResourcesStatus(klog.FromContext(ctx), request.Pod, status)
		p.claims.UpdateAllocatedResourcesStatus(klog.FromContext(ctx), request.Pod, status)
		answer.Statuses = status.ContainerStatuses
		return nil
	}
	return fmt.Errorf("unknown operation %q", request.Operation)
}

func (p *Parts) add(pod *corev1.Pod) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.pods[pod.UID] = pod
}

// admit does what kubelet does for a pod that was bound to the node: it is active from the
// beginning, and no more if it is refused.
func (p *Parts) admit(ctx context.Context, pod *corev1.Pod, answer *Answer) error {
	p.add(pod)
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	for i := range containers {
		if err := p.devices.Allocate(ctx, pod, &containers[i], lifecycle.AddOperation); err != nil {
			p.drop(pod)
			return fmt.Errorf("allocate: container %s: %w", containers[i].Name, err)
		}
	}
	if err := p.claims.PrepareResources(ctx, pod); err != nil {
		return fmt.Errorf("prepare: %w", err) // kubelet tries again: the pod stays active
	}
	answer.Containers = make(map[string]Container)
	for i := range containers {
		got, err := p.container(ctx, pod, &containers[i])
		if err != nil {
			return fmt.Errorf("container %s: %w", containers[i].Name, err)
		}
		answer.Containers[containers[i].Name] = got
	}
	return nil
}

func (p *Parts) container(ctx context.Context, pod *corev1.Pod, container *corev1.Container) (Container, error) {
	var out Container
	options, err := p.devices.GetDeviceRunContainerOptions(ctx, pod, container)
	if err != nil {
		return out, err
	}
	if options != nil {
		for _, device := range options.Devices {
			out.Paths = append(out.Paths, device.PathInContainer)
		}
		for _, variable := range options.Envs {
			if out.Environment == nil {
				out.Environment = make(map[string]string)
			}
			out.Environment[variable.Name] = variable.Value
		}
		for _, device := range options.CDIDevices {
			out.CDI = append(out.CDI, device.Name)
		}
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		prepared, err := p.claims.GetResources(pod, container)
		if err != nil {
			return out, err
		}
		for _, device := range prepared.CDIDevices {
			out.CDI = append(out.CDI, device.Name)
		}
	}
	for resource, devices := range p.devices.GetDevices(string(pod.UID), container.Name) {
		if out.Devices == nil {
			out.Devices = make(map[string][]string)
		}
		out.Devices[resource] = slices.Sorted(maps.Keys(devices))
	}
	return out, nil
}

func (p *Parts) drop(pod *corev1.Pod) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.pods, pod.UID)
}

// forget does what kubelet does for a pod whose containers have ended. A pod whose claims
// cannot be unprepared stays active, for kubelet tries again.
func (p *Parts) forget(ctx context.Context, pod *corev1.Pod) error {
	if err := p.claims.UnprepareResources(ctx, pod); err != nil {
		return fmt.Errorf("unprepare: %w", err)
	}
	p.drop(pod)
	return nil
}
