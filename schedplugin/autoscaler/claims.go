// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// AddClaims adds claims. It is an error if one of them is nil, exists already or is given twice. Then none is
// added.
func (s *Snapshot) AddClaims(newClaims []*resourceapi.ResourceClaim) error {
	added := make(map[ResourceClaimId]bool, len(newClaims))
	for i, claim := range newClaims {
		if claim == nil {
			return fmt.Errorf("claim %d of %d is nil", i, len(newClaims))
		}
		id := GetClaimId(claim)
		if _, found := s.claims.now[id]; found || added[id] {
			return fmt.Errorf("claim %s/%s: it is in the snapshot already", claim.Namespace, claim.Name)
		}
		added[id] = true
	}
	for _, claim := range newClaims {
		s.put(claim)
	}
	return nil
}

// PodClaims returns the claims that a pod refers to, in that order. It is an error if one of them is not in the
// Snapshot, or was not generated yet.
func (s *Snapshot) PodClaims(pod *corev1.Pod) ([]*resourceapi.ResourceClaim, error) {
	claims, err := s.referred(pod)
	if err != nil {
		return nil, err
	}
	return claims, nil
}

// RemovePodOwnedClaims removes the claims that a pod owns, and the pod's reservations of other claims. Claims
// that are not in the Snapshot are ignored.
func (s *Snapshot) RemovePodOwnedClaims(pod *corev1.Pod) {
	claims, _ := s.referred(pod) // those in the Snapshot
	for _, claim := range s.withExtended(pod, claims) {
		if metav1.IsControlledBy(claim, pod) {
			s.remove(claim)
		} else if left, had := unreserved(claim, pod); had {
			s.put(left)
		}
	}
}

// ReservePodClaims reserves the claims that a pod refers to. It is an error if one of them is not in the
// Snapshot, or has the largest allowed number of consumers. Then none is reserved.
func (s *Snapshot) ReservePodClaims(pod *corev1.Pod) error {
	claims, err := s.referred(pod)
	if err != nil {
		return err
	}
	claims = s.withExtended(pod, claims)
	claims = slices.DeleteFunc(claims, func(claim *resourceapi.ResourceClaim) bool { return reservedFor(claim, pod) >= 0 })
	for _, claim := range claims {
		if len(claim.Status.ReservedFor) >= resourceapi.ResourceClaimReservedForMaxSize {
			return fmt.Errorf("claim %s/%s: it has as many consumers as a claim can have", claim.Namespace, claim.Name)
		}
	}
	for _, claim := range claims {
		taken := *claim
		taken.Status.ReservedFor = append(slices.Clip(claim.Status.ReservedFor), resourceapi.ResourceClaimConsumerReference{
			Resource: "pods", Name: pod.Name, UID: pod.UID,
		})
		s.put(&taken)
	}
	return nil
}

// UnreservePodClaims removes the reservations of a pod. It deallocates claims that the pod owns, and those
// without a consumer. A claim for the pod's extended resources is removed. It is an error if a claim that the
// pod refers to is not in the Snapshot. Then nothing changes.
func (s *Snapshot) UnreservePodClaims(pod *corev1.Pod) error {
	claims, err := s.referred(pod)
	if err != nil {
		return err
	}
	for _, claim := range s.withExtended(pod, claims) {
		if extendedFor(claim) == pod.UID {
			s.remove(claim) // the next attempt creates a new one, which is an error while this one exists
			continue
		}
		left, had := unreserved(claim, pod)
		if metav1.IsControlledBy(claim, pod) || len(left.Status.ReservedFor) == 0 {
			had = had || left.Status.Allocation != nil
			left.Status.Allocation = nil
		}
		if had {
			s.put(left)
		}
	}
	return nil
}

// put adds or replaces a claim.
func (s *Snapshot) put(claim *resourceapi.ResourceClaim) {
	id := GetClaimId(claim)
	before := s.claims.now[id]
	s.claims.set(id, claim)
	if owner := extendedFor(claim); owner != "" {
		s.extended.set(owner, id)
	}
	s.changed(id, before, claim)
}

// changed records that a claim was added, changed or removed. before or after is nil if there is none.
func (s *Snapshot) changed(id ResourceClaimId, before, after *resourceapi.ResourceClaim) {
	s.allocated.replace(before, after)
	s.changes.add(id, len(s.claims.now))
}

// referred returns the claims in the Snapshot that a pod refers to, each once. The error is about the first one
// that is missing.
func (s *Snapshot) referred(pod *corev1.Pod) ([]*resourceapi.ResourceClaim, error) {
	var claims []*resourceapi.ResourceClaim
	var missing error
	for i := range pod.Spec.ResourceClaims {
		claim, err := s.referredBy(pod, &pod.Spec.ResourceClaims[i])
		switch {
		case err != nil:
			if missing == nil {
				missing = fmt.Errorf("pod %s/%s: claim %s: %w", pod.Namespace, pod.Name, pod.Spec.ResourceClaims[i].Name, err)
			}
		case claim != nil && !slices.Contains(claims, claim):
			claims = append(claims, claim)
		}
	}
	return claims, missing
}

// referredBy returns the claim behind an entry of spec.resourceClaims. It is nil if the pod's status says that
// no claim is needed.
func (s *Snapshot) referredBy(pod *corev1.Pod, podClaim *corev1.PodResourceClaim) (*resourceapi.ResourceClaim, error) {
	name, _, err := resourceclaim.Name(pod, podClaim)
	if err != nil || name == nil {
		return nil, err
	}
	claim, found := s.claims.now[ResourceClaimId{Name: *name, Namespace: pod.Namespace}]
	if !found {
		return nil, fmt.Errorf("%s is not in the snapshot", *name)
	}
	return claim, nil
}

// withExtended appends the claim for the extended resources of a pod, if there is one.
func (s *Snapshot) withExtended(pod *corev1.Pod, claims []*resourceapi.ResourceClaim) []*resourceapi.ResourceClaim {
	if claim := s.extendedOf(pod); claim != nil && !slices.Contains(claims, claim) {
		claims = append(claims, claim)
	}
	return claims
}

// extendedOf returns the claim for the extended resources of a pod, nil if there is none.
func (s *Snapshot) extendedOf(pod *corev1.Pod) *resourceapi.ResourceClaim {
	id, found := s.extended.now[pod.UID]
	if !found {
		return nil
	}
	claim := s.claims.now[id]
	if claim.Namespace != pod.Namespace || metav1.GetControllerOfNoCopy(claim).Name != pod.Name {
		return nil
	}
	return claim
}

// make adds a claim for extended resources that a plugin created. Such claims have the same name for all pods,
// so the UID is appended to the name.
func (s *Snapshot) make(claim *resourceapi.ResourceClaim) error {
	if extendedFor(claim) == "" {
		return fmt.Errorf("claim %s/%s is not in the snapshot, and is not for extended resources of a pod", claim.Namespace, claim.Name)
	}
	named := *claim
	named.Name = fmt.Sprintf("%s/%s", claim.Name, claim.UID)
	s.put(&named)
	return nil
}

// remove removes a claim.
func (s *Snapshot) remove(claim *resourceapi.ResourceClaim) {
	id := GetClaimId(claim)
	s.claims.delete(id)
	if owner := extendedFor(claim); owner != "" {
		s.extended.delete(owner)
	}
	s.changed(id, claim, nil)
}

// extendedFor returns the UID of the pod if a claim is for extended resources, otherwise an empty one.
func extendedFor(claim *resourceapi.ResourceClaim) types.UID {
	if claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] != "true" {
		return ""
	}
	if owner := metav1.GetControllerOfNoCopy(claim); owner != nil && owner.Kind == "Pod" {
		return owner.UID
	}
	return ""
}

// reservedFor returns the index of the pod among the consumers, -1 if it is not one of them.
func reservedFor(claim *resourceapi.ResourceClaim, pod *corev1.Pod) int {
	return slices.IndexFunc(claim.Status.ReservedFor, func(by resourceapi.ResourceClaimConsumerReference) bool {
		return by.APIGroup == "" && by.Resource == "pods" && by.Name == pod.Name && by.UID == pod.UID
	})
}

// unreserved returns a copy of a claim without the pod as a consumer, and whether the pod was one.
func unreserved(claim *resourceapi.ResourceClaim, pod *corev1.Pod) (*resourceapi.ResourceClaim, bool) {
	left := *claim
	at := reservedFor(claim, pod)
	if at >= 0 {
		left.Status.ReservedFor = slices.Delete(slices.Clone(claim.Status.ReservedFor), at, at+1)
	}
	return &left, at >= 0
}
