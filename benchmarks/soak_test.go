// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/dynamic-resource-allocation/structured"

	"github.com/dray-project/dray/allocator"
	dray "github.com/dray-project/dray/allocator/structured"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/oracle"
	"github.com/dray-project/dray/internal/dev/peer"
	"github.com/dray-project/dray/pools"
)

const (
	soakNodes = 100
	// soakRunning is how many claims hold a GPU at a time.
	soakRunning = 500
)

// soak is a cluster that never rests: claims come and go, slices are replaced, removed and
// added, expressions and serial numbers are new all the time.
type soak struct {
	testing.TB
	random    *rand.Rand
	c         *alloctest.Case
	classes   allocator.Classes
	allocator *allocator.Allocator
	builder   *pools.Builder
	ledger    *pools.Ledger
	state     upstream.AllocatedState
	running   []*resourceapi.ResourceClaim
	cycle     int
	allocated int
	compared  int
}

func newSoak(t testing.TB) *soak {
	c := fleet(soakNodes, func(cluster, int) {}).Case
	s := &soak{
		TB: t, c: c, random: rand.New(rand.NewPCG(1, 2)), classes: allocator.ClassMap(c.Classes...),
		allocator: allocator.New(allocator.Options{Features: c.Features}),
		builder:   pools.NewBuilder(c.Features.PoolGates()),
		state:     peer.State(c),
	}
	s.builder.Set(c.Slices...)
	s.ledger = pools.NewLedger(s.builder.Snapshot())
	return s
}

// step is one cycle: a claim is allocated, and once there are enough, one is released.
func (s *soak) step() {
	s.cycle++
	if s.cycle%20 == 0 {
		s.churn()
	}
	claim := s.claim()
	node := s.random.IntN(soakNodes)
	results := s.allocate(claim, node)
	if s.cycle%50 == 0 {
		s.compare(claim, node, results)
	}
	if results != nil {
		claim.Status.Allocation = &results[0]
		s.hold(claim)
	}
	if len(s.running) > soakRunning {
		s.release()
	}
}

// claim is a new one, every eighth time with an expression never seen before, of which
// some read the serial numbers.
func (s *soak) claim() *resourceapi.ResourceClaim {
	claim := gpuClaim("H100")
	claim.Name, claim.UID = fmt.Sprint("claim-", s.cycle), types.UID(fmt.Sprint("uid-", s.cycle))
	if s.cycle%8 == 0 {
		attribute := []string{"uuid", "brand"}[s.cycle/8%2]
		claim.Spec.Devices.Requests[0].Exactly.Selectors = selecting(
			fmt.Sprintf(`device.attributes["gpu.example.com"].%s.lowerAscii() != "value-%d"`, attribute, s.cycle))
	}
	return claim
}

func (s *soak) allocate(claim *resourceapi.ResourceClaim, node int) []resourceapi.AllocationResult {
	problem, err := s.allocator.Compile([]*resourceapi.ResourceClaim{claim}, s.classes)
	if err != nil {
		s.Fatal(err)
	}
	outcome, err := problem.Allocate(context.Background(), s.ledger.State(), s.c.Nodes[node])
	if err != nil {
		s.Fatal(err)
	}
	if assignment, ok := outcome.(*allocator.Assignment); ok {
		return assignment.Results()
	}
	return nil
}

// hold takes what a claim was given, by way of a branch now and then.
func (s *soak) hold(claim *resourceapi.ResourceClaim) {
	ledger := s.ledger
	if s.cycle%10 == 0 {
		ledger = s.ledger.Branch()
	}
	if err := ledger.Assume(claim); err != nil {
		s.Fatal(err)
	}
	if s.cycle%30 == 0 {
		ledger.Revert()
		return
	}
	if ledger != s.ledger {
		if err := ledger.Commit(); err != nil {
			s.Fatal(err)
		}
	}
	s.state.AllocatedDevices.Insert(deviceOf(claim))
	s.running = append(s.running, claim)
	s.allocated++
}

func deviceOf(claim *resourceapi.ResourceClaim) upstream.DeviceID {
	result := &claim.Status.Allocation.Devices.Results[0]
	return upstream.MakeDeviceID(result.Driver, result.Pool, result.Device)
}

// release ends a claim that started long ago.
func (s *soak) release() {
	i := s.random.IntN(len(s.running))
	claim := s.running[i]
	s.running[i] = s.running[len(s.running)-1]
	s.running[len(s.running)-1] = nil
	s.running = s.running[:len(s.running)-1]
	if err := s.ledger.Forget(claim); err != nil {
		s.Fatal(err)
	}
	s.state.AllocatedDevices.Delete(deviceOf(claim))
}

// churn replaces, removes or brings back the slice of a node.
func (s *soak) churn() {
	n := s.random.IntN(soakNodes)
	name := s.c.Nodes[n].Name
	at := -1
	for i, slice := range s.c.Slices {
		if *slice.Spec.NodeName == name {
			at = i
		}
	}
	switch {
	case at >= 0 && s.random.IntN(4) == 0:
		s.builder.Delete(s.c.Slices[at].Name)
		last := len(s.c.Slices) - 1
		s.c.Slices[at], s.c.Slices[last] = s.c.Slices[last], nil
		s.c.Slices = s.c.Slices[:last]
	case at >= 0:
		s.c.Slices[at] = s.slice(name)
		s.builder.Set(s.c.Slices[at])
	default:
		s.c.Slices = append(s.c.Slices, s.slice(name))
		s.builder.Set(s.c.Slices[len(s.c.Slices)-1])
	}
	s.ledger.Rebase(s.builder.Snapshot())
}

// slice has GPUs with new serial numbers.
func (s *soak) slice(node string) *resourceapi.ResourceSlice {
	slice := fleetSlice(node)
	slice.Spec.Pool.Generation = int64(s.cycle)
	for i := range slice.Spec.Devices {
		uuid := fmt.Sprintf("GPU-%d-%d", s.cycle, i)
		slice.Spec.Devices[i].Attributes["uuid"] = resourceapi.DeviceAttribute{StringValue: &uuid}
	}
	return slice
}

// fleetSlice is the slice of a node in a fleet.
func fleetSlice(node string) *resourceapi.ResourceSlice {
	c := newCluster("one node")
	var gpus []resourceapi.Device
	for i := range gpusPerNode {
		gpus = append(gpus, gpu(node, i, "H100"))
	}
	return c.pool(gpuDriver, node, gpus...)
}

// compare asks the facade the same, and for a cluster with a few nodes more, too.
func (s *soak) compare(claim *resourceapi.ResourceClaim, node int, want []resourceapi.AllocationResult) {
	list := s.c.Slices
	if s.cycle%200 == 0 {
		for i := range 5 {
			list = append(list[:len(list):len(list)], s.slice(fmt.Sprint("hypothetical-", i)))
		}
	}
	a, err := dray.NewAllocator(context.Background(), upstream.Features(s.c.Features), s.state, peer.Classes(s.c.Classes), list, nil)
	if err != nil {
		s.Fatal(err)
	}
	got, err := a.Allocate(context.Background(), s.c.Nodes[node], []*resourceapi.ResourceClaim{claim})
	if err != nil {
		s.Fatal(err)
	}
	if diff := oracle.Equal(want, got); diff != "" {
		s.Fatalf("cycle %d: the facade answers differently: %s", s.cycle, diff)
	}
	s.compared++
}

// drain releases all claims and checks that nothing is left in use.
func (s *soak) drain() {
	for len(s.running) > 0 {
		s.release()
	}
	state := s.ledger.State()
	for pool := range state.Snapshot().Pools() {
		if !state.Pool(pool).Idle() {
			s.Errorf("pool %s is in use after all claims were released", pool.ID())
		}
	}
	if s.allocated < s.cycle/2 || s.compared < s.cycle/100 {
		s.Errorf("only %d of %d claims were allocated, and %d answers compared", s.allocated, s.cycle, s.compared)
	}
}

// bounded reports whether memory stopped growing: the last figure may exceed that at
// half time by a tenth and what bounded caches may still take.
func bounded(heaps []int64) bool {
	half, last := heaps[len(heaps)/2-1], heaps[len(heaps)-1]
	return last <= half+half/10+2<<20
}

// TestSoak is the short form of BenchmarkSoak.
func TestSoak(t *testing.T) {
	const cycles, parts = 20_000, 4
	s := newSoak(t)
	var heaps []int64
	for range parts {
		for range cycles / parts {
			s.step()
		}
		heaps = append(heaps, heap())
		t.Logf("%d cycles: %s", s.cycle, mebibytes(heaps[len(heaps)-1]))
	}
	if !bounded(heaps) {
		t.Error("memory keeps growing")
	}
	s.drain()
}

// measureSoak does steps until b.N are done, and looks ten times at the memory in use. It must have stopped growing
// by half time, if there are enough steps to fill the caches.
func measureSoak(b *testing.B, step func(), done func() int, progress func() string) {
	b.Helper()
	const parts = 10
	var heaps []int64
	b.ResetTimer()
	for part := range parts {
		for done() < b.N*(part+1)/parts {
			step()
		}
		b.StopTimer()
		heaps = append(heaps, heap())
		if b.N >= 100_000 {
			b.Logf("%s: %s", progress(), mebibytes(heaps[part]))
		}
		b.StartTimer()
	}
	b.StopTimer()
	b.ReportMetric(float64(heaps[parts/2-1])/(1<<20), "half-MiB")
	b.ReportMetric(float64(heaps[parts-1])/(1<<20), "end-MiB")
	if b.N >= 100_000 && !bounded(heaps) {
		b.Error("memory keeps growing")
	}
}

// BenchmarkSoak runs cycles of allocation and release on one cluster; its length is that
// of -benchtime, which is meant to be 1000000x. Memory must have stopped growing by half
// time, if there are enough cycles to fill the caches.
func BenchmarkSoak(b *testing.B) {
	s := newSoak(b)
	measureSoak(b, s.step, func() int { return s.cycle }, func() string { return fmt.Sprintf("%d cycles", s.cycle) })
	if b.N >= 1000 {
		s.drain()
	}
}
