// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package structured_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	upstream "k8s.io/dynamic-resource-allocation/structured"

	"github.com/dray-project/dray/allocator/structured"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
	"github.com/dray-project/dray/internal/dev/peer"
)

// The facade has the types of upstream's constructor.
var _ peer.NewAllocator = structured.NewAllocator

func TestSentinelIsUpstreams(t *testing.T) {
	if !errors.Is(structured.ErrFailedAllocationOnNode, upstream.ErrFailedAllocationOnNode) {
		t.Error("errors of one package are not recognised by users of the other")
	}
}

// One allocator serves many goroutines and nodes at once, as in a scheduler's filter
// phase, and answers as it does when asked alone.
func TestConcurrentUse(t *testing.T) {
	for seed := range uint64(40) {
		c := clustergen.Generate(seed, clustergen.Default)
		a, err := structured.NewAllocator(context.Background(), structured.Features(c.Features), peer.State(c),
			classes(c.Classes), c.Slices, nil)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for i := range c.Nodes {
			want = append(want, ask(a, c, i))
		}
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for i := range c.Nodes {
					if got := ask(a, c, i); got != want[i] {
						t.Errorf("seed %d, node %s: got\n%swant\n%s", seed, c.Nodes[i].Name, got, want[i])
					}
				}
			})
		}
		group.Wait()
	}
}

func ask(a structured.Allocator, c *alloctest.Case, node int) string {
	results, err := a.Allocate(context.Background(), c.Nodes[node], c.Claims)
	return alloctest.Render(c, alloctest.Outcome{
		Results: results, Err: err, NodeOnly: errors.Is(err, structured.ErrFailedAllocationOnNode),
	})
}

// The error of a cancelled call wraps the cause.
func TestCancellation(t *testing.T) {
	c := clustergen.Generate(1, clustergen.Default)
	a, err := structured.NewAllocator(context.Background(), structured.Features(c.Features), peer.State(c),
		classes(c.Classes), c.Slices, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := a.Allocate(ctx, c.Nodes[0], c.Claims); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
