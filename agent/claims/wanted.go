// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	draclient "k8s.io/dynamic-resource-allocation/client"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// NotReadyError says why a pod cannot use a claim yet. The scheduler or the claim controller may
// change that.
type NotReadyError struct {
	Claim  string // namespace/name
	Reason string
}

func (err *NotReadyError) Error() string { return fmt.Sprintf("claim %s: %s", err.Claim, err.Reason) }

// Wanted returns the claims that a pod needs, without duplicates. All are allocated, and reserved
// for the pod. Otherwise, the error is a *NotReadyError, or one of the API server.
func Wanted(ctx context.Context, client *draclient.Client, pod *v1.Pod) ([]*resourceapi.ResourceClaim, error) {
	references := pod.Spec.ResourceClaims
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		// the claim for extended resources has no name in the pod's spec
		references = append(references[:len(references):len(references)], v1.PodResourceClaim{ResourceClaimName: &extended.ResourceClaimName})
	}
	var claims []*resourceapi.ResourceClaim
	seen := make(map[string]bool)
	for i := range references {
		name, generated, err := resourceclaim.Name(pod, &references[i])
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", klog.KObj(pod), err)
		}
		if name == nil || seen[*name] { // no claim is needed, or another name refers to the same claim
			continue
		}
		seen[*name] = true
		claim, err := usable(ctx, client, pod, *name, generated)
		if err != nil {
			return nil, err
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

// usable returns a claim if the pod may use it. A generated claim must have been generated for this
// pod, not for an earlier pod of the same name.
func usable(ctx context.Context, client *draclient.Client, pod *v1.Pod, name string, generated bool) (*resourceapi.ResourceClaim, error) {
	claim, err := client.ResourceClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("claim %s/%s: %w", pod.Namespace, name, err)
	}
	notReady := func(reason string) error { return &NotReadyError{klog.KObj(claim).String(), reason} }
	if generated {
		if err := resourceclaim.IsForPod(pod, claim, true); err != nil {
			return nil, notReady(err.Error())
		}
	}
	switch {
	case claim.Status.Allocation == nil:
		return nil, notReady("not allocated")
	case !resourceclaim.IsReservedForPod(pod, claim, true):
		return nil, notReady(fmt.Sprintf("not reserved for pod %s (%s)", klog.KObj(pod), pod.UID))
	}
	return claim, nil
}

// driversOf returns the drivers of a claim's devices. Prepare or unprepare is skipped for a driver
// if the allocation says so for each of its devices (KEP-5945).
func driversOf(claim *resourceapi.ResourceClaim) map[string]driverRecord {
	out := make(map[string]driverRecord)
	for _, result := range claim.Status.Allocation.Devices.Results {
		driver, known := out[result.Driver]
		prepare := skips(result, resourceapi.SkipNodeOperationNodePrepareResources)
		unprepare := skips(result, resourceapi.SkipNodeOperationNodeUnprepareResources)
		if known {
			prepare, unprepare = prepare && driver.SkipPrepare, unprepare && driver.SkipUnprepare
		}
		driver.SkipPrepare, driver.SkipUnprepare = prepare, unprepare
		if result.ShareID == nil && !ptr.Deref(result.AdminAccess, false) {
			driver.Exclusive = append(driver.Exclusive, device{Pool: result.Pool, Device: result.Device})
		}
		out[result.Driver] = driver
	}
	return out
}

func skips(result resourceapi.DeviceRequestAllocationResult, operation resourceapi.SkipNodeOperation) bool {
	for _, skipped := range result.SkipNodeOperations {
		if skipped == operation || skipped == resourceapi.SkipNodeOperationAll {
			return true
		}
	}
	return false
}
