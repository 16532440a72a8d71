// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// knownPod is what the controller stores about a pod while the pod exists.
type knownPod struct {
	uid types.UID

	mu      sync.Mutex
	status  *corev1.PodStatus // the provider's latest report, or nil
	skipped bool              // the provider repeated a report, and it was not written
	handed  *corev1.Pod       // the pod as it was last given to the provider

	writing sync.Mutex  // held while a status is written
	written *corev1.Pod // the API server's answer to the last status that was written, or nil
}

// latest returns the latest version of the pod that is known, of which stored may be an earlier one:
// informers see a write some time after it was made. The caller holds the mutex writing.
func (known *knownPod) latest(stored *corev1.Pod) *corev1.Pod {
	if known.written == nil {
		return stored
	}
	if order, err := resourceversion.CompareResourceVersion(known.written.ResourceVersion, stored.ResourceVersion); err != nil || order < 0 {
		return stored
	}
	return known.written
}

// handlers returns the event handlers that feed the queues from an informer.
func (pc *PodController) handlers(ctx context.Context) cache.ResourceEventHandler {
	mine := func(object any) bool {
		pod, ok := object.(*corev1.Pod)
		return ok && pc.config.PodEventFilterFunc(ctx, pod)
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if mine(object) {
				pc.added(ctx, object.(*corev1.Pod))
			}
		},
		UpdateFunc: func(before, after any) {
			was, is := before.(*corev1.Pod), after.(*corev1.Pod)
			switch {
			case was.UID != is.UID: // the deletion event was missed
				if mine(was) {
					pc.deleted(ctx, was)
				}
				if mine(is) {
					pc.added(ctx, is)
				}
			case mine(is):
				pc.updated(ctx, was, is)
			}
		},
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			if mine(object) {
				pc.deleted(ctx, object.(*corev1.Pod))
			}
		},
	}
}

func (pc *PodController) added(ctx context.Context, pod *corev1.Pod) {
	key := keyOf(pod)
	pc.StorePod(key, pod)
	pc.SyncPodsFromKubernetesEnqueue(ctx, key)
}

// updated handles an update. The pod may be new to the controller, for instance because it has just
// been bound.
func (pc *PodController) updated(ctx context.Context, was, is *corev1.Pod) {
	key := keyOf(is)
	known, ok := pc.LoadPod(key)
	if !ok {
		pc.added(ctx, is)
		return
	}
	pc.CheckAndUpdatePod(ctx, key, known, is)
	if concernsProvider(was, is) {
		pc.SyncPodsFromKubernetesEnqueue(ctx, key)
	}
}

func (pc *PodController) deleted(ctx context.Context, pod *corev1.Pod) {
	key := keyOf(pod)
	pc.DeletePod(key)
	pc.SyncPodsFromKubernetesEnqueue(ctx, key)
	pc.DeletePodsFromKubernetesForget(ctx, deletionKey(pod))
}

// concernsProvider tells whether the provider has to see a change. It does if more changed than the
// status, or if a pod that is being deleted has now ended.
func concernsProvider(was, is *corev1.Pod) bool {
	return !sameForProvider(was, is) || !equality.Semantic.DeepEqual(was.DeletionTimestamp, is.DeletionTimestamp) ||
		!equality.Semantic.DeepEqual(was.DeletionGracePeriodSeconds, is.DeletionGracePeriodSeconds) ||
		is.DeletionTimestamp != nil && hasEnded(&is.Status) && !hasEnded(&was.Status)
}

// sameForProvider compares the fields that may change while a pod runs.
func sameForProvider(a, b *corev1.Pod) bool {
	return equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.Annotations, b.Annotations) &&
		equality.Semantic.DeepEqual(a.Spec.Containers, b.Spec.Containers) &&
		equality.Semantic.DeepEqual(a.Spec.InitContainers, b.Spec.InitContainers) &&
		equality.Semantic.DeepEqual(a.Spec.EphemeralContainers, b.Spec.EphemeralContainers) &&
		equality.Semantic.DeepEqual(a.Spec.ActiveDeadlineSeconds, b.Spec.ActiveDeadlineSeconds) &&
		equality.Semantic.DeepEqual(a.Spec.Tolerations, b.Spec.Tolerations)
}

// hasEnded tells whether a pod is in a final phase.
func hasEnded(status *corev1.PodStatus) bool {
	return status.Phase == corev1.PodSucceeded || status.Phase == corev1.PodFailed
}

func keyOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// deletionKey returns a key with the UID, so that it does not apply to a later pod of the same
// name.
func deletionKey(pod *corev1.Pod) string { return keyOf(pod) + "/" + string(pod.UID) }

// StorePod adds a pod to the controller's known pods. Call it when a pod appears, before
// SyncPodsFromKubernetesEnqueue. The key is namespace/name. It does nothing if the pod is known.
func (pc *PodController) StorePod(key string, pod *corev1.Pod) {
	fresh := &knownPod{uid: pod.UID}
	before, _ := pc.known.LoadOrStore(key, fresh)
	if before.(*knownPod).uid != pod.UID {
		pc.known.CompareAndSwap(key, before, fresh)
	}
}

// knownOf returns what is stored about the pod with this UID, or nil.
func (pc *PodController) knownOf(pod *corev1.Pod) *knownPod {
	object, ok := pc.known.Load(keyOf(pod))
	if !ok || object.(*knownPod).uid != pod.UID {
		return nil
	}
	return object.(*knownPod)
}

// LoadPod returns what is stored about a pod, as an argument for CheckAndUpdatePod.
func (pc *PodController) LoadPod(key string) (any, bool) { return pc.known.Load(key) }

// DeletePod removes a pod from the controller's known pods. Call it when the pod was deleted,
// before SyncPodsFromKubernetesEnqueue, which then deletes it from the provider.
func (pc *PodController) DeletePod(key string) { pc.known.Delete(key) }

// CheckAndUpdatePod handles an update of a pod. Pass it the result of LoadPod. If the provider
// repeats a report, the status is not written again. If another writer has changed the status
// since, this method has it written after all.
func (pc *PodController) CheckAndUpdatePod(ctx context.Context, key string, obj interface{}, newPod *corev1.Pod) {
	known, ok := obj.(*knownPod)
	if !ok || newPod == nil {
		klog.FromContext(ctx).Info("CheckAndUpdatePod was not called with what LoadPod returned", "key", key)
		return
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	if known.skipped && !equality.Semantic.DeepEqual(*known.status, newPod.Status) {
		known.skipped = false
		pc.SyncPodStatusFromProviderEnqueue(ctx, key)
	}
}

// SyncPodsFromKubernetesEnqueue queues a pod that was added, changed or deleted. The key is
// namespace/name.
func (pc *PodController) SyncPodsFromKubernetesEnqueue(ctx context.Context, key string) {
	pc.fromKubernetes.Enqueue(ctx, key)
}

// DeletePodsFromKubernetesEnqueue queues a pod to be deleted from Kubernetes with a grace period of
// 0. The key is namespace/name/UID.
func (pc *PodController) DeletePodsFromKubernetesEnqueue(ctx context.Context, key string) {
	pc.deletions.Enqueue(ctx, key)
}

// DeletePodsFromKubernetesForget removes a pod from the queue of deletions. Call it when the pod is
// gone from Kubernetes. The key is namespace/name/UID.
func (pc *PodController) DeletePodsFromKubernetesForget(ctx context.Context, key string) {
	pc.deletions.Forget(ctx, key)
}

// SyncPodStatusFromProviderEnqueue queues a pod whose status was reported, to be written. The key
// is namespace/name.
func (pc *PodController) SyncPodStatusFromProviderEnqueue(ctx context.Context, key string) {
	pc.fromProvider.Enqueue(ctx, key)
}
