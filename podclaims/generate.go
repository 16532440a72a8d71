// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podclaims

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apiserver/pkg/storage/names"
)

// suffixLength is how many random characters an API server appends to generateName.
const suffixLength = 5

// NewUID makes the UID that an API server would assign to an object. It must be deterministic.
type NewUID func(kind string, key types.NamespacedName) types.UID

// generate makes the claim that the resource claim controller would make for a pod.
func (r *Resolver) generate(template *resourceapi.ResourceClaimTemplate, pod *corev1.Pod, podClaimName string) *resourceapi.ResourceClaim {
	owner := metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))
	owner.UID = r.PodUID(pod)
	return r.generateFor(template, pod.Namespace, *owner, podClaimName)
}

// generateForGroup makes the claim that all pods of a group share.
func (r *Resolver) generateForGroup(template *resourceapi.ResourceClaimTemplate, group *schedulingapi.PodGroup, podClaimName string) *resourceapi.ResourceClaim {
	owner := metav1.NewControllerRef(group, schedulingapi.SchemeGroupVersion.WithKind("PodGroup"))
	owner.UID = r.groupUID(group)
	return r.generateFor(template, group.Namespace, *owner, podClaimName)
}

func (r *Resolver) generateFor(template *resourceapi.ResourceClaimTemplate, namespace string, owner metav1.OwnerReference, podClaimName string) *resourceapi.ResourceClaim {
	base := generateName(owner.Name, podClaimName)
	key := types.NamespacedName{Namespace: namespace, Name: WithSuffix(namespace, base)}
	annotations := maps.Clone(template.Spec.Annotations)
	if annotations == nil {
		annotations = make(map[string]string)
	}
	annotations[resourceapi.PodResourceClaimAnnotation] = podClaimName
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName:    base,
			Name:            key.Name,
			Namespace:       key.Namespace,
			UID:             r.newUID("ResourceClaim", key),
			Labels:          maps.Clone(template.Spec.Labels),
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: *template.Spec.Spec.DeepCopy(),
	}
}

func generateName(owner, podClaimName string) string { return owner + "-" + podClaimName + "-" }

// generatedName is the name of a claim that is generated for a pod.
func generatedName(pod *corev1.Pod, podClaimName string) string {
	return WithSuffix(pod.Namespace, generateName(pod.Name, podClaimName))
}

// WithSuffix appends a suffix to generateName as an API server would, but a deterministic one.
func WithSuffix(namespace, base string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + base))
	suffix := rand.SafeEncodeString(hex.EncodeToString(sum[:]))[:suffixLength]
	return base[:min(len(base), names.MaxGeneratedNameLength)] + suffix
}

// PodUID is the UID of a pod, or a generated one if it has none.
func (r *Resolver) PodUID(pod *corev1.Pod) types.UID {
	if pod.UID != "" {
		return pod.UID
	}
	return r.newUID("Pod", keyOf(pod))
}

func (r *Resolver) groupUID(group *schedulingapi.PodGroup) types.UID {
	if group.UID != "" {
		return group.UID
	}
	return r.newUID("PodGroup", keyOf(group))
}
