// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claimstate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"
)

// Source finds the claims of pods. It is safe for concurrent use.
type Source struct {
	DRA fwk.SharedDRAManager
	// Workloads and Extended are the features DRAWorkloadResourceClaims and DRAExtendedResource.
	Workloads, Extended bool
}

// Resolve returns the claims of a pod, without those for which the controller found that none is needed. An
// error says why the pod cannot be scheduled now.
func (s Source) Resolve(pod *corev1.Pod) ([]*Claim, error) {
	claims := make([]*Claim, 0, len(pod.Spec.ResourceClaims)+1)
	for i := range pod.Spec.ResourceClaims {
		reference := &pod.Spec.ResourceClaims[i]
		object, err := s.lookup(pod, reference)
		if err != nil {
			return nil, err
		}
		if object != nil {
			claims = append(claims, &Claim{Object: object, Name: reference.Name, reference: reference, Consumer: PodConsumer(pod)})
		}
	}
	return claims, nil
}

func (s Source) lookup(pod *corev1.Pod, reference *corev1.PodResourceClaim) (*resourceapi.ResourceClaim, error) {
	name, owned, err := resourceclaim.Name(pod, reference)
	if err != nil || name == nil {
		return nil, err
	}
	claim, err := s.DRA.ResourceClaims().Get(pod.Namespace, *name)
	if err != nil {
		return nil, err
	}
	if claim.DeletionTimestamp != nil {
		return nil, fmt.Errorf("resourceclaim %q is being deleted", claim.Name)
	}
	if owned {
		err = resourceclaim.IsForPod(pod, claim, s.Workloads)
	}
	return claim, err
}

// AssignConsumers sets the consumer of each claim: the pod, or its group. A nil group stands for none. An
// error says that a claim does not match the pod's reference.
func (s Source) AssignConsumers(pod *corev1.Pod, group *schedulingapi.PodGroup, claims []*Claim) error {
	if !s.Workloads {
		return nil
	}
	for _, claim := range claims {
		consumer, err := resourceclaim.BindTo(pod, group, claim.reference)
		if err != nil {
			return err
		}
		claim.Consumer = consumer
	}
	return nil
}

// ReservedFor reports whether the claim is reserved for the pod, or for its group.
func (s Source) ReservedFor(pod *corev1.Pod, claim *resourceapi.ResourceClaim) bool {
	return resourceclaim.IsReservedForPod(pod, claim, s.Workloads)
}

// Of returns those claims of any pod that exist. A claim in flight has its pending allocation.
func (s Source) Of(pod *corev1.Pod) []*resourceapi.ResourceClaim {
	var claims []*resourceapi.ResourceClaim
	for name := range resourceclaim.PodClaims(pod) {
		claim, err := s.DRA.ResourceClaims().Get(pod.Namespace, name)
		if err != nil {
			continue // without a claim there are no devices
		}
		if claim.Status.Allocation == nil {
			if pending := s.DRA.ResourceClaims().GetPendingAllocation(claim.UID); pending != nil {
				claim = WithAllocation(claim, pending)
			}
		}
		claims = append(claims, claim)
	}
	return claims
}

// InFlight reports whether a pod on a node, as the scheduler's cache has it, has a claim in flight, or one for extended resources that its
// status does not name yet.
func (s Source) InFlight(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodPending && pod.Status.Phase != "" {
		return false
	}
	for name := range resourceclaim.PodClaims(pod) {
		claim, err := s.DRA.ResourceClaims().Get(pod.Namespace, name)
		if err == nil && claim.Status.Allocation == nil && s.DRA.ResourceClaims().GetPendingAllocation(claim.UID) != nil {
			return true
		}
	}
	return pod.Status.ExtendedResourceClaimStatus == nil && s.AsksForExtended(pod)
}
