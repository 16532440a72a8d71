// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dray-project/dray/cmd/dray/internal/spelling"
	"github.com/dray-project/dray/devmgmt/validation"
)

// Expressions compiles CEL expressions. An error describes what is wrong, including an estimated
// cost above the API's limit.
type Expressions interface {
	CheckSelector(expression string) error
	CheckDerived(expression string) error
}

// Checker validates objects. It is safe for concurrent use if its Expressions are.
type Checker struct {
	expressions Expressions
	fractions   bool
}

// New returns a Checker that compiles expressions with e. fractions is the feature gate DRAFractionalCapacityRange.
func New(e Expressions, fractions bool) *Checker { return &Checker{e, fractions} }

// Object returns the errors of a v1 object after defaulting, one per field. Objects of other types
// have none.
func (c *Checker) Object(object runtime.Object) []error {
	found := c.check(object)
	errs := make([]error, len(found))
	for i, err := range found {
		errs[i] = err
	}
	return errs
}

func (c *Checker) check(object runtime.Object) field.ErrorList {
	spec := field.NewPath("spec")
	switch object := object.(type) {
	case *corev1.Node:
		return objectName(object)
	case *corev1.Pod:
		return append(objectName(object), podSpec(&object.Spec, spec)...)
	case *corev1.PodTemplate:
		return podSpec(&object.Template.Spec, field.NewPath("template", "spec"))
	case *resourceapi.ResourceClaim:
		errs := append(objectName(object), c.claim(&object.Spec.Devices, spec.Child("devices"))...)
		return append(errs, claimStatus(object, field.NewPath("status"))...)
	case *resourceapi.ResourceClaimTemplate:
		return append(objectName(object), c.claim(&object.Spec.Spec.Devices, spec.Child("spec", "devices"))...)
	case *resourceapi.DeviceClass:
		errs := append(objectName(object), c.selectors(object.Spec.Selectors, spec.Child("selectors"))...)
		errs = append(errs, extendedResourceName(object.Spec.ExtendedResourceName, spec.Child("extendedResourceName"))...)
		return append(errs, classConfigs(object.Spec.Config, spec.Child("config"))...)
	case *resourceapi.ResourceSlice:
		return append(objectName(object), c.slice(&object.Spec, spec)...)
	case *resourceapi.DeviceTaintRule:
		errs := append(objectName(object), taintSelector(object.Spec.DeviceSelector, spec.Child("deviceSelector"))...)
		return append(errs, taint(object.Spec.Taint, spec.Child("taint"))...)
	}
	return validation.Object(object)
}

func objectName(object metav1.Object) field.ErrorList {
	return subdomain(object.GetName(), field.NewPath("metadata", "name"))
}

func podClaims(claims []corev1.PodResourceClaim, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := make(map[string]bool)
	for i, claim := range claims {
		at := path.Index(i)
		errs = append(errs, uniqueLabel(claim.Name, seen, at.Child("name"))...)
		if (claim.ResourceClaimName == nil) == (claim.ResourceClaimTemplateName == nil) {
			errs = append(errs, field.Invalid(at, shorten(claim.Name), "must set exactly one of resourceClaimName and resourceClaimTemplateName"))
		}
		if claim.ResourceClaimName != nil {
			errs = append(errs, subdomain(*claim.ResourceClaimName, at.Child("resourceClaimName"))...)
		}
		if claim.ResourceClaimTemplateName != nil {
			errs = append(errs, subdomain(*claim.ResourceClaimTemplateName, at.Child("resourceClaimTemplateName"))...)
		}
	}
	return errs
}

// podSpec validates the parts of a pod that concern claims and resources.
func podSpec(pod *corev1.PodSpec, path *field.Path) field.ErrorList {
	errs := podClaims(pod.ResourceClaims, path.Child("resourceClaims"))
	known := make([]string, len(pod.ResourceClaims))
	for i, claim := range pod.ResourceClaims {
		known[i] = claim.Name
	}
	for i := range pod.InitContainers {
		errs = append(errs, container(&pod.InitContainers[i], known, path.Child("initContainers").Index(i))...)
	}
	for i := range pod.Containers {
		errs = append(errs, container(&pod.Containers[i], known, path.Child("containers").Index(i))...)
	}
	return errs
}

func container(c *corev1.Container, claims []string, path *field.Path) field.ErrorList {
	return append(containerClaims(c, claims, path), containerResources(&c.Resources, path.Child("resources"))...)
}

// containerClaims checks that a container uses only claims of its pod, each once: as a whole, or some of its requests.
func containerClaims(container *corev1.Container, known []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, claim := range container.Resources.Claims {
		at := path.Child("resources", "claims").Index(i)
		if slices.ContainsFunc(container.Resources.Claims[:i], func(other corev1.ResourceClaim) bool {
			return other.Name == claim.Name && (other.Request == claim.Request || other.Request == "" || claim.Request == "")
		}) {
			errs = append(errs, field.Duplicate(at, shorten(claim.Name)))
		}
		if claim.Request != "" {
			errs = append(errs, label(claim.Request, at.Child("request"))...)
		}
		if slices.Contains(known, claim.Name) {
			continue
		}
		detail := "must be one of the pod's spec.resourceClaims"
		if hint := spelling.DidYouMean(claim.Name, known); hint != "" {
			detail += ": " + hint
		}
		errs = append(errs, field.Invalid(at.Child("name"), shorten(claim.Name), detail))
	}
	return errs
}

// shorten shortens very long values in messages.
func shorten(text string) string {
	const limit = 80
	if len(text) <= limit {
		return text
	}
	return fmt.Sprintf("%.*s… (%d bytes)", limit, text, len(text))
}

func tooMany(path *field.Path, got, most int) field.ErrorList {
	if got <= most {
		return nil
	}
	return field.ErrorList{field.TooMany(path, got, most)}
}
