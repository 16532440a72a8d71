package benchmarks

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	upstream "k8s.io/dynamic-resource-allocation/structured"

	"github.com/dray-project/dray/allocator"
	dray "github.com/dray-project/dray/allocator/structured"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/oracle"
	"github.com/dray-project/dray/internal/peer"
	"github.com/dray-project/dray/pools"
)

// ask answers for one node: results, nil if there are none.
type ask func(node *corev1.Node) ([]resourceapi.AllocationResult, error)

// implementation prepares what it keeps per pod, and returns what it does per node.
type implementation struct {
	name    string
	prepare func(c *alloctest.Case) (ask, error)
}

var implementations = []implementation{
	{"upstream", structuredAsk(upstream.NewAllocator)},
	{"dray-structured", structuredAsk(dray.NewAllocator)},
	{"dray", nativeAsk},
}

func structuredAsk(newAllocator peer.NewAllocator) func(c *alloctest.Case) (ask, error) {
	return func(c *alloctest.Case) (ask, error) {
		programs := cel.NewCache(10, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
		a, err := newAllocator(context.Background(), upstream.Features(c.Features), peer.State(c), peer.Classes(c.Classes), c.Slices, programs)
		if err != nil {
			return nil, err
		}
		return func(node *corev1.Node) ([]resourceapi.AllocationResult, error) {
			return a.Allocate(context.Background(), node, c.Claims)
		}, nil
	}
}

func nativeAsk(c *alloctest.Case) (ask, error) {
	ledger := pools.NewLedger(pools.Build(c.Features.PoolGates(), c.Slices))
	for _, claim := range c.Allocated {
		if err := ledger.Allocate(claim); err != nil {
			return nil, err
		}
	}
	problem, err := allocator.New(allocator.Options{Features: c.Features}).Compile(c.Claims, allocator.ClassMap(c.Classes...))
	if err != nil {
		return nil, err
	}
	return func(node *corev1.Node) ([]resourceapi.AllocationResult, error) {
		outcome, err := problem.Allocate(context.Background(), ledger.Snapshot(), ledger.Usage(), node)
		if assignment, ok := outcome.(*allocator.Assignment); ok {
			return assignment.Results(), err
		}
		return nil, err
	}, nil
}

// BenchmarkFleet asks for one node after the other, as a scheduler's filter does.
func BenchmarkFleet(b *testing.B) {
	for _, state := range []struct {
		name  string
		used  int
		model string
	}{
		{"empty", 0, "H100"},
		{"used", 7, "H100"},
		{"nothing-matches", 0, "B200"},
	} {
		c := fleet(1000, state.used, state.model)
		asks := prepareAll(b, c)
		for i, impl := range implementations {
			b.Run(fmt.Sprintf("state=%s/nodes=%d/impl=%s", state.name, len(c.Nodes), impl.name), func(b *testing.B) {
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					if _, err := asks[i](c.Nodes[n%len(c.Nodes)]); err != nil {
						b.Fatal(err)
					}
					n++
				}
			})
		}
	}
}

// prepareAll checks that all implementations agree on every node.
func prepareAll(b *testing.B, c *alloctest.Case) []ask {
	b.Helper()
	asks := make([]ask, len(implementations))
	for i, impl := range implementations {
		var err error
		if asks[i], err = impl.prepare(c); err != nil {
			b.Fatal(err)
		}
	}
	for _, node := range c.Nodes {
		want, err := asks[0](node)
		if err != nil {
			b.Fatal(err)
		}
		for i := range asks[1:] {
			got, err := asks[i+1](node)
			if err != nil {
				b.Fatal(err)
			}
			if diff := oracle.Equal(want, got); diff != "" {
				b.Fatalf("%s on %s: %s", implementations[i+1].name, node.Name, diff)
			}
		}
	}
	return asks
}
