package allocator_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/clustergen"
	"github.com/dray-project/dray/internal/oracle"
	"github.com/dray-project/dray/pools"
)

// A fleet of copies of a generated node, with different devices in use, gets the same
// answers whether or not answers are remembered from node to node.
func TestKnownAnswersAreRight(t *testing.T) {
	known, asked := 0, 0
	for seed := range uint64(600) {
		c := clustergen.Generate(seed, clustergen.Default)
		nodes := multiply(c, rand.New(rand.NewPCG(seed, 0)))
		ledger := pools.NewLedger(pools.Build(c.Features.PoolGates(), c.Slices))
		for _, claim := range c.Allocated {
			if err := ledger.Allocate(claim); err != nil {
				t.Fatal(err)
			}
		}
		options := allocator.Options{Features: c.Features}
		remembering := allocator.New(options)
		for range 2 {
			for _, node := range nodes {
				outcome, answer := render(remembering, c, ledger, node)
				_, fresh := render(allocator.New(options), c, ledger, node)
				if diff := oracle.Equal(fresh.Results, answer.Results); diff != "" || (fresh.Err == nil) != (answer.Err == nil) || fresh.Explanation != answer.Explanation {
					t.Fatalf("seed %d, node %s: got %+v, without memory %+v: %s", seed, node.Name, answer, fresh, diff)
				}
				asked++
				if outcome != nil && outcome.Stats().Steps == 0 {
					known++
				}
			}
		}
	}
	if known < asked/10 {
		t.Errorf("only %d of %d answers were known: the test shows little", known, asked)
	}
}

func render(a *allocator.Allocator, c *alloctest.Case, ledger *pools.Ledger, node *corev1.Node) (allocator.Outcome, alloctest.Outcome) {
	problem, err := a.Compile(c.Claims, allocator.ClassMap(c.Classes...))
	if err != nil {
		return nil, alloctest.Outcome{Err: err}
	}
	outcome, err := problem.Allocate(context.Background(), ledger.Snapshot(), ledger.Usage(), node)
	switch answer := outcome.(type) {
	case *allocator.Assignment:
		return outcome, alloctest.Outcome{Results: answer.Results()}
	case *allocator.Unsatisfiable:
		return outcome, alloctest.Outcome{Explanation: answer.Explain().Text()}
	}
	return outcome, alloctest.Outcome{Err: err}
}

// multiply adds copies of the case's node with its local pools, some of their devices
// in use.
func multiply(c *alloctest.Case, random *rand.Rand) []*corev1.Node {
	nodes := append([]*corev1.Node{}, c.Nodes...)
	original := append([]*resourceapi.ResourceSlice{}, c.Slices...)
	for n := range 6 {
		name := fmt.Sprintf("copy-%d", n)
		node := c.Nodes[0].DeepCopy()
		node.Name = name
		nodes = append(nodes, node)
		holder := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "copies", Name: name}}
		holder.Status.Allocation = &resourceapi.AllocationResult{}
		for _, slice := range original {
			if ptr.Deref(slice.Spec.NodeName, "") != c.Nodes[0].Name {
				continue
			}
			copied := slice.DeepCopy()
			copied.Name += "-" + name
			copied.Spec.NodeName = &name
			copied.Spec.Pool.Name += "-" + name
			c.Slices = append(c.Slices, copied)
			for _, device := range copied.Spec.Devices {
				if random.IntN(4) == 0 && n%2 == 1 {
					holder.Status.Allocation.Devices.Results = append(holder.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
						Driver: copied.Spec.Driver, Pool: copied.Spec.Pool.Name, Device: device.Name,
					})
				}
			}
		}
		c.Allocated = append(c.Allocated, holder)
	}
	return nodes
}
