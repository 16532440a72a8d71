// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// Unreserve removes a consumer from status.reservedFor. Errors are only logged: the pod's next cycle finds
// the claim reserved for it, and the resource claim controller removes consumers that no longer exist.
func (w *Writer) Unreserve(ctx context.Context, claim *resourceapi.ResourceClaim, consumer types.UID) bool {
	// A strategic merge patch can remove one entry without listing the others.
	patch := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"reservedFor":[{"$patch":"delete","uid":%q}]}}`, claim.UID, consumer)
	_, err := w.Client.ResourceV1().ResourceClaims(claim.Namespace).Patch(ctx, claim.Name,
		types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		klog.FromContext(ctx).Error(err, "Reservation could not be removed", "resourceclaim", klog.KObj(claim))
	}
	return err == nil
}

// Deallocate clears the status of a claim: its allocation and all consumers.
func (w *Writer) Deallocate(ctx context.Context, claim *resourceapi.ResourceClaim) error {
	klog.FromContext(ctx).V(5).Info("Deallocating", "resourceclaim", klog.KObj(claim))
	claim = claim.DeepCopy()
	claim.Status = resourceapi.ResourceClaimStatus{}
	if _, err := w.Client.ResourceV1().ResourceClaims(claim.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("claim %s: deallocate: %w", klog.KObj(claim), err)
	}
	return nil
}
