// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import corev1 "k8s.io/api/core/v1"

// Operation is what a Request asks for.
type Operation string

const (
	// Ready says that all sources of pods have told theirs. Until then, kubelet
	// frees nothing.
	Ready Operation = "ready"
	// Know adds a pod that ran before this kubelet was started. Nothing is allocated for it.
	Know Operation = "know"
	// Admit allocates devices for a pod and prepares its claims.
	Admit Operation = "admit"
	// Forget ends a pod: its claims are unprepared, and it is active no more.
	Forget Operation = "forget"
	// Capacity tells what the node has of each resource of device plugins.
	Capacity Operation = "capacity"
	// Health tells what a pod's status says of the health of its devices.
	Health Operation = "health"
)

// Request is a line of standard input.
type Request struct {
	Operation Operation   `json:"operation"`
	Pod       *corev1.Pod `json:"pod,omitempty"`
}

// Answer is a line of standard output.
type Answer struct {
	Error string `json:"error,omitempty"`
	// Containers is what the containers of an admitted pod get, by name.
	Containers map[string]Container `json:"containers,omitempty"`
	// Capacity is what the node has of each resource, Allocatable what of it is healthy.
	Capacity    corev1.ResourceList `json:"capacity,omitempty"`
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	// Statuses is what the statuses of a pod's containers say.
	Statuses []corev1.ContainerStatus `json:"statuses,omitempty"`
}

// Container is what kubelet would hand to the container runtime.
type Container struct {
	// Devices are the IDs of devices of device plugins, by resource.
	Devices map[string][]string `json:"devices,omitempty"`
	// Paths are device nodes in the container.
	Paths []string `json:"paths,omitempty"`
	// Environment has what device plugins add.
	Environment map[string]string `json:"environment,omitempty"`
	// CDI are the qualified names of CDI devices, of plugins and of claims.
	CDI []string `json:"cdi,omitempty"`
}
