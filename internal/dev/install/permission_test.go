// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

func TestCompare(t *testing.T) {
	allowed := Granted(
		rbacv1.PolicyRule{Verbs: []string{"list", "watch"}, APIGroups: []string{""}, Resources: []string{"pods"}},
		rbacv1.PolicyRule{Verbs: []string{"get", "update"}, APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{"ours"}},
	)
	lacking, idle := Compare(allowed, []Permission{
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
