// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/node/errdefs"
)

// defaultGrace is the termination grace period of a pod that does not set one.
const defaultGrace = corev1.DefaultTerminationGracePeriodSeconds * time.Second

// graceToTell is how long after its grace period a pod is deleted that was not reported to have
// ended. Providers kill what is left when the grace period is over, and report that.
const graceToTell = 3 * time.Second

// terminate ends a pod that has a deletion timestamp. The pod is removed from Kubernetes when the
// provider reports that it has ended, or some time after its grace period.
func (pc *PodController) terminate(ctx context.Context, pod, provided *corev1.Pod) error {
	if provided == nil || hasEnded(&pod.Status) {
		pc.deletions.EnqueueAfter(ctx, deletionKey(pod), 0)
		return nil
	}
	pc.deletions.EnqueueAfter(ctx, deletionKey(pod), grace(pod)+graceToTell)
	err := pc.provider.DeletePod(ctx, pod.DeepCopy())
	switch {
	case errdefs.IsNotFound(err):
		pc.deletions.EnqueueAfter(ctx, deletionKey(pod), 0)
		return nil
	case err != nil:
		pc.config.EventRecorder.Event(pod, corev1.EventTypeWarning, eventDeleteFailed, err.Error())
		return fmt.Errorf("pod %s: delete from the provider: %w", keyOf(pod), err)
	}
	pc.config.EventRecorder.Event(pod, corev1.EventTypeNormal, eventDeleted, "the provider deletes the pod")
	if !pc.notifies {
		gone := pod.DeepCopy()
		gone.Status = terminatedStatus(pod)
		pc.notify(ctx, gone)
	}
	return nil
}

func grace(pod *corev1.Pod) time.Duration {
	if pod.DeletionGracePeriodSeconds == nil {
		return defaultGrace
	}
	return time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
}

// deleteFromKubernetes deletes a pod from the API server, with a grace period of 0.
func (pc *PodController) deleteFromKubernetes(ctx context.Context, key string) error {
	at := strings.LastIndex(key, "/")
	if at < 0 {
		klog.FromContext(ctx).Info("Not a key of a pod to delete", "key", key)
		return nil
	}
	uid := types.UID(key[at+1:])
	pod, err := pc.lookUp(ctx, key[:at])
	if err != nil {
		return err
	}
	if pod == nil || pod.UID != uid {
		return nil
	}
	if !hasEnded(&pod.Status) {
		klog.FromContext(ctx).Info("Pod is deleted although it was not seen to end", "pod", klog.KObj(pod))
	}
	err = pc.config.PodClient.Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0),
		Preconditions:      &metav1.Preconditions{UID: &uid},
	})
	// A conflict means that another pod of the same name has taken its place.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("pod %s: delete: %w", keyOf(pod), err)
	}
	return nil
}

// deleteDangling deletes the provider's pods that do not exist in Kubernetes. If a pod with another
// UID has taken the name, it queues that name. What fails is tried again later. The only errors are
// a panic of the provider, and a lister that fails.
func (pc *PodController) deleteDangling(ctx context.Context, workers int) error {
	var pods []*corev1.Pod
	err := guard("GetPods", func() (err error) { pods, err = pc.provider.GetPods(ctx); return err })
	if panicked := panicOf(err); panicked != nil {
		return panicked
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Pods that Kubernetes does not have are not found: the provider does not list its pods")
		return nil
	}
	var group errgroup.Group
	group.SetLimit(workers)
	for _, provided := range pods {
		if provided == nil {
			continue
		}
		pod, err := pc.lookUp(ctx, keyOf(provided))
		switch {
		case err != nil:
			return errors.Join(err, group.Wait())
		case pod == nil:
			group.Go(func() error { return pc.deleteDanglingPod(ctx, provided) })
		case isAnother(provided, pod):
			pc.fromKubernetes.EnqueueAfter(ctx, keyOf(provided), 0)
		}
	}
	return group.Wait()
}

func (pc *PodController) deleteDanglingPod(ctx context.Context, provided *corev1.Pod) error {
	err := guard("DeletePod", func() error { return pc.deleteProvided(ctx, provided) })
	if panicked := panicOf(err); panicked != nil {
		return panicked
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "A pod that Kubernetes does not have is deleted later")
		pc.fromKubernetes.EnqueueAfter(ctx, keyOf(provided), 0)
	}
	return nil
}
