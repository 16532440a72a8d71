// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"context"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
	"github.com/dray-project/dray/internal/dev/oracle"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/pools"
)

// question is a generated case, ready to ask.
type question struct {
	*alloctest.Case
	ledger *pools.Ledger
	node   *corev1.Node
}

func generate(t *testing.T, seed uint64) question {
	t.Helper()
	c := clustergen.Generate(seed, clustergen.Default)
	q := asked(t, c)
	q.node = c.Nodes[slices.IndexFunc(c.Nodes, func(n *corev1.Node) bool { return n.Name == c.Node })]
	return q
}

// asked is the question of a case, without the node.
func asked(t *testing.T, c *alloctest.Case) question {
	t.Helper()
	q := question{Case: c, ledger: pools.NewLedger(pools.Build(c.Features.PoolGates(), c.Slices))}
	for _, claim := range c.Allocated {
		if err := q.ledger.Assume(claim); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
	}
	return q
}

func (q question) ask(claims []*resourceapi.ResourceClaim) (allocator.Outcome, error) {
	problem, err := unasked(allocator.Options{Features: q.Features}).Compile(claims, allocator.ClassMap(q.Classes...))
	if err != nil {
		return nil, err
	}
	return problem.Allocate(context.Background(), q.ledger.State(), q.node)
}

// reduced keeps the requests and constraints that keep says. A constraint that would
// be left without any of the requests it names goes, too.
func reduced(claims []*resourceapi.ResourceClaim, keepRequest func(claim, request string) bool, keepConstraint func(claim string, position int) bool) []*resourceapi.ResourceClaim {
	var all []*resourceapi.ResourceClaim
	for _, original := range claims {
		c := original.DeepCopy()
		name := c.Namespace + "/" + c.Name
		devices := &c.Spec.Devices
		devices.Requests = slices.DeleteFunc(devices.Requests, func(r resourceapi.DeviceRequest) bool { return !keepRequest(name, r.Name) })
		devices.Constraints = nil
		for i, constraint := range original.Spec.Devices.Constraints {
			if keepConstraint(name, i) {
				devices.Constraints = append(devices.Constraints, constraint)
			}
		}
		all = append(all, c)
	}
	return all
}

// Whatever an explanation's conflict core does not cite can be taken away: what it
// cites cannot be had all the same.
func TestConflictCoreIsUnsatisfiable(t *testing.T) {
	checked := 0
	for seed := range uint64(fewer(1500)) {
		q := generate(t, seed)
		outcome, err := q.ask(q.Claims)
		refused, ok := outcome.(*allocator.Unsatisfiable)
		if err != nil || !ok {
			continue
		}
		core := refused.Explain().Core
		claims := reduced(q.Claims,
			func(claim, request string) bool {
				return slices.ContainsFunc(core, func(i explain.CoreItem) bool { return i.Claim == claim && i.Request == request })
			},
			func(claim string, position int) bool {
				return slices.ContainsFunc(core, func(i explain.CoreItem) bool {
					return i.Claim == claim && i.Constraint != "" && i.Position == position
				})
			})
		outcome, err = q.ask(claims)
		if _, still := outcome.(*allocator.Unsatisfiable); !still {
			t.Errorf("seed %d: the core %+v alone gives %s, %v", seed, core, chosen(outcome), err)
		}
		checked++
	}
	if checked < fewer(200) {
		t.Errorf("only %d unsatisfiable cases were generated", checked)
	}
}

// Removing a constraint keeps a claim satisfiable.
func TestFewerConstraintsKeepClaimsSatisfiable(t *testing.T) {
	checked := 0
	for seed := range uint64(fewer(1500)) {
		q := generate(t, seed)
		outcome, err := q.ask(q.Claims)
		if _, ok := outcome.(*allocator.Assignment); err != nil || !ok {
			continue
		}
		for drop := range q.Claims[0].Spec.Devices.Constraints {
			claims := reduced(q.Claims,
				func(claim, request string) bool { return true },
				func(claim string, position int) bool {
					return claim != q.Claims[0].Namespace+"/"+q.Claims[0].Name || position != drop
				})
			outcome, err := q.ask(claims)
			if _, ok := outcome.(*allocator.Assignment); !ok && err == nil {
				t.Errorf("seed %d: without constraint %d of the first claim: %s", seed, drop, chosen(outcome))
			}
			checked++
		}
	}
	if checked < fewer(100) {
		t.Errorf("only %d constraints were generated", checked)
	}
}

// source reads what is in use from a state.
type source struct{ *cluster.State }

// Equivalent nodes share parts of their explanations. The result is that of explaining each node by itself.
func TestExplanationsShareTheirCores(t *testing.T) {
	for name, stateOf := range map[string]func(*pools.Ledger) *pools.State{
		"kept": (*pools.Ledger).State,
		"lazy": func(l *pools.Ledger) *pools.State { return lazily(l, source{(*cluster.State)(l.State())}) },
	} {
		t.Run(name, func(t *testing.T) {
			explained := 0
			for seed := uint64(900); seed < uint64(900+fewer(600)); seed++ { // 1076 is a hard one
				explained += compareExplanations(t, seed, stateOf)
			}
			if explained < fewer(300) {
				t.Errorf("%d explanations were compared", explained)
			}
		})
	}
}

func compareExplanations(t *testing.T, seed uint64, stateOf func(*pools.Ledger) *pools.State) (explained int) {
	t.Helper()
	q := generate(t, seed)
	problem, err := unasked(allocator.Options{Features: q.Features}).Compile(q.Claims, allocator.ClassMap(q.Classes...))
	if err != nil {
		return 0
	}
	state := stateOf(q.ledger)
	for _, node := range q.Nodes {
		q.node = node
		alone, err := q.ask(q.Claims)
		if err != nil {
			continue // some devices are errors for any allocator
		}
		together, err := problem.Allocate(context.Background(), state, node)
		if err != nil {
			t.Fatalf("seed %d, node %s: %v", seed, node.Name, err)
		}
		expected, isNone := alone.(*allocator.Unsatisfiable)
		actual, wasNone := together.(*allocator.Unsatisfiable)
		if isNone != wasNone {
			t.Fatalf("seed %d, node %s: %v; among others %v", seed, node.Name, alone, together)
		}
		if !isNone {
			continue
		}
		explained++
		if want, got := expected.Explain(), actual.Explain(); !reflect.DeepEqual(want, got) {
			t.Errorf("seed %d, node %s: explained by itself: %+v\namong others: %+v", seed, node.Name, want, got)
		}
	}
	return explained
}

// No policy changes what can be had, nor what an explanation says, and what it chooses is correct. Errors at
// devices may come before a solution in one order, and not in another.
func TestPoliciesChangeNoVerdict(t *testing.T) {
	assigned, refused := 0, 0
	for seed := range uint64(fewer(400)) {
		q := generate(t, seed)
		first, err := q.ask(q.Claims)
		if err != nil {
			continue
		}
		for _, policy := range []allocator.Policy{allocator.LeastWaste{}, allocator.Pack{}, allocator.Spread{}, byStrings{}} {
			a := unasked(allocator.Options{Features: q.Features, Policy: policy, Topology: []resourceapi.FullyQualifiedName{"gpu.example.com/numa"}})
			problem, err := a.Compile(q.Claims, allocator.ClassMap(q.Classes...))
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			outcome, err := problem.Allocate(context.Background(), q.ledger.State(), q.node)
			if err != nil {
				continue
			}
			if outcome.Verdict() != first.Verdict() {
				t.Fatalf("seed %d, %T: %s, first fit: %s", seed, policy, chosen(outcome), chosen(first))
			}
			switch answer := outcome.(type) {
			case *allocator.Assignment:
				assigned++
				if err := oracle.Verify(q.Case, answer.Results()); err != nil {
					t.Errorf("seed %d, %T: %v", seed, policy, err)
				}
			case *allocator.Unsatisfiable:
				refused++
				if got, want := answer.Explain().Text(), first.(*allocator.Unsatisfiable).Explain().Text(); got != want {
					t.Errorf("seed %d, %T: %s, first fit: %s", seed, policy, got, want)
				}
			}
		}
	}
	if assigned < fewer(300) || refused < fewer(300) {
		t.Errorf("only %d assignments and %d refusals were seen", assigned, refused)
	}
}

// A policy does not change when a search is undecided: where all devices are equal, it takes the same steps.
func TestPoliciesKeepTheBudget(t *testing.T) {
	state := clusterOf(gpus("here", 40, "x")).State()
	steps := make(map[string]int64)
	for name := range ratings {
		policy, err := allocator.PolicyNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		outcome, err := compile(allocator.Options{Policy: policy, Budget: 7}, sameRoot(claim("c", 1, 1, 1))).Allocate(t.Context(), state, node("here"))
		if undecided, ok := outcome.(*allocator.Undecided); err != nil || !ok {
			t.Errorf("%s: got %v, %v", name, outcome, err)
		} else {
			steps[name] = undecided.Stats().Steps
		}
		outcome, err = compile(allocator.Options{Policy: policy}, sameRoot(claim("c", 1, 1, 1))).Allocate(t.Context(), state, node("here"))
		if _, gaveUp := outcome.(*allocator.Undecided); err != nil || gaveUp {
			t.Fatalf("%s: got %v, %v", name, outcome, err)
		}
		steps[name+", unbounded"] = outcome.Stats().Steps
	}
	for name := range ratings {
		if steps[name] != steps["FirstFit"] || steps[name+", unbounded"] != steps["FirstFit, unbounded"] || steps[name] <= 7 {
			t.Errorf("%s takes other steps than first fit: %v", name, steps)
		}
	}
}
