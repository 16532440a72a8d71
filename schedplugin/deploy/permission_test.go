package deploy_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// permission is one thing that a rule allows, or that a request needs.
type permission struct {
	verb     string
	group    string
	resource string // with its subresource
	name     string // of the object; empty for any
}

func (p permission) String() string {
	return fmt.Sprintf("%s %s/%s %s", p.verb, p.group, p.resource, p.name)
}

// covers reports whether what p allows is all that other needs.
func (p permission) covers(other permission) bool {
	if p.name == "" {
		other.name = ""
	}
	return p == other
}

// granted are the permissions that rules consist of.
func granted(rules ...rbacv1.PolicyRule) []permission {
	var all []permission
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, verb := range rule.Verbs {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, name := range names {
						all = append(all, permission{verb, group, resource, name})
					}
				}
			}
		}
	}
	return all
}

// lacking are the needed permissions that are not among the granted, and idle the granted
// ones that cover none of the needed.
func compare(allowed, needed []permission) (lacking, idle []permission) {
	for _, p := range needed {
		if !slices.ContainsFunc(allowed, func(a permission) bool { return a.covers(p) }) {
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

func sorted(permissions []permission) []permission {
	slices.SortFunc(permissions, func(a, b permission) int { return cmp.Compare(a.String(), b.String()) })
	return permissions
}

func TestCompare(t *testing.T) {
	allowed := granted(
		rbacv1.PolicyRule{Verbs: []string{"list", "watch"}, APIGroups: []string{""}, Resources: []string{"pods"}},
		rbacv1.PolicyRule{Verbs: []string{"get", "update"}, APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{"ours"}},
	)
	lacking, idle := compare(allowed, []permission{
		{"list", "", "pods", ""},
		{"get", "coordination.k8s.io", "leases", "ours"},
		{"update", "coordination.k8s.io", "leases", "theirs"},
		{"delete", "", "pods", "any"},
	})
	if got, want := fmt.Sprint(lacking), "[delete /pods any update coordination.k8s.io/leases theirs]"; got != want {
		t.Errorf("lacking %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(idle), "[update coordination.k8s.io/leases ours watch /pods ]"; got != want {
		t.Errorf("idle %s, want %s", got, want)
	}
}
