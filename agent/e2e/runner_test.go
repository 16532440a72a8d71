// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/agent/provider/simulated"
	"github.com/dray-project/dray/agent/virtualnode"
)

// runner simulates pods, and looks whether they have what they need. The functions, if a
// spec sets them, are called in place of what they are named after.
type runner struct {
	*simulated.Provider
	machine   *machine
	node      *virtualnode.Node
	devicesOf virtualnode.Devices

	create func(*corev1.Pod) error
	remove func(*corev1.Pod) error
	get    func(namespace, name string) (*corev1.Pod, error)
	list   func() ([]*corev1.Pod, error)
	// told is called with each pod that is created.
	told func(*corev1.Pod)

	mutex   sync.Mutex
	devices map[types.UID][]string // CDI devices by pod
	created []string               // names of pods, in order
	notify  func(*corev1.Pod)
}

// CreatePod runs a pod, which must have all its claims prepared.
func (r *runner) CreatePod(ctx context.Context, pod *corev1.Pod) error {
	devices, err := r.devicesOf(ctx, pod, "main")
	if err != nil {
		r.machine.violation("pod %s was given to the provider too early: %v", pod.Name, err)
		return err
	}
	prepared := r.machine.prepared()
	for _, device := range devices {
		if strings.HasSuffix(device, commonDevice) { // it is of no claim
			continue
		}
		if !slices.ContainsFunc(prepared, func(claim string) bool { return strings.Contains(device, "/claim="+claim) }) {
			r.machine.violation("pod %s has CDI device %s, and its claim is not prepared", pod.Name, device)
		}
	}
	if r.create != nil {
		if err := r.create(pod); err != nil {
			return err
		}
	}
	r.mutex.Lock()
	r.devices[pod.UID] = devices
	r.created = append(r.created, pod.Name)
	r.mutex.Unlock()
	if r.told != nil {
		r.told(pod)
	}
	return r.Provider.CreatePod(ctx, pod)
}

// DeletePod implements node.PodLifecycleHandler.
func (r *runner) DeletePod(ctx context.Context, pod *corev1.Pod) error {
	if r.remove != nil {
		if err := r.remove(pod); err != nil {
			return err
		}
	}
	return r.Provider.DeletePod(ctx, pod)
}

// GetPod implements node.PodLifecycleHandler.
func (r *runner) GetPod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	if r.get != nil {
		return r.get(namespace, name)
	}
	return r.Provider.GetPod(ctx, namespace, name)
}

// GetPods implements node.PodLifecycleHandler.
func (r *runner) GetPods(ctx context.Context) ([]*corev1.Pod, error) {
	if r.list != nil {
		return r.list()
	}
	return r.Provider.GetPods(ctx)
}

// NotifyPods implements node.PodNotifier.
func (r *runner) NotifyPods(ctx context.Context, cb func(*corev1.Pod)) {
	r.mutex.Lock()
	r.notify = cb
	r.mutex.Unlock()
	r.Provider.NotifyPods(ctx, cb)
}

// report reports what the simulation knows nothing of.
func (r *runner) report(pod *corev1.Pod) {
	r.mutex.Lock()
	notify := r.notify
	r.mutex.Unlock()
	notify(pod)
}

// creations are the names of the pods that were created, in order.
func (r *runner) creations() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.created)
}

// has are the CDI devices of a pod.
func (r *runner) has(pod types.UID) []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.devices[pod])
}

// users are the names of the pods that run with a claim.
func (r *runner) users(claim string) []string {
	pods, _ := r.Provider.GetPods(context.Background()) // of a simulation, it has no error
	var names []string
	for _, pod := range pods {
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		uses := slices.ContainsFunc(r.has(pod.UID), func(device string) bool { return strings.Contains(device, "/claim="+claim) })
		if uses && !ended {
			names = append(names, pod.Name)
		}
	}
	return names
}
