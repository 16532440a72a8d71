// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package charge

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresources "k8s.io/component-helpers/resource"
)

// ClaimCount is the name under which ResourceQuota counts claims.
const ClaimCount corev1.ResourceName = "count/resourceclaims.resource.k8s.io"

// Quota is what ResourceQuota of Kubernetes 1.37 counts for a claim, by the names of its spec.hard. It counts
// the claim, and its devices by class, by the implicit extended resource of the class, and by the extended
// resource of the class. Only the spec is read, whether the claim is allocated or not.
//
// Of the alternatives of a request the largest counts, for each class. allocationMode All counts as the largest
// number of devices that a claim can have. Admin access counts as any other request. If two classes have the
// same extended resource, the larger number counts.
//
// The classes are those of the cluster. The pod is the one for whose extended resources kube-scheduler made the
// claim, nil for other claims. What the pod itself is charged is subtracted. A pod that has ended is charged
// nothing.
//
// A claim for extended resources that does not exist yet has no charge: the requests of its pod are charged
// instead. A nil claim counts nothing.
func Quota(claim *resourceapi.ResourceClaim, classes []*resourceapi.DeviceClass, pod *corev1.Pod) corev1.ResourceList {
	if claim == nil {
		return nil
	}
	list := corev1.ResourceList{ClaimCount: *resource.NewQuantity(1, resource.DecimalSI)}
	devices := make(map[string]resource.Quantity)
	for i := range claim.Spec.Devices.Requests {
		for class, n := range worstCase(&claim.Spec.Devices.Requests[i]) {
			sum := devices[class]
			sum.Add(*resource.NewQuantity(n, resource.DecimalSI))
			devices[class] = sum
		}
	}
	var charged corev1.ResourceList
	if pod != nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		charged = podresources.PodRequests(pod, podresources.PodResourcesOptions{})
	}
	extended := make(map[string]string)
	for _, class := range classes {
		if name := class.Spec.ExtendedResourceName; name != nil {
			extended[class.Name] = *name
		}
	}
	for class, n := range devices {
		list[ByClass(class).Resource] = n
		if class == "" {
			continue
		}
		names := []string{resourceapi.ResourceDeviceClassPrefix + class}
		if name := extended[class]; name != "" {
			names = append(names, name)
		}
		for _, name := range names {
			left, to := n.DeepCopy(), corev1.ResourceName(corev1.DefaultResourceRequestsPrefix+name)
			left.Sub(charged[corev1.ResourceName(name)])
			if left.Sign() > 0 && left.Cmp(list[to]) > 0 {
				list[to] = left
			}
		}
	}
	return list
}

// worstCase returns, for each class, the largest number of devices that a request can get.
func worstCase(r *resourceapi.DeviceRequest) map[string]int64 {
	most := make(map[string]int64)
	for i := range r.FirstAvailable {
		sub := &r.FirstAvailable[i]
		if n := countOf(sub.AllocationMode, sub.Count); n > most[sub.DeviceClassName] {
			most[sub.DeviceClassName] = n
		}
	}
	if len(r.FirstAvailable) == 0 && r.Exactly != nil {
		most[r.Exactly.DeviceClassName] = countOf(r.Exactly.AllocationMode, r.Exactly.Count)
	}
	return most
}

// countOf is how many devices Kubernetes counts: zero for an unknown allocation mode.
func countOf(mode resourceapi.DeviceAllocationMode, count int64) int64 {
	switch mode {
	case resourceapi.DeviceAllocationModeAll:
		return resourceapi.AllocationResultsMaxSize
	case resourceapi.DeviceAllocationModeExactCount:
		return count
	}
	return 0
}
