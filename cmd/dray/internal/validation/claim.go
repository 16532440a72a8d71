// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func (c *Checker) claim(claim *resourceapi.DeviceClaim, path *field.Path) field.ErrorList {
	errs := c.requests(claim, path.Child("requests"))
	known := requestNames(claim.Requests)
	errs = append(errs, tooMany(path.Child("constraints"), len(claim.Constraints), resourceapi.DeviceConstraintsMaxSize)...)
	for i, constraint := range claim.Constraints {
		errs = append(errs, constraintIsValid(constraint, known, path.Child("constraints").Index(i))...)
	}
	return append(errs, claimConfigs(claim.Config, known, path.Child("config"))...)
}

func (c *Checker) requests(claim *resourceapi.DeviceClaim, path *field.Path) field.ErrorList {
	errs := tooMany(path, len(claim.Requests), resourceapi.DeviceRequestsMaxSize)
	seen, compared := make(map[string]bool), comparedAttributes(claim.Constraints)
	for i := range claim.Requests {
		request := &claim.Requests[i]
		errs = append(errs, uniqueLabel(request.Name, seen, path.Index(i).Child("name"))...)
		errs = append(errs, c.request(request, compared, path.Index(i))...)
	}
	return errs
}

// comparedAttribute is an attribute that a constraint compares among devices of a request. The request of a constraint about
// all of them is empty.
type comparedAttribute struct {
	request string
	name    resourceapi.FullyQualifiedName
}

func comparedAttributes(constraints []resourceapi.DeviceConstraint) map[comparedAttribute]bool {
	compared := make(map[comparedAttribute]bool)
	for _, constraint := range constraints {
		name := ptr.Deref(constraint.MatchAttribute, ptr.Deref(constraint.DistinctAttribute, ""))
		if len(constraint.Requests) == 0 {
			compared[comparedAttribute{name: name}] = true
		}
		for _, request := range constraint.Requests {
			compared[comparedAttribute{request, name}] = true
		}
	}
	return compared
}

// requestNames returns the names that constraints and configs may refer to: requests, and
// subrequests as request/subrequest.
func requestNames(requests []resourceapi.DeviceRequest) map[string]bool {
	names := make(map[string]bool)
	for _, request := range requests {
		names[request.Name] = true
		for _, sub := range request.FirstAvailable {
			names[request.Name+"/"+sub.Name] = true
		}
	}
	return names
}

func constraintIsValid(constraint resourceapi.DeviceConstraint, known map[string]bool, path *field.Path) field.ErrorList {
	errs := references(constraint.Requests, known, path.Child("requests"))
	match, distinct := constraint.MatchAttribute, constraint.DistinctAttribute
	switch {
	case match != nil: // the API server ignores distinctAttribute then, and so does allocation
		return append(errs, fullyQualifiedName(string(*match), path.Child("matchAttribute"))...)
	case distinct != nil:
		return append(errs, fullyQualifiedName(string(*distinct), path.Child("distinctAttribute"))...)
	}
	return append(errs, field.Required(path, "must set exactly one of matchAttribute and distinctAttribute"))
}

func references(requests []string, known map[string]bool, path *field.Path) field.ErrorList {
	if errs := tooMany(path, len(requests), resourceapi.DeviceRequestsMaxSize); len(errs) > 0 {
		return errs
	}
	var errs field.ErrorList
	for i, name := range requests {
		errs = append(errs, reference(name, known, path.Index(i))...)
	}
	return append(errs, repeated(requests, path)...)
}

func reference(name string, known map[string]bool, path *field.Path) field.ErrorList {
	if known[name] {
		return nil
	}
	return field.ErrorList{field.Invalid(path, shorten(name), "must be the name of a request in the claim, or "+subrequestHint(name))}
}

func subrequestHint(name string) string {
	if request, _, isSub := strings.Cut(name, "/"); isSub {
		return "of a subrequest of " + shorten(request)
	}
	return "request/subrequest"
}
