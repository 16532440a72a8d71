// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claimstate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/dray-project/dray/podclaims"
)

// inMemoryClaimName is the name of the claim for extended resources until PreBind creates it. It is not a
// valid name in the API server.
const inMemoryClaimName = "<extended-resources>"

// ExtendedClaim returns the claim for the extended resources of a pod, and the names of these resources. The
// claim is the one that an earlier attempt created, or else a new one in memory. It is nil if devices can
// provide none of the resources.
func (s Source) ExtendedClaim(pod *corev1.Pod) (*Claim, []corev1.ResourceName, error) {
	asked := s.fromDevices(pod)
	if asked == nil {
		return nil, nil, nil
	}
	object, err := s.existingExtendedClaim(pod)
	if err != nil {
		return nil, nil, err
	}
	if object == nil {
		object = inMemoryClaim(pod)
	}
	return &Claim{Object: object, Extended: true, Consumer: PodConsumer(pod)}, asked, nil
}

// AsksForExtended reports whether the pod asks for extended resources that devices can serve.
func (s Source) AsksForExtended(pod *corev1.Pod) bool { return s.fromDevices(pod) != nil }

// fromDevices lists all extended resources that the pod requests. It is nil if devices can provide none of them.
func (s Source) fromDevices(pod *corev1.Pod) []corev1.ResourceName {
	if !s.Extended {
		return nil
	}
	names := podclaims.ExtendedResources(pod)
	if !slices.ContainsFunc(names, func(name corev1.ResourceName) bool { return s.ClassOf(name) != nil }) {
		return nil
	}
	return names
}

// ClassOf returns the DeviceClass that offers devices as an extended resource, nil if there is none.
func (s Source) ClassOf(name corev1.ResourceName) *resourceapi.DeviceClass {
	return s.DRA.DeviceClassResolver().GetDeviceClass(name)
}

// ExtendedClaims is a ResourceClaimTracker that finds claims for extended resources. With another tracker,
// all claims are searched for each pod that requests such resources.
type ExtendedClaims interface {
	// ExtendedClaim returns the claim that exists for the extended resources of a pod, nil if there is
	// none.
	ExtendedClaim(pod *corev1.Pod) *resourceapi.ResourceClaim
}

// existingExtendedClaim returns the claim that exists for a pod's extended resources, nil if there is none.
func (s Source) existingExtendedClaim(pod *corev1.Pod) (*resourceapi.ResourceClaim, error) {
	if tracker, finds := s.DRA.ResourceClaims().(ExtendedClaims); finds {
		return tracker.ExtendedClaim(pod), nil
	}
	list, err := s.DRA.ResourceClaims().List()
	if err != nil {
		return nil, fmt.Errorf("list resource claims: %w", err)
	}
	for _, claim := range list {
		if MadeFor(claim, pod) && metav1.GetControllerOfNoCopy(claim).Name == pod.Name {
			return claim, nil
		}
	}
	return nil, nil
}

func inMemoryClaim(pod *corev1.Pod) *resourceapi.ResourceClaim {
	claim := podclaims.ExtendedClaim(pod)
	claim.Name = inMemoryClaimName
	claim.UID = uuid.NewUUID() // identifies it while it is in flight; the API server chooses another UID
	return claim
}
