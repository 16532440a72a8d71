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
	"github.com/dray-project/dray/benchmarks"
	"github.com/dray-project/dray/pools"
	resourceapi "k8s.io/api/resource/v1"
)

// workload finds a cluster by its path.
func workload(tb testing.TB, path string) *alloctest.Case {
	tb.Helper()
	for _, w := range benchmarks.Workloads() {
		if w.Path() == path {
			return w.Build()
		}
	}
	tb.Fatalf("there is no workload %s", path)
	return nil
}

// BenchmarkOpen reads slices and allocated claims, before any pod. Karpenter does it in
// each scheduling loop; for Dray it is the first time, after which changes are applied.
func BenchmarkOpen(b *testing.B) {
	for _, path := range []string{"fleet/state=used/nodes=1000", "fleet/state=used/nodes=5000"} {
		c := workload(b, path)
		for _, impl := range implementations {
			b.Run(path+"/impl="+impl.name, func(b *testing.B) {
				m := newMeter(b)
				for m.loop() {
					mustOpen(b, &impl, c, nil)
				}
				m.report("node", len(c.Nodes))
			})
		}
	}
}

// placement is where a pod went, and what it got.
type placement struct {
	node    int
	devices []device
}

// loop is a simulation in which pods are placed one after the other, each on the first
// node that has devices for it. It returns nil once there is none.
type loop func(ctx context.Context, claims []*resourceapi.ResourceClaim) (*placement, error)

var loops = []struct {
	name string
	open func(c *alloctest.Case) (loop, error)
}{
	{"karpenter", karpenterLoop},
	{"dray", drayLoop},
}

func karpenterLoop(c *alloctest.Case) (loop, error) {
	s, nodes := newSession(c, published(c.Slices)), existingNodes(c.Nodes)
	return func(ctx context.Context, claims []*resourceapi.ResourceClaim) (*placement, error) {
		for i, node := range nodes {
			result, err := s.allocator.Allocate(ctx, node, claims)
			switch {
			case err == nil:
				result.Allocation.Commit(ctx)
				return &placement{node: i, devices: s.taken(claims, node.InstanceTypes()[0])}, nil
			case err.Error() != noInstanceType:
				return nil, err
			}
		}
		return nil, nil
	}, nil
}

func drayLoop(c *alloctest.Case) (loop, error) {
	ledger, err := ledgerOf(c)
	if err != nil {
		return nil, err
	}
	simulation := ledger.Branch()
	a, classes := allocator.New(allocator.Options{Features: c.Features}), allocator.ClassMap(c.Classes...)
	return func(ctx context.Context, claims []*resourceapi.ResourceClaim) (*placement, error) {
		problem, err := a.Compile(claims, classes)
		if err != nil {
			return nil, err
		}
		for i, node := range c.Nodes {
			outcome, err := problem.Allocate(ctx, simulation.State(), node)
			if err != nil {
				return nil, err
			}
			if devices := chosen(outcome); devices != nil {
				return &placement{node: i, devices: devices}, take(simulation, claims, outcome.(*allocator.Assignment))
			}
		}
		return nil, nil
	}, nil
}

func take(ledger *pools.Ledger, claims []*resourceapi.ResourceClaim, a *allocator.Assignment) error {
	for i, result := range a.Results() {
		allocated := *claims[i]
		allocated.Status.Allocation = &result
		if err := ledger.Assume(&allocated); err != nil {
			return err
		}
	}
	return nil
}

const (
	packedNodes = 25
	packedPods  = 8*packedNodes + 1 // the last one finds no devices
)

// packing is a cluster that pods fill up, and their claims.
func packing(tb testing.TB) (*alloctest.Case, [][]*resourceapi.ResourceClaim) {
	c := *workload(tb, "fleet/state=empty/nodes=1000")
	c.Nodes, c.Slices = c.Nodes[:packedNodes:packedNodes], c.Slices[:packedNodes:packedNodes]
	var claims [][]*resourceapi.ResourceClaim
	for n := range packedPods {
		claims = append(claims, benchmarks.EqualPod.Claims(&c, n))
	}
	return &c, claims
}

// pack places pods and returns where those went that found a place.
func pack(ctx context.Context, place loop, claims [][]*resourceapi.ResourceClaim) ([]placement, error) {
	var placed []placement
	for _, pod := range claims {
		p, err := place(ctx, pod)
		if err != nil {
			return nil, err
		}
		if p != nil {
			placed = append(placed, *p)
		}
	}
	return placed, nil
}

// TestPacking wants pods to go to the same places.
func TestPacking(t *testing.T) {
	c, claims := packing(t)
	var all [][]placement
	for _, l := range loops {
		place, err := l.open(c)
		if err != nil {
			t.Fatal(err)
		}
		placed, err := pack(t.Context(), place, claims)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, placed)
	}
	if len(all[0]) != packedPods-1 {
		t.Errorf("%d of %d pods found devices", len(all[0]), packedPods)
	}
	if !slices.EqualFunc(all[0], all[1], samePlace) {
		t.Errorf("placements differ:\n%v\n%v", all[0], all[1])
	}
}

func samePlace(a, b placement) bool { return a.node == b.node && slices.Equal(a.devices, b.devices) }

// BenchmarkPacking fills a small cluster pod by pod, as a simulation does that commits
// what it decides. One operation is all pods, from reading the cluster on.
func BenchmarkPacking(b *testing.B) {
	c, claims := packing(b)
	for _, l := range loops {
		b.Run(fmt.Sprintf("nodes=%d/pods=%d/impl=%s", packedNodes, packedPods, l.name), func(b *testing.B) {
			m := newMeter(b)
			for m.loop() {
				place, err := l.open(c)
				if err != nil {
					b.Fatal(err)
				}
				if placed, err := pack(b.Context(), place, claims); err != nil || len(placed) != packedPods-1 {
					b.Fatalf("%d pods placed: %v", len(placed), err)
				}
			}
			m.report("pod", packedPods)
		})
	}
}
