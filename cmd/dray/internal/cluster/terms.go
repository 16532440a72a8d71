// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
)

// Terms has the requirements of a request, or of an alternative of a prioritized list, for single
// devices.
type Terms struct {
	// Request is "request" or "request/subrequest".
	Request  string
	Capacity *resourceapi.CapacityRequirements
	// Offers are the permitted classes, in the order of preference.
	Offers []Offer
}

// Offer is a permitted class of a request, with the selectors for its devices.
type Offer struct {
	Class     string
	Selectors []resourceapi.DeviceSelector
}

// TermsOf returns the terms of a claim's requests. It ignores annotations of the claim that are
// invalid: allocating the claim returns that error.
func TermsOf(claim *resourceapi.ResourceClaim) []Terms {
	more, _ := extension.Of(claim)
	var list []Terms
	add := func(name, class string, selectors []resourceapi.DeviceSelector, capacity *resourceapi.CapacityRequirements) {
		terms := Terms{Request: name, Capacity: capacity, Offers: []Offer{{class, selectors}}}
		for _, other := range more.Requests[name].Classes {
			terms.Offers = append(terms.Offers, Offer{other.DeviceClassName, other.Selectors})
		}
		list = append(list, terms)
	}
	for _, r := range claim.Spec.Devices.Requests {
		if exactly := r.Exactly; exactly != nil {
			add(r.Name, exactly.DeviceClassName, exactly.Selectors, exactly.Capacity)
		}
		for _, sub := range r.FirstAvailable {
			add(r.Name+"/"+sub.Name, sub.DeviceClassName, sub.Selectors, sub.Capacity)
		}
	}
	return list
}

// compile compiles the claims of a workload, with their extensions in annotations. Allocated claims
// are not allocated again.
func (c *Cluster) compile(claims []*resourceapi.ResourceClaim) (*allocator.Problem, error) {
	extensions := make([]extension.Claim, len(claims))
	for i, claim := range claims {
		var err error
		if extensions[i], err = extension.Of(claim); err != nil {
			return nil, fmt.Errorf("claim %s: %w", keyOf(claim), err)
		}
	}
	return c.allocator.CompileExtended(claims, extensions, c.classes)
}
