// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/allocator/structured"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/pools"
)

// ErrUndecided is that a search was given up: it is neither a yes nor a no.
var ErrUndecided = errors.New("undecided")

// Dray returns Dray's allocator by its own API: snapshot, ledger, problem.
func Dray() alloctest.Allocator { return DrayWith(allocator.Options{}) }

// DrayWith is Dray with options. The features are those of the case.
func DrayWith(options allocator.Options) alloctest.Allocator {
	var allocators sync.Map // allocator.Features → *allocator.Allocator
	if options.Memory == nil {
		options.Memory = allocator.NewMemory(allocator.MemoryOptions{Programs: cel.NewCache(2000)})
	}
	return func(ctx context.Context, c *alloctest.Case) alloctest.Outcome {
		a, ok := allocators.Load(c.Features)
		if !ok {
			of := options
			of.Features = c.Features
			a, _ = allocators.LoadOrStore(c.Features, allocator.New(of))
		}
		return answer(drayOutcome(ctx, a.(*allocator.Allocator), c))
	}
}

// DrayStructured returns Dray's allocator behind upstream's API.
func DrayStructured() alloctest.Allocator { return Structured(structured.NewAllocator) }

func drayOutcome(ctx context.Context, a *allocator.Allocator, c *alloctest.Case) (allocator.Outcome, error) {
	q, err := newQuestion(a, c)
	if err != nil {
		return nil, err
	}
	return q.ask(ctx)
}

// question is a case in Dray's terms.
type question struct {
	problem *allocator.Problem
	ledger  *pools.Ledger
	node    *corev1.Node
}

func newQuestion(a *allocator.Allocator, c *alloctest.Case) (*question, error) {
	node, err := nodeByName(c)
	if err != nil {
		return nil, err
	}
	problem, err := compile(a, c)
	if err != nil {
		return nil, err
	}
	ledger := pools.NewLedger(pools.Build(c.Features.PoolGates(), c.Slices))
	for _, claim := range c.Allocated {
		if claim.Status.Allocation == nil {
			continue
		}
		if err := ledger.Assume(claim); err != nil {
			return nil, err
		}
	}
	return &question{problem, ledger, node}, nil
}

// compile knows what claims ask for beyond resource.k8s.io/v1. Claims in use that do so, too, are of
// the same pod.
func compile(a *allocator.Allocator, c *alloctest.Case) (*allocator.Problem, error) {
	claims := slices.Clone(c.Claims)
	for _, claim := range c.Allocated {
		if _, extended := claim.Annotations[extension.Annotation]; extended {
			claims = append(claims, claim)
		}
	}
	extensions, extended := make([]extension.Claim, len(claims)), false
	for i, claim := range claims {
		var err error
		if extensions[i], err = extension.Of(claim); err != nil {
			return nil, err
		}
		extended = extended || !extensions[i].IsZero()
	}
	if !extended {
		return a.Compile(c.Claims, allocator.ClassMap(c.Classes...))
	}
	return a.CompileExtended(claims, extensions, allocator.ClassMap(c.Classes...))
}

func (q *question) ask(ctx context.Context) (allocator.Outcome, error) {
	return q.problem.Allocate(ctx, q.ledger.State(), q.node)
}

func answer(outcome allocator.Outcome, err error) alloctest.Outcome {
	switch o := outcome.(type) {
	case *allocator.Assignment:
		return alloctest.Outcome{Results: o.Results()}
	case *allocator.Unsatisfiable:
		if o.InvalidPools() {
			return alloctest.Outcome{Err: fmt.Errorf("%s", o), NodeOnly: true, Explanation: o.String()}
		}
		return alloctest.Outcome{Explanation: o.String()}
	case *allocator.Undecided:
		return alloctest.Outcome{Err: fmt.Errorf("%w: %s", ErrUndecided, o), NodeOnly: true}
	}
	return alloctest.Outcome{Err: err}
}
