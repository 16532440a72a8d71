// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"context"
	"iter"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	upstream "k8s.io/dynamic-resource-allocation/structured"

	"github.com/dray-project/dray/allocator"
	dray "github.com/dray-project/dray/allocator/structured"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/peer"
	"github.com/dray-project/dray/pools"
)

// implementation is an allocator in the comparison.
type implementation struct {
	name string
	// open takes a cluster. What a scheduler has before pods come is done then.
	open func(c *alloctest.Case) (session, error)
}

// session answers for one pod after the other, with everything a new pod costs.
type session interface {
	ask(ctx context.Context, claims []*resourceapi.ResourceClaim, nodes []*corev1.Node) (answers, error)
	// take has allocated claims in use, from the next pod on, instead of those of the
	// last call.
	take(claims []*resourceapi.ResourceClaim) error
}

// answers has one answer per node.
type answers interface {
	fits(node int) bool
	results(node int) []resourceapi.AllocationResult
	stats() allocator.Stats
}

const (
	upstreamName = "upstream"
	facadeName   = "dray-structured"
	resultsName  = "dray-results"
	drayName     = "dray"
)

var implementations = []implementation{
	{upstreamName, openStructured(upstream.NewAllocator)},
	{facadeName, openStructured(dray.NewAllocator)},
	{resultsName, openNative(true)},
	{drayName, openNative(false)},
}

// celCacheSize is what kube-scheduler gives its allocator.
const celCacheSize = 10

// structured uses upstream's API as kube-scheduler does: one allocator per pod, one
// cache of expressions for all.
type structured struct {
	newAllocator peer.NewAllocator
	cluster      *alloctest.Case
	classes      peer.Classes
	state        upstream.AllocatedState
	programs     *cel.Cache
	taken        []*resourceapi.ResourceClaim
}

func openStructured(newAllocator peer.NewAllocator) func(c *alloctest.Case) (session, error) {
	return func(c *alloctest.Case) (session, error) {
		return newStructured(newAllocator, c), nil
	}
}

func newStructured(newAllocator peer.NewAllocator, c *alloctest.Case) *structured {
	features := cel.Features{EnableConsumableCapacity: c.Features.ConsumableCapacity, EnableListTypeAttributes: c.Features.ListTypeAttributes}
	return &structured{
		newAllocator: newAllocator,
		cluster:      c,
		classes:      peer.Classes(c.Classes),
		state:        peer.State(c),
		programs:     cel.NewCache(celCacheSize, features),
	}
}

func (s *structured) ask(ctx context.Context, claims []*resourceapi.ResourceClaim, nodes []*corev1.Node) (answers, error) {
	a, err := s.newAllocator(ctx, upstream.Features(s.cluster.Features), s.state, s.classes, s.cluster.Slices, s.programs)
	if err != nil {
		return nil, err
	}
	all := make(structuredAnswers, len(nodes))
	for i, node := range nodes {
		if all[i], err = a.Allocate(ctx, node, claims); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// take covers devices as a whole.
func (s *structured) take(claims []*resourceapi.ResourceClaim) error {
	for id := range devicesOf(s.taken) {
		s.state.AllocatedDevices.Delete(id)
	}
	for id := range devicesOf(claims) {
		s.state.AllocatedDevices.Insert(id)
	}
	s.taken = claims
	return nil
}

func devicesOf(claims []*resourceapi.ResourceClaim) iter.Seq[upstream.DeviceID] {
	return func(yield func(upstream.DeviceID) bool) {
		for _, claim := range claims {
			for _, r := range claim.Status.Allocation.Devices.Results {
				if !yield(upstream.MakeDeviceID(r.Driver, r.Pool, r.Device)) {
					return
				}
			}
		}
	}
}

type structuredAnswers [][]resourceapi.AllocationResult

func (a structuredAnswers) fits(i int) bool                              { return a[i] != nil }
func (a structuredAnswers) results(i int) []resourceapi.AllocationResult { return a[i] }
func (a structuredAnswers) stats() allocator.Stats                       { return allocator.Stats{} }

// native uses Dray's own API: slices and allocated claims are known to a ledger.
type native struct {
	// withResults says that the result is built for each node, as upstream does.
	withResults bool
	allocator   *allocator.Allocator
	classes     allocator.Classes
	ledger      *pools.Ledger
	taken       []*resourceapi.ResourceClaim
}

func openNative(results bool) func(c *alloctest.Case) (session, error) {
	return func(c *alloctest.Case) (session, error) {
		ledger, err := ledgerOf(c)
		if err != nil {
			return nil, err
		}
		return &native{
			withResults: results,
			allocator:   allocator.New(allocator.Options{Features: c.Features}),
			classes:     allocator.ClassMap(c.Classes...),
			ledger:      ledger,
		}, nil
	}
}

func ledgerOf(c *alloctest.Case) (*pools.Ledger, error) {
	ledger := pools.NewLedger(pools.Build(c.Features.PoolGates(), c.Slices))
	for _, claim := range c.Allocated {
		if err := ledger.Assume(claim); err != nil {
			return nil, err
		}
	}
	return ledger, nil
}

func (s *native) ask(ctx context.Context, claims []*resourceapi.ResourceClaim, nodes []*corev1.Node) (answers, error) {
	problem, err := s.allocator.Compile(claims, s.classes)
	if err != nil {
		return nil, err
	}
	// One goroutine, as the others have.
	evaluation, err := problem.Evaluate(ctx, s.ledger.State(), nodes, 1)
	if err != nil {
		return nil, err
	}
	all := nativeAnswers{evaluation}
	for i := range nodes {
		if evaluation.Verdict(i) == allocator.NoVerdict {
			_, err := evaluation.Outcome(i)
			return nil, err
		}
		if s.withResults {
			all.results(i)
		}
	}
	return all, nil
}

func (s *native) take(claims []*resourceapi.ResourceClaim) error {
	for _, claim := range s.taken {
		if err := s.ledger.Forget(claim); err != nil {
			return err
		}
	}
	for _, claim := range claims {
		if err := s.ledger.Assume(claim); err != nil {
			return err
		}
	}
	s.taken = claims
	return nil
}

type nativeAnswers struct{ *allocator.Evaluation }

func (a nativeAnswers) fits(i int) bool { return a.Verdict(i) == allocator.Satisfiable }

func (a nativeAnswers) results(i int) []resourceapi.AllocationResult {
	if !a.fits(i) {
		return nil
	}
	outcome, _ := a.Outcome(i)
	return outcome.(*allocator.Assignment).Results()
}

func (a nativeAnswers) stats() allocator.Stats {
	var sum allocator.Stats
	for i := range a.Len() {
		outcome, _ := a.Outcome(i)
		s := outcome.Stats()
		sum.Steps += s.Steps
		sum.CELEvaluations += s.CELEvaluations
	}
	return sum
}
