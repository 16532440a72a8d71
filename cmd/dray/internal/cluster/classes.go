// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"iter"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
)

// nameClasses records the class of each allocated device, if a request permits several classes.
func nameClasses(claim *resourceapi.ResourceClaim, choices []allocator.Choice) {
	more, err := extension.Of(claim)
	if err != nil || !slices.ContainsFunc(choices, func(c allocator.Choice) bool { return len(more.Requests[c.Request].Classes) > 0 }) {
		return
	}
	names := make([]string, len(choices))
	for i, c := range choices {
		names[i] = c.Class
	}
	text, err := json.Marshal(names)
	if err != nil {
		panic(err) // strings can always be encoded
	}
	if claim.Annotations == nil {
		claim.Annotations = make(map[string]string)
	}
	claim.Annotations[extension.ClassesAnnotation] = string(text)
}

// HasClasses reports whether a request permits several classes.
func HasClasses(claim *resourceapi.ResourceClaim, request string) bool {
	more, err := extension.Of(claim)
	return err == nil && len(more.Requests[request].Classes) > 0
}

// ClassesOf returns the class of each result of a claim's allocation, or nil if none is recorded.
func ClassesOf(claim *resourceapi.ResourceClaim) []string {
	var names []string
	text, found := claim.Annotations[extension.ClassesAnnotation]
	if !found || json.Unmarshal([]byte(text), &names) != nil || len(names) != len(claim.Status.Allocation.Devices.Results) {
		return nil
	}
	return names
}

// ClassesOfDevice returns the classes whose selectors a device of the pool matches, in the order in
// which they were read.
func (c *Cluster) ClassesOfDevice(pool *PoolState, device *DeviceState) []string {
	var names []string
	for _, class := range c.objects.Classes {
		if !slices.ContainsFunc(class.Spec.Selectors, func(selector resourceapi.DeviceSelector) bool {
			return selector.CEL != nil && !c.Matches(selector.CEL.Expression, pool, device)
		}) {
			names = append(names, class.Name)
		}
	}
	return names
}

// ClaimSpecs returns the specs of all claims and templates.
func (c *Cluster) ClaimSpecs() iter.Seq[*resourceapi.ResourceClaimSpec] {
	return func(yield func(*resourceapi.ResourceClaimSpec) bool) {
		for _, key := range c.order {
			if claim := c.claims.Claim(key); claim != nil && !yield(&claim.Spec) {
				return
			}
		}
		for _, template := range c.objects.Templates {
			if !yield(&template.Spec.Spec) {
				return
			}
		}
	}
}
