package cluster

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// claimsOf returns the claims of a workload as they are now, in the order of the
// pod's spec. Claims that a template stands for and that do not exist yet are made,
// but not kept. The error says what is missing.
func (c *Cluster) claimsOf(w Workload) ([]*resourceapi.ResourceClaim, error) {
	if w.Pod == nil {
		claim, err := c.claimByKey(w.Claim)
		return []*resourceapi.ResourceClaim{claim}, err
	}
	var claims []*resourceapi.ResourceClaim
	for _, podClaim := range w.Pod.Spec.ResourceClaims {
		claim, err := c.podClaim(w.Pod, podClaim)
		if err != nil {
			return nil, fmt.Errorf("spec.resourceClaims %s: %w", podClaim.Name, err)
		}
		// A pod may name one claim twice.
		if claim != nil && !slices.Contains(claims, claim) {
			claims = append(claims, claim)
		}
	}
	return claims, nil
}

// claimByKey also finds claims that will be made for pending pods.
func (c *Cluster) claimByKey(key types.NamespacedName) (*resourceapi.ResourceClaim, error) {
	if claim := c.claims[key]; claim != nil {
		return claim, nil
	}
	for _, w := range c.Workloads() {
		if !c.Uses(w, Workload{Claim: key}) {
			continue
		}
		for _, podClaim := range w.Pod.Spec.ResourceClaims {
			if c.podClaimKey(w.Pod, podClaim) == key {
				return c.podClaim(w.Pod, podClaim)
			}
		}
	}
	return nil, fmt.Errorf("ResourceClaim %s does not exist", key)
}

// podClaim returns nil without an error when the pod's status says that no claim is
// needed.
func (c *Cluster) podClaim(pod *corev1.Pod, podClaim corev1.PodResourceClaim) (*resourceapi.ResourceClaim, error) {
	if status := claimStatus(pod, podClaim.Name); status != nil && status.ResourceClaimName == nil {
		return nil, nil
	}
	key := c.podClaimKey(pod, podClaim)
	claim := c.claims[key]
	switch {
	case claim != nil && podClaim.ResourceClaimTemplateName != nil && !ownedBy(claim, pod):
		return nil, fmt.Errorf("ResourceClaim %s was not made for this pod", key)
	case claim != nil:
		return claim, nil
	case podClaim.ResourceClaimTemplateName == nil:
		return nil, fmt.Errorf("ResourceClaim %s does not exist", key)
	}
	templateKey := types.NamespacedName{Namespace: pod.Namespace, Name: *podClaim.ResourceClaimTemplateName}
	template := c.templates[templateKey]
	if template == nil {
		return nil, fmt.Errorf("ResourceClaimTemplate %s does not exist", templateKey)
	}
	return generate(template, pod, podClaim.Name), nil
}

// podClaimKey names the claim behind an entry of the pod's spec: the one named
// there, the one that the pod's status names, one that was made for the pod, or the
// one that will be.
func (c *Cluster) podClaimKey(pod *corev1.Pod, podClaim corev1.PodResourceClaim) types.NamespacedName {
	key := types.NamespacedName{Namespace: pod.Namespace}
	if podClaim.ResourceClaimName != nil {
		key.Name = *podClaim.ResourceClaimName
		return key
	}
	if status := claimStatus(pod, podClaim.Name); status != nil && status.ResourceClaimName != nil {
		key.Name = *status.ResourceClaimName
		return key
	}
	if made, found := c.made[madeFor{keyOf(pod), podClaim.Name}]; found && ownedBy(c.claims[made], pod) {
		return made
	}
	key.Name = generatedName(pod, podClaim.Name)
	return key
}

// madeFor is the entry of a pod's spec that a claim was made for.
type madeFor struct {
	pod      types.NamespacedName
	podClaim string
}

func (c *Cluster) indexOwner(claim *resourceapi.ResourceClaim) {
	podClaim, annotated := claim.Annotations[resourceapi.PodResourceClaimAnnotation]
	owner := metav1.GetControllerOf(claim)
	if annotated && owner != nil && owner.Kind == "Pod" {
		c.made[madeFor{types.NamespacedName{Namespace: claim.Namespace, Name: owner.Name}, podClaim}] = keyOf(claim)
	}
}

func claimStatus(pod *corev1.Pod, podClaimName string) *corev1.PodResourceClaimStatus {
	for i := range pod.Status.ResourceClaimStatuses {
		if pod.Status.ResourceClaimStatuses[i].Name == podClaimName {
			return &pod.Status.ResourceClaimStatuses[i]
		}
	}
	return nil
}

// ownedBy is as strict as the input allows: pods in files often have no UID.
func ownedBy(claim *resourceapi.ResourceClaim, pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(claim)
	return owner != nil && owner.Kind == "Pod" && owner.Name == pod.Name &&
		(pod.UID == "" || owner.UID == podUID(pod))
}

// NameInPod is how the pod's spec calls a claim; for a claim by itself, its own name.
func (c *Cluster) NameInPod(w Workload, claim *resourceapi.ResourceClaim) string {
	if w.Pod != nil {
		for _, podClaim := range w.Pod.Spec.ResourceClaims {
			if c.podClaimKey(w.Pod, podClaim) == keyOf(claim) {
				return podClaim.Name
			}
		}
	}
	return claim.Name
}
