// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"regexp"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func subdomain(name string, path *field.Path) field.ErrorList {
	return format(name, path, validation.IsDNS1123Subdomain)
}

func label(name string, path *field.Path) field.ErrorList {
	return format(name, path, validation.IsDNS1123Label)
}

func format(name string, path *field.Path, check func(string) []string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	// for long values, the checks have a later and less clear message
	if len(name) > validation.DNS1123SubdomainMaxLength {
		return field.ErrorList{field.TooLong(path, nil, validation.DNS1123SubdomainMaxLength)}
	}
	var errs field.ErrorList
	for _, message := range check(name) {
		errs = append(errs, field.Invalid(path, name, message))
	}
	return errs
}

func uniqueLabel(name string, seen map[string]bool, path *field.Path) field.ErrorList {
	if name != "" && seen[name] {
		return field.ErrorList{field.Duplicate(path, shorten(name))}
	}
	seen[name] = true
	return label(name, path)
}

func driverName(name string, path *field.Path) field.ErrorList {
	if len(name) > resourceapi.DriverNameMaxLength {
		return field.ErrorList{field.TooLong(path, nil, resourceapi.DriverNameMaxLength)}
	}
	return format(strings.ToLower(name), path, validation.IsDNS1123Subdomain)
}

// poolName validates subdomains that are separated by slashes.
func poolName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	if len(name) > resourceapi.PoolNameMaxLength {
		return field.ErrorList{field.TooLong(path, nil, resourceapi.PoolNameMaxLength)}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" {
			return field.ErrorList{field.Invalid(path, name, "must be DNS subdomains separated by slashes")}
		}
		if errs := subdomain(part, path); len(errs) > 0 {
			return errs
		}
	}
	return nil
}

// qualifiedName validates "id" or "domain/id". The API server takes all names with two slashes.
func qualifiedName(name string, path *field.Path) field.ErrorList {
	domain, id, qualified := strings.Cut(name, "/")
	switch {
	case !qualified:
		return cIdentifier(name, path)
	case strings.Contains(id, "/"):
		return nil
	}
	return append(driverName(domain, path), cIdentifier(id, path)...)
}

// fullyQualifiedName validates "domain/id", where the domain must not have capitals.
func fullyQualifiedName(name string, path *field.Path) field.ErrorList {
	domain, id, qualified := strings.Cut(name, "/")
	switch {
	case name == "":
		return field.ErrorList{field.Required(path, "")}
	case !qualified:
		return field.ErrorList{field.Invalid(path, shorten(name), "must include a domain, as in dra.example.com/name")}
	case strings.ToLower(domain) != domain && !strings.Contains(id, "/"):
		return append(subdomain(domain, path), cIdentifier(id, path)...)
	}
	return qualifiedName(name, path)
}

func cIdentifier(id string, path *field.Path) field.ErrorList {
	switch {
	case id == "":
		return field.ErrorList{field.Required(path, "name must not be empty")}
	case len(id) > resourceapi.DeviceMaxIDLength:
		return field.ErrorList{field.TooLong(path, nil, resourceapi.DeviceMaxIDLength)}
	case !identifier.MatchString(id):
		return field.ErrorList{field.Invalid(path, id, "must be a C identifier")}
	}
	return nil
}
