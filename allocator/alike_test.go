// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator"
)

// Answers are equivalent exactly if their explanations are equal apart from names.
func TestAlike(t *testing.T) {
	ledger := clusterOf(gpus("a", 1, "H100"), gpus("b", 1, "H100"), gpus("c", 3, "H100"))
	problem := compile(allocator.Options{}, claim("c", 4))
	ask := func(node *corev1.Node) *allocator.Unsatisfiable {
		outcome, err := problem.Allocate(context.Background(), ledger.State(), node)
		if err != nil {
			t.Fatal(err)
		}
		return outcome.(*allocator.Unsatisfiable)
	}
	a, b, c := ask(node("a")), ask(node("b")), ask(node("c"))
	renamed := strings.NewReplacer("node b", "node a", "/b", "/a").Replace(b.Explain().Text())
	if a.Alike() != b.Alike() || a.Explain().Text() != renamed {
		t.Errorf("nodes a and b are not alike: %s; %s", a, b)
	}
	found, err := problem.Feasible(context.Background(), ledger.State(), node("b"))
	if err != nil || found.Alike() != a.Alike() {
		t.Errorf("node b is not alike to itself (%v)", err)
	}
	if a.Alike() == c.Alike() || a.Alike() != ask(node("a")).Alike() {
		t.Errorf("node c is like a, or a is not like itself: %s; %s", a, c)
	}
}
