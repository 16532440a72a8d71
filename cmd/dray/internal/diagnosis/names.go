// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/cmd/dray/internal/spelling"
)

// kind is "attribute" or "capacity".
type kind string

const (
	attributes kind = "attribute"
	capacities kind = "capacity"
)

// names returns the fully qualified names of a device's attributes or capacities.
func (k kind) names(driver string, object *resourceapi.Device) []cel.Name {
	var names []cel.Name
	add := func(name resourceapi.QualifiedName) {
		qualified := cel.Name{Domain: driver, ID: string(name)}
		if d, i, ok := strings.Cut(string(name), "/"); ok {
			qualified = cel.Name{Domain: d, ID: i}
		}
		names = append(names, qualified)
	}
	if k == attributes {
		for name := range object.Attributes {
			add(name)
		}
		return names
	}
	for name := range object.Capacity {
		add(name)
	}
	return names
}

// value returns the value of a device's attribute or capacity.
func (k kind) value(one device, name cel.Name) (string, bool) {
	spellings := []resourceapi.QualifiedName{resourceapi.QualifiedName(name.String())}
	if name.Domain == one.pool.Driver {
		spellings = append(spellings, resourceapi.QualifiedName(name.ID))
	}
	for _, spelt := range spellings {
		if k == attributes {
			if attribute, found := one.Object.Attributes[spelt]; found {
				return attributeText(attribute), true
			}
		} else if capacity, found := one.Object.Capacity[spelt]; found {
			return capacity.Value.String(), true
		}
	}
	return missingValue, false
}

// attributeText returns the value of an attribute as written in an expression. Strings and versions
// are quoted.
func attributeText(a resourceapi.DeviceAttribute) string {
	switch {
	case a.StringValue != nil:
		return strconv.Quote(*a.StringValue)
	case a.VersionValue != nil:
		return "version " + *a.VersionValue
	case a.StringValues != nil:
		return fmt.Sprintf("%q", a.StringValues)
	}
	return AttributeValue(a)
}

// AttributeValue returns the value of an attribute as text.
func AttributeValue(a resourceapi.DeviceAttribute) string {
	switch {
	case a.IntValue != nil:
		return strconv.FormatInt(*a.IntValue, 10)
	case a.BoolValue != nil:
		return strconv.FormatBool(*a.BoolValue)
	case a.StringValue != nil:
		return *a.StringValue
	case a.VersionValue != nil:
		return *a.VersionValue
	case a.IntValues != nil:
		return fmt.Sprint(a.IntValues)
	case a.BoolValues != nil:
		return fmt.Sprint(a.BoolValues)
	case a.StringValues != nil:
		return fmt.Sprint(a.StringValues)
	}
	return fmt.Sprint(a.VersionValues)
}

// missingValue is the value of devices without the attribute or capacity.
const missingValue = "missing"

// domains has the names that devices have, by domain.
type domains map[string]map[string]bool

// missing returns a sentence that no device of the cluster has an attribute or capacity, with
// similar names. It is empty if a device has it.
func (d *Diagnosis) missing(what kind, name cel.Name, driver string) string {
	published, known := d.published[what]
	if !known {
		published = domainsIn(d.cluster.Slices(), what)
		d.published[what] = published
	}
	return published.missing(what, name, driver)
}

func domainsIn(published []*resourceapi.ResourceSlice, what kind) domains {
	found := make(domains)
	for _, slice := range published {
		for i := range slice.Spec.Devices {
			for _, has := range what.names(slice.Spec.Driver, &slice.Spec.Devices[i]) {
				if found[has.Domain] == nil {
					found[has.Domain] = make(map[string]bool)
				}
				found[has.Domain][has.ID] = true
			}
		}
	}
	return found
}

func (d domains) missing(what kind, name cel.Name, driver string) string {
	switch {
	case d[name.Domain][name.ID]:
		return ""
	case d[name.Domain] == nil:
		return fmt.Sprintf("no device has any %s of domain %s%s", what, name.Domain, orElse("domains are", name.Domain, slices.Sorted(maps.Keys(d)), driver))
	}
	return fmt.Sprintf("no device has the %s %s%s", what, name, orElse("there is", name.ID, slices.Sorted(maps.Keys(d[name.Domain])), ""))
}

// orElse returns a phrase with similar names, or with all names if none is similar.
func orElse(intro, given string, names []string, first string) string {
	const few = 12
	if hint := spelling.DidYouMean(given, names); hint != "" {
		return ": " + hint
	}
	if len(names) == 0 {
		return ""
	}
	if i := slices.Index(names, first); i > 0 {
		names = append([]string{first}, slices.Delete(slices.Clone(names), i, i+1)...)
	}
	if len(names) > few {
		return fmt.Sprintf(": %s %s, … %d in all", intro, strings.Join(names[:few], ", "), len(names))
	}
	return fmt.Sprintf(": %s %s", intro, strings.Join(names, ", "))
}

// domain and id split a fully qualified name.
func domain(name string) string { before, _, _ := strings.Cut(name, "/"); return before }
func id(name string) string     { _, after, _ := strings.Cut(name, "/"); return after }
