// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// catalogue is instance types with eight GPUs each, no two types alike. What is asked
// fits on all of them, or on none.
func catalogue(tb testing.TB, instanceTypes int, fits bool) *alloctest.Case {
	c := *workload(tb, "unlike/nodes=1000")
	c.Nodes, c.Slices = c.Nodes[:instanceTypes:instanceTypes], c.Slices[:instanceTypes:instanceTypes]
	c.Allocated = nil
	if !fits {
		c.Claims = []*resourceapi.ResourceClaim{c.Claims[0].DeepCopy()}
		c.Claims[0].Spec.Devices.Requests[0].Exactly.Count = 9
	}
	return &c
}

// offered asks Karpenter about all instance types at once. There are no slices but those
// of the offer.
func offered(c *alloctest.Case, _ []*corev1.Node) (ask, error) {
	bare := *c
	bare.Slices = nil
	s, o := newSession(&bare, nil), newOffer(c)
	return func(ctx context.Context, claims []*resourceapi.ResourceClaim) (int, error) {
		result, err := s.allocator.Allocate(ctx, o, claims)
		switch {
		case err == nil:
			return len(result.InstanceTypes), nil
		case err.Error() != noInstanceType:
			return 0, err
		}
		return 0, nil
	}, nil
}

// offering are the implementations with Karpenter's own way to ask about instance types.
// To Dray they are nodes.
var offering = []implementation{
	{"karpenter", offered, false, allNodes},
	{"dray", openDray, true, allNodes},
}

func allNodes(nodes []*corev1.Node) []*corev1.Node { return nodes }

// TestInstanceTypes wants both to find the same devices on each instance type.
func TestInstanceTypes(t *testing.T) {
	c := catalogue(t, 100, true)
	bare := *c
	bare.Slices = nil
	s, o := newSession(&bare, nil), newOffer(c)
	result, err := s.allocator.Allocate(t.Context(), o, c.Claims)
	if err != nil {
		t.Fatal(err)
	}
	result.Allocation.Commit(t.Context())
	got := s.allocator.ResourceClaimAllocationMetadataForClaim(types.NamespacedName{Namespace: c.Claims[0].Namespace, Name: c.Claims[0].Name})
	problem, err := allocator.New(allocator.Options{Features: c.Features}).Compile(c.Claims, allocator.ClassMap(c.Classes...))
	if err != nil {
		t.Fatal(err)
	}
	ledger := mustLedger(t, c)
	for _, node := range c.Nodes {
		outcome, err := problem.Allocate(t.Context(), ledger.State(), node)
		if err != nil {
			t.Fatal(err)
		}
		if want := chosen(outcome); len(got.Devices[handle(node.Name)]) != 1 || !slices.Equal(s.taken(c.Claims, handle(node.Name)), want) {
			t.Errorf("%s: %v, not %v", node.Name, got.Devices[handle(node.Name)], want)
		}
	}
}

// BenchmarkInstanceTypes asks which of many instance types would do for a pod.
func BenchmarkInstanceTypes(b *testing.B) {
	for _, n := range []int{10, 100} {
		for _, fits := range []bool{true, false} {
			c := catalogue(b, n, fits)
			for _, pod := range kindsOfPods {
				for _, impl := range offering {
					name := fmt.Sprintf("fits=%t/types=%d/pod=%s/impl=%s", fits, n, pod, impl.name)
					b.Run(name, func(b *testing.B) { measure(b, &impl, pod, c) })
				}
			}
		}
	}
}
