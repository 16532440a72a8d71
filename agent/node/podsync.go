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

// lookUp returns a pod from the lister. It returns nil if the pod does not exist, if it does not
// belong to the controller, or if the key is malformed.
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
		return nil, nil //nolint:nilerr // a malformed key matches no pod
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

// syncFromKubernetes reconciles a pod of the provider with Kubernetes.
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
		// A pod is created when the one before it of the same name is gone.
		if provided, err = pc.provided(ctx, key); err != nil {
			return err
		}
		if provided != nil && isAnother(provided, pod) {
			return pc.waitFor(ctx, provided, pod)
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

// waitFor says that a pod waits for an earlier one of its name, which the provider still has. A pod
// that is deleted does not wait, since the provider never had it.
func (pc *PodController) waitFor(ctx context.Context, earlier, pod *corev1.Pod) error {
	switch {
	case pod.DeletionTimestamp != nil:
		return pc.terminate(ctx, pod, nil)
	case hasEnded(&pod.Status):
		return nil
	}
	return pc.handleRefusal(ctx, pod, eventCreateFailed, fmt.Errorf("the provider still has the earlier pod of this name, with UID %s", earlier.UID))
}

// isAnother tells whether the provider's pod has the name of this pod but another UID. Providers
// need not store UIDs.
func isAnother(provided, pod *corev1.Pod) bool { return provided.UID != "" && provided.UID != pod.UID }

// deleteProvided deletes a pod from the provider that does not exist in Kubernetes. The grace
// period is 0, since Kubernetes may already give its devices to other pods.
func (pc *PodController) deleteProvided(ctx context.Context, provided *corev1.Pod) error {
	gone := provided.DeepCopy()
	gone.DeletionGracePeriodSeconds = ptr.To[int64](0)
	if err := pc.provider.DeletePod(ctx, gone); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("pod %s: delete from the provider: %w", keyOf(provided), err)
	}
	return nil
}

// bringUp creates or updates a pod in the provider.
func (pc *PodController) bringUp(ctx context.Context, pod, provided *corev1.Pod) error {
	switch {
	case provided == nil && pod.Status.Phase == corev1.PodRunning:
		return pc.handleLost(ctx, pod)
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
		return pc.handleLost(ctx, pod)
	case err != nil:
		return pc.handleRefusal(ctx, pod, eventUpdateFailed, err)
	}
	pc.rememberHanded(pod)
	pc.config.EventRecorder.Event(pod, corev1.EventTypeNormal, eventUpdated, "the provider updated the pod")
	return nil
}

func (pc *PodController) create(ctx context.Context, pod *corev1.Pod) error {
	resolved, err := pc.forProvider(pod)
	if err != nil {
		return err
	}
	if err := pc.provider.CreatePod(ctx, resolved); err != nil {
		return pc.handleRefusal(ctx, pod, eventCreateFailed, err)
	}
	pc.rememberHanded(pod)
	pc.config.EventRecorder.Event(pod, corev1.EventTypeNormal, eventCreated, "the provider created the pod")
	return nil
}

// forProvider returns the copy of a pod that the provider gets.
func (pc *PodController) forProvider(pod *corev1.Pod) (*corev1.Pod, error) {
	if pc.env == nil {
		return pod.DeepCopy(), nil
	}
	return pc.env.resolved(pod)
}

// handleLost handles a pod that was running and that the provider no longer has. Depending on its
// restart policy, it is created again or becomes Failed.
func (pc *PodController) handleLost(ctx context.Context, pod *corev1.Pod) error {
	if pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		return pc.create(ctx, pod)
	}
	status := lostStatus(pod)
	return pc.writeStatus(ctx, pod, &status)
}

// handleRefusal reports an error of the provider in an Event and in the status. It returns the
// error if there is to be another attempt.
func (pc *PodController) handleRefusal(ctx context.Context, pod *corev1.Pod, event string, why error) error {
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

// rememberHanded stores the pod that was given to the provider.
func (pc *PodController) rememberHanded(pod *corev1.Pod) {
	if known := pc.knownOf(pod); known != nil {
		known.mu.Lock()
		defer known.mu.Unlock()
		known.handed = pod
	}
}

// wasHanded tells whether the provider was given this version of the pod. A provider's own copy may
// not show that.
func (pc *PodController) wasHanded(pod *corev1.Pod) bool {
	known := pc.knownOf(pod)
	if known == nil {
		return false
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	return known.handed != nil && sameForProvider(known.handed, pod)
}
