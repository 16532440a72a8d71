// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodesim

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// prepare checks that the pod may use its claims.
func (s *simulator) prepare(ctx context.Context, pod *corev1.Pod) error {
	names, err := ClaimNames(pod)
	if err != nil {
		return err
	}
	for _, name := range names {
		claim, err := s.client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		if err := usable(claim, pod.UID); err != nil {
			return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}

// usable is nil when the claim is the pod's to use.
func usable(claim *resourceapi.ResourceClaim, pod types.UID) error {
	reserved := slices.ContainsFunc(claim.Status.ReservedFor, func(consumer resourceapi.ResourceClaimConsumerReference) bool {
		// A claim of a pod group is reserved for the group, whose members are not listed.
		return consumer.UID == pod || consumer.Resource == "podgroups"
	})
	switch {
	case claim.Status.Allocation == nil:
		return fmt.Errorf("claim %s is not allocated", claim.Name)
	case !reserved:
		return fmt.Errorf("claim %s is not reserved for the pod", claim.Name)
	}
	return nil
}

// ClaimNames are the claims that the pod needs before it can start.
func ClaimNames(pod *corev1.Pod) ([]string, error) {
	var names []string
	for _, wanted := range pod.Spec.ResourceClaims {
		if wanted.ResourceClaimName != nil {
			names = append(names, *wanted.ResourceClaimName)
			continue
		}
		generated, err := generatedName(pod, wanted.Name)
		if err != nil {
			return nil, err
		}
		names = append(names, generated...)
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		names = append(names, extended.ResourceClaimName)
	}
	return names, nil
}

// generatedName is the claim made for an entry of the pod, or none if none is needed.
func generatedName(pod *corev1.Pod, entry string) ([]string, error) {
	for _, status := range pod.Status.ResourceClaimStatuses {
		switch {
		case status.Name != entry:
		case status.ResourceClaimName == nil:
			return nil, nil
		default:
			return []string{*status.ResourceClaimName}, nil
		}
	}
	return nil, fmt.Errorf("pod %s/%s: the claim for %s does not exist", pod.Namespace, pod.Name, entry)
}
