// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	upstream "k8s.io/dynamic-resource-allocation/structured"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
)

// BenchmarkAllocate places one pod after the other, each on the first node that has devices for it, and ends the pod before.
// One operation is one pod, from its claims to their results and what is in use after it. benchstat -col /impl compares.
func BenchmarkAllocate(b *testing.B) {
	for _, size := range []struct{ claims, nodes int }{{1, 1}, {3, 1}, {1, 1000}} {
		b.Run(fmt.Sprintf("claims=%d/nodes=%d", size.claims, size.nodes), func(b *testing.B) {
			for _, impl := range []struct {
				name string
				open func(*testing.B, *benchCluster) placer
			}{{"upstream", openUpstream}, {"dray", openDray}} {
				b.Run("impl="+impl.name, func(b *testing.B) {
					cluster := newBenchCluster(size.claims, size.nodes)
					placePods(b, cluster, impl.open(b, cluster))
				})
			}
		})
	}
}

// benchCluster is nodes with eight GPUs each, of which the last one alone has any left.
type benchCluster struct {
	claims int // of a pod
	nodes  []*corev1.Node
	slices []*resourceapi.ResourceSlice
	used   []*resourceapi.ResourceClaim
}

func newBenchCluster(claims, nodes int) *benchCluster {
	c := &benchCluster{claims: claims}
	for n := range nodes {
		name := fmt.Sprintf("node-%d", n)
		c.nodes = append(c.nodes, node(name))
		c.slices = append(c.slices, gpus(name, 8, "H100"))
		for i := 0; i < 8 && n < nodes-1; i++ {
			c.used = append(c.used, holding(fmt.Sprintf("used-%d-%d", n, i), name, fmt.Sprintf("gpu-%d", i)))
		}
	}
	return c
}

// holding is a claim that has a device.
func holding(name, pool, device string) *resourceapi.ResourceClaim {
	c := claim(name, 1)
	c.UID = types.UID(name)
	c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "r0", Driver: "gpu.example.com", Pool: pool, Device: device},
	}}}
	return c
}

// pod makes the claims of the n-th pod.
func (c *benchCluster) pod(n int) (claims []*resourceapi.ResourceClaim) {
	for i := range c.claims {
		made := selecting(claim(fmt.Sprintf("pod-%d-%d", n, i), 1), `device.attributes["gpu.example.com"].model == "H100"`)
		made.UID = types.UID(made.Name)
		claims = append(claims, made)
	}
	return claims
}

// placer is an allocator with what is in use.
type placer interface {
	// place returns the results on the first node that has devices.
	place(ctx context.Context, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error)
	take(claim *resourceapi.ResourceClaim) error
	release(claim *resourceapi.ResourceClaim) error
}

var errFull = errors.New("no node has devices")

func placePods(b *testing.B, cluster *benchCluster, p placer) {
	var before []*resourceapi.ResourceClaim
	placeOne := func(n int) {
		pod := cluster.pod(n)
		results, err := p.place(b.Context(), pod)
		if err != nil {
			b.Fatal(err)
		}
		for i, claim := range pod {
			claim.Status.Allocation = &results[i]
			if err := p.take(claim); err != nil {
				b.Fatal(err)
			}
		}
		for _, claim := range before {
			if err := p.release(claim); err != nil {
				b.Fatal(err)
			}
		}
		before = pod
	}
	placeOne(0) // the index of a cluster that nobody has seen is another matter
	b.ReportAllocs()
	for n := 1; b.Loop(); n++ {
		placeOne(n)
	}
	b.ReportMetric(float64(b.N*cluster.claims)/b.Elapsed().Seconds(), "claims/s")
}

// drayPlacer is Dray's own API.
type drayPlacer struct {
	*allocator.Allocator
	*pools.Ledger
	nodes   []*corev1.Node
	classes allocator.Classes
}

func openDray(b *testing.B, c *benchCluster) placer {
	features := allocator.AllFeatures()
	p := &drayPlacer{
		allocator.New(allocator.Options{Features: features}), pools.NewLedger(pools.Build(features.PoolGates(), c.slices)), c.nodes, allocator.ClassMap(gpuClass),
	}
	for _, claim := range c.used {
		if err := p.Assume(claim); err != nil {
			b.Fatal(err)
		}
	}
	return p
}

func (p *drayPlacer) place(ctx context.Context, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	problem, err := p.Compile(claims, p.classes)
	if err != nil {
		return nil, err
	}
	answers, err := problem.Evaluate(ctx, p.State(), p.nodes, 1)
	if err != nil {
		return nil, err
	}
	for i := range p.nodes {
		if answers.Verdict(i) != allocator.Satisfiable {
			continue
		}
		outcome, err := answers.Outcome(i)
		if err != nil {
			return nil, err
		}
		return outcome.(*allocator.Assignment).Results(), nil
	}
	return nil, errFull
}

func (p *drayPlacer) take(claim *resourceapi.ResourceClaim) error    { return p.Assume(claim) }
func (p *drayPlacer) release(claim *resourceapi.ResourceClaim) error { return p.Forget(claim) }

// upstreamPlacer is k8s.io/dynamic-resource-allocation, used as kube-scheduler does: an allocator for each pod.
type upstreamPlacer struct {
	*benchCluster
	state    upstream.AllocatedState
	programs *cel.Cache
}

func openUpstream(_ *testing.B, c *benchCluster) placer {
	p := &upstreamPlacer{c, upstream.AllocatedState{
		AllocatedDevices: sets.New[upstream.DeviceID](), AllocatedSharedDeviceIDs: sets.New[upstream.SharedDeviceID](),
		AggregatedCapacity: upstream.NewConsumedCapacityCollection(),
	}, cel.NewCache(100, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})}
	for _, claim := range c.used {
		p.each(claim, func(id upstream.DeviceID) { p.state.AllocatedDevices.Insert(id) })
	}
	return p
}

func (p *upstreamPlacer) place(ctx context.Context, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	a, err := upstream.NewAllocator(ctx, upstream.Features(allocator.AllFeatures()), p.state, benchClasses{}, p.slices, p.programs)
	if err != nil {
		return nil, err
	}
	for _, node := range p.nodes {
		if results, err := a.Allocate(ctx, node, claims); results != nil || err != nil {
			return results, err
		}
	}
	return nil, errFull
}

func (p *upstreamPlacer) take(claim *resourceapi.ResourceClaim) error {
	p.each(claim, func(id upstream.DeviceID) { p.state.AllocatedDevices.Insert(id) })
	return nil
}

func (p *upstreamPlacer) release(claim *resourceapi.ResourceClaim) error {
	p.each(claim, func(id upstream.DeviceID) { p.state.AllocatedDevices.Delete(id) })
	return nil
}

func (p *upstreamPlacer) each(claim *resourceapi.ResourceClaim, visit func(upstream.DeviceID)) {
	for _, result := range claim.Status.Allocation.Devices.Results {
		visit(upstream.MakeDeviceID(result.Driver, result.Pool, result.Device))
	}
}

// benchClasses has the one class.
type benchClasses struct{}

func (benchClasses) List() ([]*resourceapi.DeviceClass, error) {
	return []*resourceapi.DeviceClass{gpuClass}, nil
}

func (benchClasses) Get(string) (*resourceapi.DeviceClass, error) { return gpuClass, nil }
