// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/node/errdefs"
)

// Reasons of events and of statuses, as virtual-kubelet gives them.
const (
	eventCreated      = "ProviderCreateSuccess"
	eventCreateFailed = "ProviderCreateFailed"
	eventUpdated      = "ProviderUpdateSuccess"
	eventUpdateFailed = "ProviderUpdateFailed"
	eventDeleted      = "ProviderDeleteSuccess"
	eventDeleteFailed = "ProviderDeleteFailed"

	reasonProviderFailed = "ProviderFailed"
	reasonNotFound       = "NotFound"
)

// lookUp returns the pod in Kubernetes, or nil if there is none that is the controller's,
// which is also so if the key is none.
func (pc *PodController) lookUp(ctx context.Context, key string) (*corev1.Pod, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Not a key of a pod", "key", key)
		return nil, nil
	}
	pod, err := pc.config.PodLister.Pods(namespace).Get(name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("pod %s: look up: %w", key, err)
	case !pc.config.PodEventFilterFunc(ctx, pod):
		return nil, nil
	}
	return pod, nil
}

// provided returns the provider's pod, or nil if it has none.
func (pc *PodController) provided(ctx context.Context, key string) (*corev1.Pod, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return nil, nil //nolint:nilerr // no provider has a pod of such a key
	}
	pod, err := pc.provider.GetPod(ctx, namespace, name)
	if err != nil && !errdefs.IsNotFound(err) {
		return nil, fmt.Errorf("pod %s: get from the provider: %w", key, err)
	}
	if err != nil {
		return nil, nil //nolint:nilerr // the provider has no such pod
	}
	return pod, nil
}

// syncFromKubernetes brings a pod of the provider in line with Kubernetes.
func (pc *PodController) syncFromKubernetes(ctx context.Context, key string) error {
	pod, err := pc.lookUp(ctx, key)
	if err != nil {
		return err
	}
	provided, err := pc.provided(ctx, key)
	if err != nil {
		return err
	}
	if provided != nil && (pod == nil || isAnother(provided, pod)) {
		if err := pc.deleteProvided(ctx, provided); err != nil || pod == nil {
			return err
		}
		// The next one of the name begins when this one has ended.
		if provided, err = pc.provided(ctx, key); err != nil {
			return err
		}
		if provided != nil && isAnother(provided, pod) {
			return fmt.Errorf("pod %s: the provider still has the one with UID %s", key, provided.UID)
		}
	}
	switch {
	case pod == nil:
		return nil
	case pod.DeletionTimestamp != nil:
		return pc.terminate(ctx, pod, provided)
	case hasEnded(&pod.Status):
		return nil
	}
	pc.StorePod(key, pod)
	return pc.bringUp(ctx, pod, provided)
}

// isAnother tells whether the provider's pod is not this one but has its name. Providers
// need not keep UIDs.
func isAnother(provided, pod *corev1.Pod) bool { return provided.UID != "" && provided.UID != pod.UID }

// deleteProvided ends a pod of the provider that Kubernetes does not have. It has no grace: for
// Kubernetes its devices are free.
func (pc *PodController) deleteProvided(ctx context.Context, provided *corev1.Pod) error {
	gone := provided.DeepCopy()
	gone.DeletionGracePeriodSeconds = ptr.To[int64](0)
	if err := pc.provider.DeletePod(ctx, gone); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("pod %s: delete from the provider: %w", keyOf(provided), err)
	}
	return nil
}

// bringUp creates or updates a pod that is to run.
func (pc *PodController) bringUp(ctx context.Context, pod, provided *corev1.Pod) error {
	switch {
	case provided == nil && pod.Status.Phase == corev1.PodRunning:
		return pc.lost(ctx, pod)
	case provided == nil:
		return pc.create(ctx, pod)
	case pc.wasHanded(pod):
		return nil
	}
	resolved, err := pc.forProvider(pod)
	if err != nil {
		return err
	}
	if sameForProvider(provided, resolved) {
		return nil
	}
	err = pc.provider.UpdatePod(ctx, resolved)
	switch {
	case errdefs.IsNotFound(err):
		return pc.lost(ctx, pod)
	case err != nil:
		return pc.refused(ctx, pod, eventUpdateFailed, err)
	}
	pc.handed(pod)
	pc.config.EventRecorder.Event(pod, corev1.EventTypeNormal, eventUpdated, "the provider updated the pod")
	return nil
}

func (pc *PodController) create(ctx context.Context, pod *corev1.Pod) error {
	resolved, err := pc.forProvider(pod)
	if err != nil {
		return err
	}
	if err := pc.provider.CreatePod(ctx, resolved); err != nil {
		return pc.refused(ctx, pod, eventCreateFailed, err)
	}
	pc.handed(pod)
	pc.config.EventRecorder.Event(pod, corev1.EventTypeNormal, eventCreated, "the provider created the pod")
	return nil
}

// forProvider is a copy of a pod as the provider is to get it.
func (pc *PodController) forProvider(pod *corev1.Pod) (*corev1.Pod, error) {
	if pc.env == nil {
		return pod.DeepCopy(), nil
	}
	return pc.env.resolved(pod)
}

// lost deals with a pod that ran and that the provider does not have any more. If it may be
// restarted, it is created again.
func (pc *PodController) lost(ctx context.Context, pod *corev1.Pod) error {
	if pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		return pc.create(ctx, pod)
	}
	status := lostStatus(pod)
	return pc.writeStatus(ctx, pod, &status)
}

// refused tells people what the provider does not do, and returns the error if there is
// to be another attempt.
func (pc *PodController) refused(ctx context.Context, pod *corev1.Pod, event string, why error) error {
	if ctx.Err() != nil {
		return why
	}
	pc.config.EventRecorder.Event(pod, corev1.EventTypeWarning, event, why.Error())
	status := *pod.Status.DeepCopy()
	status.Reason, status.Message = reasonProviderFailed, why.Error()
	if errdefs.IsInvalidInput(why) {
		status.Phase = corev1.PodFailed
		return pc.writeStatus(ctx, pod, &status)
	}
	if pod.Status.Phase != corev1.PodRunning {
		status.Phase = corev1.PodPending
		if err := pc.writeStatus(ctx, pod, &status); err != nil {
			klog.FromContext(ctx).Error(err, "Status was not written", "pod", klog.KObj(pod))
		}
	}
	return fmt.Errorf("pod %s: %w", keyOf(pod), why)
}

// handed remembers what the provider got.
func (pc *PodController) handed(pod *corev1.Pod) {
	if known := pc.remembered(pod); known != nil {
		known.mu.Lock()
		defer known.mu.Unlock()
		known.handed = pod
	}
}

// wasHanded tells whether the provider got what matters of this pod, even if its own copy
// does not show it.
func (pc *PodController) wasHanded(pod *corev1.Pod) bool {
	known := pc.remembered(pod)
	if known == nil {
		return false
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	return known.handed != nil && sameForProvider(known.handed, pod)
}
