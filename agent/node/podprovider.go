// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// PodLifecycleHandler runs the pods of a PodController. Package errdefs classifies its errors. The
// provider owns pods that it is given. It must not change pods and statuses after it has returned
// them. Calls for different pods are concurrent. Calls for one pod are not, except GetPods and
// GetPodStatus.
type PodLifecycleHandler interface {
	// CreatePod begins to run a pod that the provider does not have. After an error of
	// the class InvalidInput the pod is Failed; after any other one, there is another attempt.
	CreatePod(ctx context.Context, pod *corev1.Pod) error

	// UpdatePod is called when a mutable field changed: containers' images, activeDeadlineSeconds,
	// tolerations, labels, annotations. An error of the class NotFound says that the provider lost
	// the pod.
	UpdatePod(ctx context.Context, pod *corev1.Pod) error

	// DeletePod begins to end a pod. The provider reports by NotifyPods when all containers have
	// ended. DeletePod may be called again for the same pod. An error of the class NotFound says
	// that the pod is gone.
	DeletePod(ctx context.Context, pod *corev1.Pod) error

	// GetPod returns a pod, or nil or an error of the class NotFound if the provider does
	// not have it.
	GetPod(ctx context.Context, namespace, name string) (*corev1.Pod, error)

	// GetPodStatus returns the status of a pod, or nil or an error of the class NotFound if the
	// provider does not have it. It is called only if the provider is no PodNotifier.
	GetPodStatus(ctx context.Context, namespace, name string) (*corev1.PodStatus, error)

	// GetPods returns all pods of the provider. Those that do not exist in Kubernetes
	// are deleted.
	GetPods(ctx context.Context) ([]*corev1.Pod, error)
}

// PodNotifier is implemented by providers that report status changes of pods. Others are polled
// every five seconds.
type PodNotifier interface {
	// NotifyPods registers a function that the provider calls when the status of a pod changes,
	// with the whole pod. The function does not modify or keep the pod, and may be called
	// concurrently. NotifyPods must not block.
	NotifyPods(ctx context.Context, cb func(*corev1.Pod))
}
