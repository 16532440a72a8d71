// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// knownPod is what a controller remembers of a pod from its first event to its last.
type knownPod struct {
	uid types.UID

	mu      sync.Mutex
	status  *corev1.PodStatus // what the provider reported last, if anything
	skipped bool              // the provider reported the same again, which is not written
	handed  *corev1.Pod       // what the provider got last
}

// handlers feed the controller from an informer.
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
			case was.UID != is.UID: // its deletion was not seen
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

// updated also sees pods that were not the controller's before: those that were bound now.
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

// concernsProvider tells whether a pod changed in more than its status, which comes from
// the provider, or lost what kept its deletion from being carried out.
func concernsProvider(was, is *corev1.Pod) bool {
	return !sameForProvider(was, is) || !equality.Semantic.DeepEqual(was.DeletionTimestamp, is.DeletionTimestamp) ||
		!equality.Semantic.DeepEqual(was.DeletionGracePeriodSeconds, is.DeletionGracePeriodSeconds) ||
		is.DeletionTimestamp != nil && hasEnded(&is.Status) && !hasEnded(&was.Status)
}

// sameForProvider compares what may change of a pod while it runs.
func sameForProvider(a, b *corev1.Pod) bool {
	return equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.Annotations, b.Annotations) &&
		equality.Semantic.DeepEqual(a.Spec.Containers, b.Spec.Containers) &&
		equality.Semantic.DeepEqual(a.Spec.InitContainers, b.Spec.InitContainers) &&
		equality.Semantic.DeepEqual(a.Spec.EphemeralContainers, b.Spec.EphemeralContainers) &&
		equality.Semantic.DeepEqual(a.Spec.ActiveDeadlineSeconds, b.Spec.ActiveDeadlineSeconds) &&
		equality.Semantic.DeepEqual(a.Spec.Tolerations, b.Spec.Tolerations)
}

// hasEnded tells whether a pod has reached a phase that it does not leave.
func hasEnded(status *corev1.PodStatus) bool {
	return status.Phase == corev1.PodSucceeded || status.Phase == corev1.PodFailed
}

func keyOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// deletionKey names one pod, not the next one of its name.
func deletionKey(pod *corev1.Pod) string { return keyOf(pod) + "/" + string(pod.UID) }

// StorePod begins to remember a pod. It is to be called when a pod appears, before
// SyncPodsFromKubernetesEnqueue. The key is namespace/name. If the pod is remembered
// already, nothing happens.
func (pc *PodController) StorePod(key string, pod *corev1.Pod) {
	fresh := &knownPod{uid: pod.UID}
	before, stored := pc.known.LoadOrStore(key, fresh)
	if stored && before.(*knownPod).uid != pod.UID {
		pc.known.CompareAndSwap(key, before, fresh)
	}
}

// remembered returns what is remembered of this very pod, or nil.
func (pc *PodController) remembered(pod *corev1.Pod) *knownPod {
	object, ok := pc.known.Load(keyOf(pod))
	if !ok || object.(*knownPod).uid != pod.UID {
		return nil
	}
	return object.(*knownPod)
}

// LoadPod returns what is remembered of a pod, for CheckAndUpdatePod.
func (pc *PodController) LoadPod(key string) (any, bool) { return pc.known.Load(key) }

// DeletePod forgets a pod. It is to be called when the pod is gone, before
// SyncPodsFromKubernetesEnqueue, which then ends it in the provider.
func (pc *PodController) DeletePod(key string) { pc.known.Delete(key) }

// CheckAndUpdatePod is to be called when a pod changes in Kubernetes, with what LoadPod
// returned. If the provider reported the same status twice, the second one was not
// written; if somebody else changed the status meanwhile, it is written now.
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

// SyncPodsFromKubernetesEnqueue has a pod looked at that appeared, changed or is gone. The
// key is namespace/name.
func (pc *PodController) SyncPodsFromKubernetesEnqueue(ctx context.Context, key string) {
	pc.fromKubernetes.Enqueue(ctx, key)
}

// DeletePodsFromKubernetesEnqueue has a pod deleted from Kubernetes, without any more
// grace. The key is namespace/name/UID.
func (pc *PodController) DeletePodsFromKubernetesEnqueue(ctx context.Context, key string) {
	pc.deletions.Enqueue(ctx, key)
}

// DeletePodsFromKubernetesForget is to be called when a pod is gone from Kubernetes. The
// key is namespace/name/UID.
func (pc *PodController) DeletePodsFromKubernetesForget(ctx context.Context, key string) {
	pc.deletions.Forget(ctx, key)
}

// SyncPodStatusFromProviderEnqueue has the status written that the provider reported last.
// The key is namespace/name.
func (pc *PodController) SyncPodStatusFromProviderEnqueue(ctx context.Context, key string) {
	pc.fromProvider.Enqueue(ctx, key)
}
