// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Permission is one thing that a rule allows, or that a request needs.
type Permission struct {
	Verb     string
	Group    string
	Resource string // with its subresource
	Name     string // of the object; empty for any
}

// String is for people.
func (p Permission) String() string {
	return fmt.Sprintf("%s %s/%s %s", p.Verb, p.Group, p.Resource, p.Name)
}

// covers reports whether what p allows is all that other needs.
func (p Permission) covers(other Permission) bool {
	if p.Name == "" {
		other.Name = ""
	}
	return p == other
}

// Granted are the permissions that rules consist of.
func Granted(rules ...rbacv1.PolicyRule) []Permission {
	var all []Permission
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, verb := range rule.Verbs {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, name := range names {
						all = append(all, Permission{verb, group, resource, name})
					}
				}
			}
		}
	}
	return all
}

// Compare finds what is wrong with a role. Lacking are the needed permissions that are not among
// the allowed, and idle the allowed ones that cover none of the needed.
func Compare(allowed, needed []Permission) (lacking, idle []Permission) {
	for _, p := range needed {
		if !slices.ContainsFunc(allowed, func(a Permission) bool { return a.covers(p) }) {
			lacking = append(lacking, p)
		}
	}
	for _, a := range allowed {
		if !slices.ContainsFunc(needed, a.covers) {
			idle = append(idle, a)
		}
	}
	return sorted(lacking), sorted(idle)
}

func sorted(permissions []Permission) []Permission {
	slices.SortFunc(permissions, func(a, b Permission) int { return cmp.Compare(a.String(), b.String()) })
	return permissions
}
