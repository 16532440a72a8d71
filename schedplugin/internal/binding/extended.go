// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/dray-project/dray/schedplugin/internal/claimstate"
)

// create creates the claim for extended resources in the API server. It includes the finalizer, which saves
// an update. If the claim is not allocated then, the resource claim controller removes the finalizer.
func (w *Writer) create(ctx context.Context, claim *claimstate.Claim) error {
	object := claim.Object.DeepCopy()
	object.Name, object.UID = "", ""
	object.Status = resourceapi.ResourceClaimStatus{}
	object.Finalizers = []string{resourceapi.Finalizer}
	created, err := w.Client.ResourceV1().ResourceClaims(object.Namespace).Create(ctx, object, metav1.CreateOptions{})
	status := "success"
	if err != nil {
		status = "failure"
	}
	schedmetrics.ResourceClaimCreatesTotal.WithLabelValues(status, "false", "", "Pod").Inc()
	if err != nil {
		return fmt.Errorf("create claim %s*: %w", object.GenerateName, err)
	}
	w.Foreign.Allocates(created.UID, claim.Pending)
	// From now on Unreserve deletes the claim.
	claim.Object = created
	return nil
}

// reportExtended writes the name of the claim for extended resources into the pod's status, where the kubelet finds it.
func (w *Writer) reportExtended(ctx context.Context, pod *corev1.Pod, claimName string, mappings []corev1.ContainerExtendedResourceRequest) error {
	if len(mappings) == 0 {
		return fmt.Errorf("pod %s: no container uses claim %s for extended resources", klog.KObj(pod), claimName)
	}
	status := pod.Status.DeepCopy()
	status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
		RequestMappings:   mappings,
		ResourceClaimName: claimName,
	}
	if err := schedutil.PatchPodStatus(ctx, w.Client, pod.Name, pod.Namespace, &pod.Status, status); err != nil {
		return fmt.Errorf("pod %s: update extendedResourceClaimStatus: %w", klog.KObj(pod), err)
	}
	return nil
}

// DeleteCreated deletes the claim for extended resources if it was created. The next attempt may need other
// requests.
func (w *Writer) DeleteCreated(ctx context.Context, claim *claimstate.Claim) {
	if claim.InMemoryOnly() {
		return
	}
	if err := w.Delete(ctx, claim.Object); err != nil {
		klog.FromContext(ctx).Error(err, "Claim could not be deleted", "resourceclaim", klog.KObj(claim.Object))
	}
}

// Delete deletes a claim that the scheduler created. It removes the finalizer first, which would block that.
func (w *Writer) Delete(ctx context.Context, claim *resourceapi.ResourceClaim) error {
	claims := w.Client.ResourceV1().ResourceClaims(claim.Namespace)
	latest := claim
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var err error
		if latest == nil {
			if latest, err = claims.Get(ctx, claim.Name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		released := latest.DeepCopy()
		latest = nil
		released.Finalizers = slices.DeleteFunc(released.Finalizers, func(f string) bool { return f == resourceapi.Finalizer })
		_, err = claims.Update(ctx, released, metav1.UpdateOptions{})
		return err
	})
	if err == nil {
		err = claims.Delete(ctx, claim.Name, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("claim %s: delete: %w", klog.KObj(claim), err)
	}
	return nil
}
