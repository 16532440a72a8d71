// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claimstate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// Claim is one claim of a pod while that is being scheduled. It belongs to one scheduling cycle.
type Claim struct {
	// Object is the claim as last seen. It is never modified, but replaced by what the
	// API server returns.
	Object *resourceapi.ResourceClaim
	// Name is how the pod calls the claim. Empty if it is for extended resources.
	Name string
	// reference is the entry in the pod's spec. Nil if the claim is for extended resources.
	reference *corev1.PodResourceClaim
	// Consumer is the pod or the PodGroup that the claim is reserved for.
	Consumer resourceapi.ResourceClaimConsumerReference
	// Extended is set if the scheduler creates the claim itself, for extended resources.
	Extended bool
	// Reach selects the nodes on which the allocation is available. Nil: all nodes, or
	// not allocated.
	Reach *nodeaffinity.NodeSelector
	// Pending is an allocation that is not in the API server yet: of Reserve for this pod, or, before that,
	// for another pod of its group.
	Pending *resourceapi.AllocationResult
	// InFlight is the UID under which Reserve signalled the allocation to the manager. It is empty while the
	// claim is not in flight.
	InFlight types.UID
}

// Allocated is the allocation in the API server or in flight, nil if there is none.
func (c *Claim) Allocated() *resourceapi.AllocationResult {
	if c.Object.Status.Allocation != nil {
		return c.Object.Status.Allocation
	}
	return c.Pending
}

// IsOwn reports whether the claim was made for a pod, so that no other pod uses it. A claim that the pod names, or that was made for its
// group, is not.
func (c *Claim) IsOwn(pod *corev1.Pod) bool { return metav1.IsControlledBy(c.Object, pod) }

// Asked is what a pod asks for by a claim. Claims that are their pods' own and not allocated are interchangeable if it is equal.
type Asked struct {
	Name string
	Spec *resourceapi.ResourceClaimSpec
}

// Asked returns what the pod asks for by the claim.
func (c *Claim) Asked() Asked { return Asked{c.Name, &c.Object.Spec} }

// Unallocated are the claims that have no allocation in the API server.
func Unallocated(claims []*Claim) []*Claim {
	var list []*Claim
	for _, claim := range claims {
		if claim.Object.Status.Allocation == nil {
			list = append(list, claim)
		}
	}
	return list
}

// InMemoryOnly reports whether the claim is not in the API server yet.
func (c *Claim) InMemoryOnly() bool { return c.Extended && c.Object.Name == inMemoryClaimName }

// PodConsumer returns the reference to a pod in status.reservedFor.
func PodConsumer(pod *corev1.Pod) resourceapi.ResourceClaimConsumerReference {
	return resourceapi.ResourceClaimConsumerReference{
		APIGroup: corev1.GroupName, Resource: "pods", Name: pod.Name, UID: pod.UID,
	}
}

// Full reports whether a claim has as many consumers as the API server allows.
func Full(claim *resourceapi.ResourceClaim) bool {
	return !resourceclaim.CanBeReserved(claim) || len(claim.Status.ReservedFor) >= resourceapi.ResourceClaimReservedForMaxSize
}

// ReachOf says on which nodes an allocation is available: nil for all.
func ReachOf(allocation *resourceapi.AllocationResult) (*nodeaffinity.NodeSelector, error) {
	if allocation.NodeSelector == nil {
		return nil, nil
	}
	return nodeaffinity.NewNodeSelector(allocation.NodeSelector)
}

// WithAllocation returns a claim with an allocation. It shares all else with the claim.
func WithAllocation(claim *resourceapi.ResourceClaim, allocation *resourceapi.AllocationResult) *resourceapi.ResourceClaim {
	allocated := *claim
	if !slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
		allocated.Finalizers = append(slices.Clone(claim.Finalizers), resourceapi.Finalizer)
	}
	allocated.Status.Allocation = allocation
	return &allocated
}

// Reserved reports whether a consumer is among those of a claim, by UID.
func Reserved(claim *resourceapi.ResourceClaim, consumer resourceapi.ResourceClaimConsumerReference) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool {
		return r.UID == consumer.UID
	})
}

// OnlyFor reports whether a claim is reserved for no other consumer.
func OnlyFor(claim *resourceapi.ResourceClaim, consumer types.UID) bool {
	return !slices.ContainsFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return r.UID != consumer })
}

// WantsAll reports whether a request of the claims asks for all devices.
func WantsAll(claims []*Claim) bool {
	for _, claim := range claims {
		for _, request := range claim.Object.Spec.Devices.Requests {
			if request.Exactly != nil && request.Exactly.AllocationMode == resourceapi.DeviceAllocationModeAll ||
				slices.ContainsFunc(request.FirstAvailable, func(r resourceapi.DeviceSubRequest) bool {
					return r.AllocationMode == resourceapi.DeviceAllocationModeAll
				}) {
				return true
			}
		}
	}
	return false
}
