// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/schedplugin/internal/claimstate"
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
	_, err := w.deallocate(ctx, claim)
	return err
}

func (w *Writer) deallocate(ctx context.Context, claim *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	klog.FromContext(ctx).V(5).Info("Deallocating", "resourceclaim", klog.KObj(claim))
	free := claim.DeepCopy()
	free.Status = resourceapi.ResourceClaimStatus{}
	free, err := w.Client.ResourceV1().ResourceClaims(claim.Namespace).UpdateStatus(ctx, free, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("claim %s: deallocate: %w", klog.KObj(claim), err)
	}
	return free, nil
}

// Release takes a claim from a pod that was preempted before it was bound. If nobody else uses the claim, it deallocates it: that
// is what the resource claim controller does when a pod is gone, but this pod stays. Errors are only logged: the pod's next cycle
// finds the claim reserved for it.
func (w *Writer) Release(ctx context.Context, claim *claimstate.Claim, pod types.UID) {
	latest := claim.Object
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		from := latest
		latest = nil
		var err error
		if from == nil {
			if from, err = w.Client.ResourceV1().ResourceClaims(claim.Object.Namespace).Get(ctx, claim.Object.Name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		switch {
		case from.UID != claim.Object.UID || from.Status.Allocation == nil:
			return nil
		case !claimstate.OnlyFor(from, pod):
			w.Unreserve(ctx, from, pod)
			return nil
		}
		if from, err = w.deallocate(ctx, from); err != nil {
			return err
		}
		claim.Object = from
		w.assume(ctx, claim)
		return nil
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Claim of a preempted pod could not be released", "resourceclaim", klog.KObj(claim.Object))
	}
}
