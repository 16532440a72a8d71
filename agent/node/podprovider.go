// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// PodLifecycleHandler is what a PodController needs of what runs its pods. Errors are
// classified by package errdefs. Pods that are handed over belong to the provider.
// Pods and statuses that it returns are not modified, and must not change any more.
// Methods are called concurrently, but not for the same pod, GetPods and GetPodStatus
// excepted.
type PodLifecycleHandler interface {
	// CreatePod begins to run a pod that the provider does not have. After an error of
	// the class InvalidInput the pod is Failed; after any other one, there is another attempt.
	CreatePod(ctx context.Context, pod *corev1.Pod) error

	// UpdatePod is called when a pod changed in what may change: images,
	// activeDeadlineSeconds, tolerations, labels, annotations. An error of the class NotFound
	// says that the provider lost the pod.
	UpdatePod(ctx context.Context, pod *corev1.Pod) error

	// DeletePod begins to end a pod. The provider says by NotifyPods when all its
	// containers have ended. It may be called again for the same pod. An
	// error of the class NotFound says that the pod is gone.
	DeletePod(ctx context.Context, pod *corev1.Pod) error

	// GetPod returns a pod, or nil or an error of the class NotFound if the provider does
	// not have it.
	GetPod(ctx context.Context, namespace, name string) (*corev1.Pod, error)

	// GetPodStatus returns the status of a pod, or nil or an error of the class NotFound
	// if the provider does not have it. It is called for providers without
	// NotifyPods.
	GetPodStatus(ctx context.Context, namespace, name string) (*corev1.PodStatus, error)

	// GetPods returns all pods of the provider. Those that do not exist in Kubernetes
	// are deleted.
	GetPods(ctx context.Context) ([]*corev1.Pod, error)
}

// PodNotifier is implemented by providers that tell when the status of a pod changes. The
// others are asked every five seconds.
type PodNotifier interface {
	// NotifyPods hands over a function that the provider calls with each pod whose
	// status changed, as it is now. The function does not modify the pod, copies what it
	// needs, and may be called concurrently. NotifyPods must not block.
	NotifyPods(ctx context.Context, cb func(*corev1.Pod))
}
