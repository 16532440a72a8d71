// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/cmd/dray/internal/spelling"
	"github.com/dray-project/dray/podclaims"
)

// claimsOf returns the current claims of a workload, in the order of the pod's spec. It generates
// claims from templates if they do not exist, but does not keep them. The error says what is
// missing.
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
		// a pod may name one claim twice
		if claim != nil && !slices.Contains(claims, claim) {
			claims = append(claims, claim)
		}
	}
	return claims, nil
}

// claimByKey also returns claims that will be generated for pending pods.
func (c *Cluster) claimByKey(key types.NamespacedName) (*resourceapi.ResourceClaim, error) {
	if claim := c.claims.Claim(key); claim != nil {
		return claim, nil
	}
	for _, w := range c.Workloads() {
		if w.Pod == nil {
			continue
		}
		for _, podClaim := range w.Pod.Spec.ResourceClaims {
			if c.claims.Key(w.Pod, podClaim) == key {
				return c.podClaim(w.Pod, podClaim)
			}
		}
	}
	return nil, fmt.Errorf("ResourceClaim %s does not exist%s", key, elsewhere(key, c.order))
}

// podClaim returns nil without an error when the pod's status says that no claim is needed.
func (c *Cluster) podClaim(pod *corev1.Pod, podClaim corev1.PodResourceClaim) (*resourceapi.ResourceClaim, error) {
	claim, err := c.claims.Resolve(pod, podClaim)
	var missing *podclaims.Missing
	if !errors.As(err, &missing) {
		return claim, err
	}
	if missing.Kind == "ResourceClaim" {
		return nil, fmt.Errorf("%w%s%s", err, elsewhere(missing.Key, c.order), c.isTemplate(missing.Key))
	}
	return nil, fmt.Errorf("%w%s%s", err, elsewhere(missing.Key, c.templates), c.madeFor(missing.Key))
}

// madeFor returns a hint at an object of an unknown kind whose controller makes the template.
func (c *Cluster) madeFor(template types.NamespacedName) string {
	for _, object := range c.objects.Prototype.Referents {
		if object.GetNamespace() == template.Namespace && asksForTemplate(object.Object, template.Name) {
			return fmt.Sprintf("; the controller of %s %s makes it: read it from the cluster, too", object.GetKind(), object.GetName())
		}
	}
	return ""
}

// asksForTemplate reports whether a value has a field resourceClaimTemplate with the name, as
// NVIDIA's ComputeDomain has for the template that is to be made.
func asksForTemplate(value any, name string) bool {
	switch value := value.(type) {
	case map[string]any:
		if template, isObject := value["resourceClaimTemplate"].(map[string]any); isObject && template["name"] == name {
			return true
		}
		for _, member := range value {
			if asksForTemplate(member, name) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, func(item any) bool { return asksForTemplate(item, name) })
	}
	return false
}

// Source returns which template a claim of the workload is made from, or "".
func (c *Cluster) Source(w Workload, claim *resourceapi.ResourceClaim) string {
	if w.Pod == nil {
		return ""
	}
	if isExtendedClaim(claim) {
		return "the extended resources of " + extendedUsers(w.Pod, claim)
	}
	if name := c.TemplateOf(w, claim); name != "" {
		return "ResourceClaimTemplate " + name
	}
	return ""
}

// TemplateOf returns the name of the template that a claim of the workload is made from, or "".
func (c *Cluster) TemplateOf(w Workload, claim *resourceapi.ResourceClaim) string {
	if w.Pod != nil {
		for _, podClaim := range w.Pod.Spec.ResourceClaims {
			if podClaim.ResourceClaimTemplateName != nil && c.claims.Key(w.Pod, podClaim) == keyOf(claim) {
				return *podClaim.ResourceClaimTemplateName
			}
		}
	}
	return ""
}

// Template returns the template that a claim of the workload is made from, or nil.
func (c *Cluster) Template(w Workload, claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaimTemplate {
	name := c.TemplateOf(w, claim)
	if name == "" {
		return nil
	}
	return c.claims.Template(types.NamespacedName{Namespace: claim.Namespace, Name: name})
}

// elsewhere returns a hint about a name that does not exist: it exists in another namespace, or
// with another spelling.
func elsewhere(wanted types.NamespacedName, known []types.NamespacedName) string {
	var namespaces, names []string
	for _, key := range known {
		switch {
		case key.Name == wanted.Name:
			namespaces = append(namespaces, key.Namespace)
		case key.Namespace == wanted.Namespace:
			names = append(names, key.Name)
		}
	}
	slices.Sort(namespaces)
	slices.Sort(names)
	if len(namespaces) > 0 {
		return ": there is one of that name in namespace " + strings.Join(namespaces, ", ") + ", but a pod can only use those of its own"
	}
	if hint := spelling.DidYouMean(wanted.Name, names); hint != "" {
		return ": " + hint
	}
	return listed(wanted.Namespace, names)
}

// listed returns a phrase with the names in a namespace.
func listed(namespace string, names []string) string {
	const few = 5
	switch {
	case len(names) == 0:
		return ": namespace " + namespace + " has none"
	case len(names) > few:
		return fmt.Sprintf(": namespace %s has %s, … %d in all", namespace, strings.Join(names[:few], ", "), len(names))
	}
	return fmt.Sprintf(": namespace %s has %s", namespace, strings.Join(names, ", "))
}

// isTemplate returns a hint if the name of a claim is that of a template.
func (c *Cluster) isTemplate(key types.NamespacedName) string {
	if c.claims.Template(key) == nil {
		return ""
	}
	return "; there is a ResourceClaimTemplate of that name, which is what resourceClaimTemplateName refers to"
}

// NameInPod returns the name of a claim in the pod's spec. For a claim without a pod, it is the
// claim's own name.
func (c *Cluster) NameInPod(w Workload, claim *resourceapi.ResourceClaim) string {
	if w.Pod != nil {
		for _, podClaim := range w.Pod.Spec.ResourceClaims {
			if c.claims.Key(w.Pod, podClaim) == keyOf(claim) {
				return podClaim.Name
			}
		}
	}
	return claim.Name
}
