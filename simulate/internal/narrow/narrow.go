// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package narrow has requests get only devices with one value of an attribute.
package narrow

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/internal/index/shape"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

// Filter is that requests get only devices that have a value of an attribute, or a list with it.
type Filter struct {
	Attribute resourceapi.FullyQualifiedName
	// Requests are names of requests, or "request/subrequest". Empty are all.
	Requests []string
	// Value is a CEL literal, one of Literals.
	Value string
}

// Concerns reports whether a request, or "request/subrequest", is filtered.
func (f *Filter) Concerns(request string) bool {
	name, _, _ := strings.Cut(request, "/")
	return len(f.Requests) == 0 || slices.Contains(f.Requests, name) || slices.Contains(f.Requests, request)
}

// Passes reports whether a device has the value.
func (f *Filter) Passes(driver string, device *resourceapi.Device) bool {
	return slices.Contains(Literals(driver, device, f.Attribute), f.Value)
}

// selector holds for devices with the value, and fails for none.
func (f *Filter) selector() resourceapi.DeviceSelector {
	domain, id, _ := strings.Cut(string(f.Attribute), "/")
	attributes := "device.attributes[" + strconv.QuoteToASCII(domain) + "]"
	id = strconv.QuoteToASCII(id)
	expression := id + " in " + attributes + " && " + attributes + "[" + id + "].includes(" + f.Value + ")"
	return resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}
}

// Claim returns what a claim asks for with filters added to its requests, as selectors.
func Claim(asks *resourceapi.DeviceClaim, more extension.Claim, filters []Filter) (*resourceapi.DeviceClaim, extension.Claim) {
	devices := asks.DeepCopy()
	for _, f := range filters {
		selector := f.selector()
		more = f.extended(more, selector)
		for i := range devices.Requests {
			r := &devices.Requests[i]
			if r.Exactly != nil && f.Concerns(r.Name) {
				r.Exactly.Selectors = append(r.Exactly.Selectors, selector)
			}
			for j := range r.FirstAvailable {
				if sub := &r.FirstAvailable[j]; f.Concerns(r.Name + "/" + sub.Name) {
					sub.Selectors = append(sub.Selectors, selector)
				}
			}
		}
	}
	return devices, more
}

// extended adds the filter to the classes that may serve requests besides their own.
func (f *Filter) extended(more extension.Claim, selector resourceapi.DeviceSelector) extension.Claim {
	more.Requests = maps.Clone(more.Requests)
	for name, request := range more.Requests {
		if !f.Concerns(name) {
			continue
		}
		request.Classes = slices.Clone(request.Classes)
		for i := range request.Classes {
			request.Classes[i].Selectors = append(slices.Clip(request.Classes[i].Selectors), selector)
		}
		more.Requests[name] = request
	}
	return more
}

// Literals are the values that a device has of an attribute, as CEL literals. A value that is not known is none.
func Literals(driver string, device *resourceapi.Device, name resourceapi.FullyQualifiedName) []string {
	a, found := onenode.AttributeOf(driver, device, name)
	if !found || shape.Unknown(&a) {
		return nil
	}
	version := func(text string) string { return "semver(" + strconv.QuoteToASCII(text) + ")" }
	var list []string
	list = appendLiterals(list, a.StringValue, a.StringValues, strconv.QuoteToASCII)
	list = appendLiterals(list, a.IntValue, a.IntValues, func(n int64) string { return strconv.FormatInt(n, 10) })
	list = appendLiterals(list, a.BoolValue, a.BoolValues, strconv.FormatBool)
	return appendLiterals(list, a.VersionValue, a.VersionValues, version)
}

func appendLiterals[T any](to []string, one *T, several []T, literal func(T) string) []string {
	if one != nil {
		to = append(to, literal(*one))
	}
	for _, value := range several {
		to = append(to, literal(value))
	}
	return to
}
