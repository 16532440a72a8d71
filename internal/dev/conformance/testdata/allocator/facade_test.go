// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package facade runs the tests of upstream's allocator on Dray's facade. It is
// compiled below upstream's module path, which is what admits it to the table of cases.
package facade

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	upstream "k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/dynamic-resource-allocation/structured/internal"
	"k8s.io/dynamic-resource-allocation/structured/internal/allocatortesting"

	"github.com/dray-project/dray/allocator/structured"
)

// pair answers as Dray does, and asks upstream's allocator the same. Upstream's table
// compares the texts of errors. Whether only a text differs is decided here, on the
// answers themselves.
type pair struct {
	dray  structured.Allocator
	other upstream.Allocator
}

func newPair(
	ctx context.Context,
	features upstream.Features,
	state upstream.AllocatedState,
	classes upstream.DeviceClassLister,
	slices []*resourceapi.ResourceSlice,
	cache *cel.Cache,
) (allocatortesting.Allocator, error) {
	dray, err := structured.NewAllocator(ctx, features, state, classes, slices, cache)
	if err != nil {
		return nil, err
	}
	other, err := upstream.NewAllocator(ctx, features, state, classes, slices, cache)
	if err != nil {
		return nil, err
	}
	return &pair{dray: dray, other: other}, nil
}

func (p *pair) Allocate(ctx context.Context, node *corev1.Node, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	results, err := p.dray.Allocate(ctx, node, claims)
	if _, otherErr := p.other.Allocate(ctx, node, claims); err != nil && otherErr != nil && len(results) == 0 {
		fmt.Printf("CONFORMANCE refused by both: %q, upstream %q\n", err, otherErr)
	}
	return results, err
}

// Channel is part of the interface of upstream's tests. They use it for statistics only.
func (p *pair) Channel() internal.AllocatorChannel { return internal.Experimental }

func TestAllocator(t *testing.T) {
	allocatortesting.TestAllocator(t, internal.FeaturesAll, newPair)
}

func TestLexicographicalAllocator(t *testing.T) {
	allocatortesting.TestLexicographicalAllocator(t, internal.FeaturesAll, newPair)
}
