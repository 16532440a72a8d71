// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Pod is a pod of one container that asks for nothing and ends a second after it was told to.
func Pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{{Name: "main", Image: "example.com/main"}},
			TerminationGracePeriodSeconds: ptr.To[int64](1),
		},
	}
}

// Use lets the pod's container use a claim.
func Use(pod *corev1.Pod, claim corev1.PodResourceClaim) {
	pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, claim)
	container := &pod.Spec.Containers[0]
	container.Resources.Claims = append(container.Resources.Claims, corev1.ResourceClaim{Name: claim.Name})
}
