// Package extension is what claims can ask for beyond resource.k8s.io/v1.
//
// The types are handed to allocator.CompileExtended. Programs that read manifests find them in an
// annotation: see Of and Annotate. kube-scheduler does not know them, and an allocation by it, or by
// an API that is handed ResourceClaims alone, does not honour them.
//
// docs/decisions/0026, 0033 and 0034 say which of several solutions is meant.
package extension

import (
	"encoding/json"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Annotation of a ResourceClaim, or of the metadata in a ResourceClaimTemplate, holds a Claim as JSON.
const Annotation = "dray-project.github.io/extension"

// Claim is what a ResourceClaim asks for beyond its spec. The zero value asks for nothing.
type Claim struct {
	// Requests are by the name of a request, or "request/subrequest". Names that the claim does
	// not have are an error.
	Requests map[string]Request `json:"requests,omitempty"`
	// MatchAcross are attributes of which all devices have the same value, over all claims
	// that are allocated together and name the attribute here. It is a matchAttribute for the
	// requests of several claims.
	MatchAcross []resourceapi.FullyQualifiedName `json:"matchAcross,omitempty"`
}

// Request is what a request or a subrequest asks for beyond its fields. Neither part goes with
// allocationMode All.
type Request struct {
	// Classes may serve the request besides its own class, which comes first. Each device is
	// that of the first class that has it, and devices may be of different classes.
	Classes []Class `json:"classes,omitempty"`
	// UpTo is how many devices the request may have, count being how many it must have. It
	// has as many as possible, or with Totals, as few. Zero stands for count, or with Totals
	// for as many as a claim may have; less than count is an error.
	UpTo int64 `json:"upTo,omitempty"`
	// Totals are amounts that the devices of the request have together, by the name of a
	// capacity. Each gives what is taken of it: of a device that is not shared, all it has.
	// Totals are above zero.
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
func (c Claim) IsZero() bool { return len(c.Requests) == 0 && len(c.MatchAcross) == 0 }

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
