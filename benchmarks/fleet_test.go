package benchmarks

import (
	"context"
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

// ask answers for one node: whether there is an allocation, and if so a function that
// gives it.
type ask func(node *corev1.Node) (results func() []resourceapi.AllocationResult, err error)

// implementation takes a cluster and returns what it does for a new pod, which in turn
// returns what it does for each node.
type implementation struct {
	name string
	// results is set if the benchmark includes building them, as upstream's API does.
	results bool
	prepare func(c *alloctest.Case) (pod func() (ask, error), err error)
}

var implementations = []implementation{
	{"upstream", true, structuredAsk(upstream.NewAllocator)},
	{"dray-structured", true, structuredAsk(dray.NewAllocator)},
	{"dray-results", true, nativeAsk},
	{"dray", false, nativeAsk},
}

func structuredAsk(newAllocator peer.NewAllocator) func(c *alloctest.Case) (func() (ask, error), error) {
	return func(c *alloctest.Case) (func() (ask, error), error) {
		programs := cel.NewCache(10, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
		state := peer.State(c)
		return func() (ask, error) {
			a, err := newAllocator(context.Background(), upstream.Features(c.Features), state, peer.Classes(c.Classes), c.Slices, programs)
			if err != nil {
				return nil, err
			}
			return func(node *corev1.Node) (func() []resourceapi.AllocationResult, error) {
				results, err := a.Allocate(context.Background(), node, c.Claims)
				if results == nil {
					return nil, err
				}
				return func() []resourceapi.AllocationResult { return results }, err
			}, nil
		}, nil
	}
}

func nativeAsk(c *alloctest.Case) (func() (ask, error), error) {
	ledger := pools.NewLedger(pools.Build(c.Features.PoolGates(), c.Slices))
	for _, claim := range c.Allocated {
		if err := ledger.Allocate(claim); err != nil {
			return nil, err
		}
	}
	a, classes := allocator.New(allocator.Options{Features: c.Features}), allocator.ClassMap(c.Classes...)
	return func() (ask, error) {
		problem, err := a.Compile(c.Claims, classes)
		if err != nil {
			return nil, err
		}
		return func(node *corev1.Node) (func() []resourceapi.AllocationResult, error) {
			outcome, err := problem.Allocate(context.Background(), ledger.Snapshot(), ledger.Usage(), node)
			if assignment, ok := outcome.(*allocator.Assignment); ok {
				return assignment.Results, err
			}
			return nil, err
		}, nil
	}, nil
}

func (impl *implementation) run(b *testing.B, a ask, node *corev1.Node) {
	results, err := a(node)
	if err != nil {
		b.Fatal(err)
	}
	if impl.results && results != nil {
		results()
	}
}

// BenchmarkFleet asks for one node after the other, as a scheduler's filter does.
func BenchmarkFleet(b *testing.B) {
	for _, w := range fleetWorkloads() {
		c := w.Build()
		pods := prepareAll(b, c)
		for i, impl := range implementations {
			a, err := pods[i]()
			if err != nil {
				b.Fatal(err)
			}
			b.Run(w.Path()+"/impl="+impl.name, func(b *testing.B) {
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					impl.run(b, a, c.Nodes[n%len(c.Nodes)])
					n++
				}
			})
		}
	}
}

// prepareAll checks that all implementations agree on every node.
func prepareAll(b *testing.B, c *alloctest.Case) []func() (ask, error) {
	b.Helper()
	pods := make([]func() (ask, error), len(implementations))
	answers := make([]map[string][]resourceapi.AllocationResult, len(implementations))
	for i, impl := range implementations {
		var err error
		if pods[i], err = impl.prepare(c); err != nil {
			b.Fatal(err)
		}
		a, err := pods[i]()
		if err != nil {
			b.Fatal(err)
		}
		answers[i] = make(map[string][]resourceapi.AllocationResult)
		for _, node := range c.Nodes {
			results, err := a(node)
			if err != nil {
				b.Fatal(err)
			}
			if results != nil {
				answers[i][node.Name] = results()
			}
			if diff := oracle.Equal(answers[0][node.Name], answers[i][node.Name]); diff != "" {
				b.Fatalf("%s on %s: %s", impl.name, node.Name, diff)
			}
		}
	}
	return pods
}
