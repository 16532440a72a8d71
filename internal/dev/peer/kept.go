// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/internal/dev/oracle"
	"github.com/dray-project/dray/pools"
)

// Kept returns Dray's allocator as a scheduler keeps it: one Builder and one Ledger follow
// the cluster from case to case, so that all that is remembered of pools and nodes stays.
// Cases after the first one only tell what is different. It must not be used concurrently.
//
// Before it allocates, it evaluates all nodes; it is an error if that contradicts the
// allocation.
func Kept() alloctest.Allocator { return KeptWith(nil) }

// KeptWith is Kept with compiled expressions that several may share.
func KeptWith(programs *cel.Cache) alloctest.Allocator {
	k := &kept{programs: programs}
	return func(ctx context.Context, c *alloctest.Case) alloctest.Outcome {
		if k.allocator == nil || k.features != c.Features {
			k.start(c.Features)
		}
		outcome, err := k.ask(ctx, c)
		return answer(outcome, err)
	}
}

type kept struct {
	programs  *cel.Cache
	features  allocator.Features
	allocator *allocator.Allocator
	builder   *pools.Builder
	ledger    *pools.Ledger
	// slices and claims are those which the builder and the ledger know, by name.
	slices map[string]*resourceapi.ResourceSlice
	claims map[string]*resourceapi.ResourceClaim
}

func (k *kept) start(features allocator.Features) {
	k.features = features
	k.allocator = allocator.New(allocator.Options{Features: features, Memory: allocator.NewMemory(allocator.MemoryOptions{Programs: k.programs})})
	k.builder = pools.NewBuilder(features.PoolGates())
	k.ledger = pools.NewLedger(k.builder.Snapshot())
	k.slices = make(map[string]*resourceapi.ResourceSlice)
	k.claims = make(map[string]*resourceapi.ResourceClaim)
}

func (k *kept) ask(ctx context.Context, c *alloctest.Case) (allocator.Outcome, error) {
	node, err := nodeByName(c)
	if err != nil {
		return nil, err
	}
	problem, err := compile(k.allocator, c)
	if err != nil {
		return nil, err
	}
	k.followSlices(c.Slices)
	if err := k.followClaims(c.Allocated); err != nil {
		return nil, err
	}
	outcome, err := problem.Allocate(ctx, k.ledger.State(), node)
	if ctx.Err() == nil {
		if wrong := k.contradict(ctx, problem, c.Nodes, node, answer(outcome, err)); wrong != nil {
			return nil, wrong
		}
	}
	return outcome, err
}

// contradict is the error that evaluating all nodes gives another answer for a node than
// allocating there.
func (k *kept) contradict(ctx context.Context, problem *allocator.Problem, nodes []*corev1.Node, node *corev1.Node, allocated alloctest.Outcome) error {
	evaluation, err := problem.Evaluate(ctx, k.ledger.State(), nodes, 1)
	if err != nil {
		return err
	}
	i := slices.Index(nodes, node)
	evaluated := answer(evaluation.Outcome(i))
	switch {
	case (evaluated.Err == nil) != (allocated.Err == nil), (evaluated.Results == nil) != (allocated.Results == nil):
		return fmt.Errorf("node %s: evaluated as %s, but allocating gives %s", node.Name, kindOf(evaluated), kindOf(allocated))
	case evaluated.Results != nil:
		if d := oracle.Equal(evaluated.Results, allocated.Results); d != "" {
			return fmt.Errorf("node %s: allocated otherwise than evaluated: %s", node.Name, d)
		}
	}
	feasible, err := problem.Feasible(ctx, k.ledger.State(), node)
	if is := feasible.Verdict(); is != evaluation.Verdict(i) {
		return errors.Join(fmt.Errorf("node %s: evaluated as %v, but the feasibility is %v", node.Name, evaluation.Verdict(i), is), err)
	}
	return nil
}

func kindOf(o alloctest.Outcome) string {
	switch {
	case o.Err != nil:
		return "an error: " + o.Err.Error()
	case o.Results == nil:
		return "nothing"
	}
	return "devices"
}

func (k *kept) followSlices(current []*resourceapi.ResourceSlice) {
	changed, gone := difference(k.slices, current, func(s *resourceapi.ResourceSlice) string { return s.Name })
	if len(changed)+len(gone) == 0 {
		return
	}
	k.builder.Set(changed...)
	for _, slice := range gone {
		k.builder.Delete(slice.Name)
	}
	k.ledger.Rebase(k.builder.Snapshot())
}

func (k *kept) followClaims(current []*resourceapi.ResourceClaim) error {
	last := maps.Clone(k.claims)
	changed, gone := difference(k.claims, current, func(c *resourceapi.ResourceClaim) string { return c.Namespace + "/" + c.Name })
	for _, claim := range changed {
		if old := last[claim.Namespace+"/"+claim.Name]; old != nil {
			gone = append(gone, old)
		}
	}
	for _, claim := range gone {
		if err := k.ledger.Forget(claim); err != nil {
			return err
		}
	}
	for _, claim := range changed {
		if err := k.ledger.Assume(claim); err != nil {
			return err
		}
	}
	return nil
}

// difference brings what is known up to date, and returns what is new or another object
// than before, and what is gone. Objects are told apart by their pointers.
func difference[T comparable](known map[string]T, current []T, key func(T) string) (changed, gone []T) {
	names := make(map[string]bool, len(current))
	for _, object := range current {
		name := key(object)
		names[name] = true
		if known[name] != object {
			known[name] = object
			changed = append(changed, object)
		}
	}
	for name, object := range known {
		if !names[name] {
			delete(known, name)
			gone = append(gone, object)
		}
	}
	return changed, gone
}
