// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package narrow restricts requests to devices with certain values of an attribute.
package narrow

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/internal/index/shape"
)

// Filter restricts requests by the values of an attribute of devices.
type Filter struct {
	Attribute resourceapi.FullyQualifiedName
	// Requests are names of requests, or "request/subrequest". If it is empty, all are restricted.
	Requests []string
	// Values are CEL literals, as of Literals. A device passes if it has all of them, alone or in a list. If
	// Only is set, it passes if it has some of them and no others. No device passes if there are none.
	Values []string
	Only   bool
}

// Concerns reports whether a request, or "request/subrequest", is restricted.
func (f *Filter) Concerns(request string) bool { return extension.Covers(f.Requests, request) }

// Passes reports whether a device passes.
func (f *Filter) Passes(driver string, device *resourceapi.Device) bool {
	has, wanted := Literals(driver, device, f.Attribute), f.Values
	if f.Only {
		has, wanted = wanted, has
	}
	return len(wanted) > 0 && !slices.ContainsFunc(wanted, func(v string) bool { return !slices.Contains(has, v) })
}

// selector returns a selector for devices that pass. It does not fail on any device.
func (f *Filter) selector() resourceapi.DeviceSelector {
	domain, id, _ := strings.Cut(string(f.Attribute), "/")
	attributes, id := "device.attributes["+strconv.QuoteToASCII(domain)+"]", strconv.QuoteToASCII(id)
	attribute := attributes + "[" + id + "]"
	expression := id + " in " + attributes
	switch {
	case len(f.Values) == 0:
		expression = "false"
	case f.Only:
		expression += " && (type(" + attribute + ") == list ? " + attribute + " : [" + attribute + "]).all(v, v in [" + strings.Join(f.Values, ", ") + "])"
	default:
		for _, value := range f.Values {
			expression += " && " + attribute + ".includes(" + value + ")"
		}
	}
	return resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}
}

// Claim returns the spec and annotation of a claim with filters added to the requests, as selectors.
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

// extended adds the filter to the alternative classes of requests.
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

// Literals returns the values of a device's attribute as CEL literals, none if the value is unknown.
func Literals(driver string, device *resourceapi.Device, name resourceapi.FullyQualifiedName) []string {
	a, found := shape.Published(driver, device.Attributes, name)
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
