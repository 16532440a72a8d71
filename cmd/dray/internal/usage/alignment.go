// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
)

// demand is a number of devices of some classes that a claim or a template requires. They must
// agree in an attribute, if one is given.
type demand struct {
	classes   []string
	attribute resourceapi.FullyQualifiedName // empty if they need not agree
	devices   int64
}

// align marks free devices as stranded that no claim or template could get. That is so if all of
// them require several devices that agree in an attribute, and no node has enough free ones.
// Devices that no claim or template requests stay free.
func align(c *cluster.Cluster, devices []Device) {
	demands := demandsOf(c)
	if !slices.ContainsFunc(demands, func(d demand) bool { return d.attribute != "" }) {
		return
	}
	classes := newClasses(c)
	beside := make(map[string]int64) // number of free devices of a node with the same value, by demand
	key := func(i int, node, value string) string { return fmt.Sprintf("%d\x00%s\x00%s", i, node, value) }
	wants := make([][]int, len(devices)) // indexes of demands that a free device may serve
	for at := range devices {
		d := &devices[at]
		if d.Is != Free {
			continue
		}
		for i, of := range demands {
			if !slices.ContainsFunc(of.classes, func(class string) bool { return classes.has(class, d) }) {
				continue
			}
			wants[at] = append(wants[at], i)
			value, found := valueOf(d, of.attribute)
			if of.attribute == "" || !found || isList(d, of.attribute) {
				continue
			}
			for _, node := range d.Pool.Nodes {
				beside[key(i, node, value)]++
			}
		}
	}
	for at := range devices {
		d := &devices[at]
		var best int64
		enough := len(wants[at]) == 0
		for _, i := range wants[at] {
			of := demands[i]
			if of.attribute == "" || isList(d, of.attribute) {
				enough = true // with a list of values, agreement is not checked
				break
			}
			value, found := valueOf(d, of.attribute)
			for _, node := range d.Pool.Nodes {
				if found {
					best = max(best, beside[key(i, node, value)])
					enough = enough || beside[key(i, node, value)] >= of.devices
				}
			}
		}
		if !enough {
			d.Is, d.Cause = Stranded, Alignment
			d.Detail = "what asks for it wants " + wanted(demands, wants[at]) + fmt.Sprintf(", of which %d are free together", best)
		}
	}
}

// wanted returns a phrase with the demands.
func wanted(demands []demand, of []int) string {
	var texts []string
	for _, i := range of {
		text := fmt.Sprintf("%d devices of one %s", demands[i].devices, demands[i].attribute)
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, " or ")
}

// valueOf returns the value of an attribute as text. A name without a domain has that of the
// driver.
func valueOf(d *Device, name resourceapi.FullyQualifiedName) (string, bool) {
	value, found := attribute(d, name)
	return attributeText(value), found
}

// isList reports whether an attribute is a list. A list agrees with another one if they share a
// value.
func isList(d *Device, name resourceapi.FullyQualifiedName) bool {
	value, _ := attribute(d, name)
	return len(value.IntValues)+len(value.BoolValues)+len(value.StringValues)+len(value.VersionValues) > 0
}

// attribute returns the attribute with a name. In a device, a name without a domain has that of the
// driver.
func attribute(d *Device, name resourceapi.FullyQualifiedName) (resourceapi.DeviceAttribute, bool) {
	domain := d.Pool.Driver + "/"
	for _, text := range []string{string(name), strings.TrimPrefix(string(name), domain), domain + string(name)} {
		if value, found := d.State.Attributes[resourceapi.QualifiedName(text)]; found {
			return value, true
		}
	}
	return resourceapi.DeviceAttribute{}, false
}

func attributeText(value resourceapi.DeviceAttribute) string {
	switch {
	case value.StringValue != nil:
		return *value.StringValue
	case value.VersionValue != nil:
		return *value.VersionValue
	case value.IntValue != nil:
		return fmt.Sprint(*value.IntValue)
	case value.BoolValue != nil:
		return fmt.Sprint(*value.BoolValue)
	}
	var all []string
	for _, each := range value.IntValues {
		all = append(all, fmt.Sprint(each))
	}
	for _, each := range value.BoolValues {
		all = append(all, fmt.Sprint(each))
	}
	return strings.Join(slices.Concat(all, value.StringValues, value.VersionValues), ",")
}

// demandsOf returns the distinct demands of claims and templates.
func demandsOf(c *cluster.Cluster) []demand {
	var demands []demand
	seen := make(map[string]bool)
	for spec := range c.ClaimSpecs() {
		for _, d := range demandsOfClaim(spec) {
			key := fmt.Sprint(d)
			if !seen[key] {
				seen[key] = true
				demands = append(demands, d)
			}
		}
	}
	return demands
}

// demandsOfClaim returns a demand for each constraint, and for each request without a constraint.
func demandsOfClaim(spec *resourceapi.ResourceClaimSpec) []demand {
	var demands []demand
	constrained := make(map[string]bool)
	for _, constraint := range spec.Devices.Constraints {
		if constraint.MatchAttribute == nil {
			continue
		}
		d := demand{attribute: *constraint.MatchAttribute}
		for i := range spec.Devices.Requests {
			request := &spec.Devices.Requests[i]
			if len(constraint.Requests) > 0 && !slices.ContainsFunc(constraint.Requests, func(name string) bool {
				name, _, _ = strings.Cut(name, "/")
				return name == request.Name
			}) {
				continue
			}
			constrained[request.Name] = true
			classes, count := classesAndCount(request)
			d.classes, d.devices = append(d.classes, classes...), d.devices+count
		}
		demands = append(demands, d)
	}
	for i := range spec.Devices.Requests {
		if request := &spec.Devices.Requests[i]; !constrained[request.Name] {
			classes, count := classesAndCount(request)
			demands = append(demands, demand{classes: classes, devices: count})
		}
	}
	return demands
}

// classesAndCount returns the classes that a request permits, and its minimum number of devices.
func classesAndCount(request *resourceapi.DeviceRequest) (classes []string, least int64) {
	if exactly := request.Exactly; exactly != nil {
		return []string{exactly.DeviceClassName}, max(1, exactly.Count)
	}
	for i := range request.FirstAvailable {
		sub := &request.FirstAvailable[i]
		classes = append(classes, sub.DeviceClassName)
		if n := max(1, sub.Count); least == 0 || n < least {
			least = n
		}
	}
	return classes, least
}
