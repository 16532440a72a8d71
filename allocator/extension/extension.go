// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package extension is what claims can ask for beyond resource.k8s.io/v1.
//
// The types are handed to allocator.CompileExtended. Programs that read manifests find them in an
// annotation: see Of and Annotate. kube-scheduler does not know them, and an allocation by it, or by
// an API that is handed ResourceClaims alone, does not honour them.
//
// docs/decisions/0023, 0026, 0032, 0033 and 0034 say which of several solutions is meant.
package extension

import (
	"encoding/json"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Annotation of a ResourceClaim, or of the metadata in a ResourceClaimTemplate, holds a Claim as JSON, that of a PodGroup a Group.
const Annotation = "dray-project.github.io/extension"

// ClassesAnnotation of an allocated ResourceClaim with a request that several classes may serve is a list of
// strings as JSON: the class by which each device serves the claim, in the order of
// status.allocation.devices.results. It is for those who read it. Nothing depends on it.
const ClassesAnnotation = "dray-project.github.io/device-classes"

// Claim is what a ResourceClaim asks for beyond its spec. The zero value asks for nothing.
type Claim struct {
	// Requests are by the name of a request, or "request/subrequest". Names that the claim does
	// not have are an error.
	Requests map[string]Request `json:"requests,omitempty"`
	// MatchAcross are attributes of which all devices have the same value, over all claims
	// that are allocated together and name the attribute here. It is a matchAttribute for the
	// requests of several claims.
	MatchAcross []resourceapi.FullyQualifiedName `json:"matchAcross,omitempty"`
	// MatchCapacities are capacities of which all devices of the claim have the same value.
	MatchCapacities []CapacityMatch `json:"matchCapacities,omitempty"`
	// MaxDistinct limit how many different values of an attribute the devices of the claim have.
	MaxDistinct []DistinctLimit `json:"maxDistinct,omitempty"`
	// Preferred are matches that the devices should have, the most important first. Those of an
	// earlier claim are more important than those of a later one. No match is missed to have a
	// less important one, and none that can be had is missed for the sake of anything else: not
	// of an alternative before, nor of more devices. See docs/decisions/0023.
	Preferred []Preference `json:"preferred,omitempty"`
}

// CapacityMatch is a matchAttribute for what devices have of a capacity. Values are compared as numbers: 1Gi
// and 1024Mi are the same. What is in use does not count.
type CapacityMatch struct {
	// Capacity is "domain/name". A capacity that a device has without a domain has that of its driver.
	Capacity resourceapi.FullyQualifiedName `json:"capacity"`
	// Requests are as those of a Preference.
	Requests []string `json:"requests,omitempty"`
}

// DistinctLimit is that devices have no more than so many different values of an attribute. Each of them must have the
// attribute, and a list counts with all its elements. One at most is a matchAttribute, but for lists.
type DistinctLimit struct {
	Attribute resourceapi.FullyQualifiedName `json:"attribute"`
	// Most is how many values there may be. It is above zero.
	Most int64 `json:"most"`
	// Requests are as those of a Preference.
	Requests []string `json:"requests,omitempty"`
}

// Preference is a matchAttribute that may be missed. It does not go with allocationMode All.
type Preference struct {
	MatchAttribute resourceapi.FullyQualifiedName `json:"matchAttribute"`
	// Requests are the names of requests that it covers, or "request/subrequest". Empty for all of
	// the claim. Names that the claim does not have are an error.
	Requests []string `json:"requests,omitempty"`
	// Across has it cover all claims that are allocated together and have the same preference
	// with Across, as with MatchAcross. Its place is that in the first of these claims. There are
	// no Requests then.
	Across bool `json:"across,omitempty"`
}

// MatchesMaxSize is how many preferences, how many matches of capacities, and how many limits a claim may have: as
// many as constraints.
const MatchesMaxSize = resourceapi.DeviceConstraintsMaxSize

// Request is what a request or a subrequest asks for beyond its fields. Neither part goes with
// allocationMode All.
type Request struct {
	// Classes may serve the request besides its own class, which comes first. Each device is
	// that of the first class that has it, and devices may be of different classes.
	Classes []Class `json:"classes,omitempty"`
	// UpTo is how many devices the request may have, count being how many it must have. It
	// has as many as possible, or with Totals, as few: devices of other requests give way to that, alternatives
	// and the numbers of requests before it do not. Zero stands for count, or with Totals
	// for as many as a claim may have; less than count is an error.
	UpTo int64 `json:"upTo,omitempty"`
	// Totals are amounts that the devices of the request have together, by the name of a
	// capacity. Each gives what is taken of it: of a device that is not shared, all it has. A share
	// takes what is still missing, in whole steps and as far as it is free, if the policy of the capacity
	// has a default of zero and a range from zero on in steps, and the request does not say in
	// capacity.requests what a share takes. Totals are above zero.
	Totals map[resourceapi.QualifiedName]resource.Quantity `json:"totals,omitempty"`
}

// Class is one more class that may serve a request.
type Class struct {
	DeviceClassName string `json:"deviceClassName"`
	// Selectors stand in place of those of the request for devices of this class: devices of
	// another driver have attributes of other names.
	Selectors []resourceapi.DeviceSelector `json:"selectors,omitempty"`
}

// IsZero reports whether nothing is asked for.
func (c Claim) IsZero() bool {
	return len(c.Requests)+len(c.MatchAcross)+len(c.MatchCapacities)+len(c.MaxDistinct)+len(c.Preferred) == 0
}

// Of reads the annotation of a claim. A claim without one has the zero value. The error says that
// the annotation is not a Claim; unknown fields are errors.
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
