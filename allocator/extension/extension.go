// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package extension is what claims can ask for beyond resource.k8s.io/v1.
//
// Programs pass these types to allocator.CompileExtended. In manifests they are an annotation: see Of and
// Annotate. kube-scheduler ignores them, and so does any API that is only passed ResourceClaims.
//
// docs/decisions/0023, 0026, 0032, 0033 and 0034 say which of several solutions is chosen.
package extension

import (
	"encoding/json"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Annotation holds a Claim as JSON on a ResourceClaim or in the metadata of a ResourceClaimTemplate. On a
// PodGroup it holds a Group.
const Annotation = "dray-project.github.io/extension"

// ClassesAnnotation is set on an allocated ResourceClaim with a request that several classes may serve. It is a
// JSON list of strings: the class by which each device serves the claim, in the order of
// status.allocation.devices.results. It is information for people. No code depends on it.
const ClassesAnnotation = "dray-project.github.io/device-classes"

// Claim is what a ResourceClaim asks for beyond its spec. The zero value asks for nothing.
type Claim struct {
	// Requests are by the name of a request, or "request/subrequest". Names that the claim does not have are an
	// error.
	Requests map[string]Request `json:"requests,omitempty"`
	// MatchAcross are attributes in which all devices must agree, over all claims that are allocated together
	// and name the attribute here. It is a matchAttribute for the requests of several claims.
	MatchAcross []resourceapi.FullyQualifiedName `json:"matchAcross,omitempty"`
	// MatchCapacities are capacities in which all devices of the claim must agree.
	MatchCapacities []CapacityMatch `json:"matchCapacities,omitempty"`
	// MaxDistinct limits how many different values of an attribute the devices of the claim have.
	MaxDistinct []DistinctLimit `json:"maxDistinct,omitempty"`
	// Preferred are matches that the devices should satisfy, the most important first. Those of an earlier
	// claim are more important than those of a later one. No match is given up for a less important one. A
	// match that can be satisfied is not given up for an earlier alternative or more devices either. See
	// docs/decisions/0023.
	Preferred []Preference `json:"preferred,omitempty"`
}

// CapacityMatch is a matchAttribute for a capacity. The published values are compared as numbers: 1Gi equals
// 1024Mi. What is in use does not count.
type CapacityMatch struct {
	// Capacity is "domain/name". A capacity published without a domain has the name of the driver as its
	// domain.
	Capacity resourceapi.FullyQualifiedName `json:"capacity"`
	// Requests are as in Preference.
	Requests []string `json:"requests,omitempty"`
}

// DistinctLimit limits the number of different values of an attribute among the devices. Each device must have
// the attribute, and every element of a list counts. With a limit of one it is a matchAttribute, except for
// lists.
type DistinctLimit struct {
	Attribute resourceapi.FullyQualifiedName `json:"attribute"`
	// Most is the limit. It is above zero.
	Most int64 `json:"most"`
	// Requests are as in Preference.
	Requests []string `json:"requests,omitempty"`
}

// Preference is a matchAttribute that the allocation may miss. It cannot cover requests with allocationMode
// All.
type Preference struct {
	MatchAttribute resourceapi.FullyQualifiedName `json:"matchAttribute"`
	// Requests are the names of requests that it covers, or "request/subrequest". Empty means all requests of
	// the claim. Names that the claim does not have are an error.
	Requests []string `json:"requests,omitempty"`
	// Across makes it cover all claims that are allocated together and have the same preference with Across, as
	// MatchAcross does. Its rank is that in the first of these claims. Requests must be empty then.
	Across bool `json:"across,omitempty"`
}

// MatchesMaxSize bounds the number of preferences, of capacity matches, and of limits of a claim: each as many
// as constraints.
const MatchesMaxSize = resourceapi.DeviceConstraintsMaxSize

// Request is what a request or a subrequest asks for beyond its fields. It cannot be combined with
// allocationMode All.
type Request struct {
	// Classes may serve the request besides its own class, which comes first. A device serves by the first
	// class that it matches, and the devices may be of different classes.
	Classes []Class `json:"classes,omitempty"`
	// UpTo is how many devices the request may have; count is how many it must have. The request gets as many
	// as possible, or with Totals as few as possible. That outranks the choice of devices of other requests. It
	// ranks below alternatives, and below the numbers of earlier requests. Zero stands for count, or with
	// Totals for as many as a claim may have; less than count is an error.
	UpTo int64 `json:"upTo,omitempty"`
	// Totals are amounts of capacities, by name, that the devices of the request must have together. They are
	// above zero.
	//
	// A device that is not shareable contributes all it has. A share contributes what it consumes. It consumes
	// what is still missing, in whole steps and as far as it is free, on two conditions: the request policy of
	// the capacity has a default of zero and a range from zero in steps, and the request does not set the
	// capacity in capacity.requests.
	Totals map[resourceapi.QualifiedName]resource.Quantity `json:"totals,omitempty"`
}

// Class is one more class that may serve a request.
type Class struct {
	DeviceClassName string `json:"deviceClassName"`
	// Selectors replace those of the request for devices of this class: devices of another driver have
	// attributes of other names.
	Selectors []resourceapi.DeviceSelector `json:"selectors,omitempty"`
}

// IsZero reports whether nothing is asked for.
func (c Claim) IsZero() bool {
	return len(c.Requests)+len(c.MatchAcross)+len(c.MatchCapacities)+len(c.MaxDistinct)+len(c.Preferred) == 0
}

// Of reads the annotation of a claim. A claim without one has the zero value. The error says that the
// annotation is not a Claim; unknown fields are errors.
func Of(claim *resourceapi.ResourceClaim) (Claim, error) {
	var c Claim
	text, found := claim.Annotations[Annotation]
	if !found {
		return c, nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return Claim{}, fmt.Errorf("annotation %s: %w", Annotation, err)
	}
	if decoder.More() {
		return Claim{}, fmt.Errorf("annotation %s: there is something after the object", Annotation)
	}
	return c, nil
}

// Annotate writes the annotation of a claim, or removes it if nothing is asked for.
func (c Claim) Annotate(claim *resourceapi.ResourceClaim) error {
	if c.IsZero() {
		delete(claim.Annotations, Annotation)
		return nil
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // people read expressions
	if err := encoder.Encode(c); err != nil {
		return fmt.Errorf("annotation %s: %w", Annotation, err)
	}
	if claim.Annotations == nil {
		claim.Annotations = make(map[string]string)
	}
	claim.Annotations[Annotation] = strings.TrimSuffix(text.String(), "\n")
	return nil
}
