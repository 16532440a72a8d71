// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/pools"
)

// ownPolicy cannot be compared with others.
type ownPolicy struct {
	before func(a, b allocator.Candidate) bool
}

// Before implements Policy.
func (p ownPolicy) Before(a, b allocator.Candidate) bool { return p.before(a, b) }

// Reads implements Remembered.
func (ownPolicy) Reads() []resourceapi.FullyQualifiedName { return nil }

// variousOptions are allocators that may have one memory, of which each answers in its own way.
func variousOptions(features allocator.Features) []allocator.Options {
	lists, taints := features, features
	lists.ListTypeAttributes = !lists.ListTypeAttributes
	taints.DeviceTaints = !taints.DeviceTaints
	bySize := func(a, b allocator.Candidate) bool { return a.CompareSize(b) < 0 }
	all := []allocator.Options{
		{}, {Budget: 30}, {Budget: 3000}, {Budget: 30, Topology: []resourceapi.FullyQualifiedName{"gpu.example.com/numa"}},
		{Topology: []resourceapi.FullyQualifiedName{"gpu.example.com/numa"}},
		{Topology: []resourceapi.FullyQualifiedName{"gpu.example.com/model"}},
		{Policy: allocator.LeastWaste{}}, {Policy: allocator.Pack{}}, {Policy: allocator.FirstFit{}},
		{Policy: ownPolicy{bySize}}, {Policy: ownPolicy{func(a, b allocator.Candidate) bool { return bySize(b, a) }}},
	}
	for i := range all {
		all[i].Features = features
	}
	return append(all, allocator.Options{Features: lists}, allocator.Options{Features: taints})
}

// says is what an allocator says of a node, with all that callers see but what it cost.
func says(ctx context.Context, a *allocator.Allocator, q question, node *corev1.Node) (text string, decided bool) {
	problem, err := a.Compile(q.Claims, allocator.ClassMap(q.Classes...))
	if err != nil {
		return err.Error(), true
	}
	outcome, err := problem.Allocate(ctx, q.ledger.State(), node)
	switch o := outcome.(type) {
	case *allocator.Assignment:
		return fmt.Sprintf("%+v, missed %+v", o.Choices(), o.Missed()), true
	case *allocator.Unsatisfiable:
		return fmt.Sprintf("%+v", *o.Explain()), true
	case *allocator.Undecided:
		return o.String(), false
	}
	return err.Error(), true
}

// Allocators of one memory answer as each does with a memory of its own, and with none, whoever was asked first. Who has a
// small budget may know more.
func TestMemoryChangesNothing(t *testing.T) {
	ctx := context.Background()
	asked, told := 0, 0
	for n := range uint64(fewer(100)) { // fewer have none that is told more
		seed := 1000 + n
		q := generate(t, seed)
		various := variousOptions(q.Features)
		shared := allocator.NewMemory(allocator.MemoryOptions{})
		first := make([]*allocator.Allocator, len(various))
		for i, options := range various {
			options.Memory = shared
			first[i] = allocator.New(options)
		}
		for turn := range 2 * len(various) {
			i := (turn*5 + int(seed)) % len(various)
			for _, node := range q.Nodes {
				got, decided := says(ctx, first[i], q, node)
				own, alone := says(ctx, unasked(various[i]), q, node)
				forgetful := various[i]
				forgetful.Memory = allocator.NewMemory(allocator.MemoryOptions{Off: true})
				without, _ := says(ctx, allocator.New(forgetful), q, node)
				asked++
				if without != own {
					t.Errorf("seed %d, node %s, %d: without a memory\n%s\nwith one\n%s", seed, node.Name, i, without, own)
				}
				if got == own {
					continue
				}
				patient := various[i]
				patient.Budget = 0
				most, _ := says(ctx, unasked(patient), q, node)
				if told++; various[i].Budget == 0 || alone && !decided || got != most {
					t.Errorf("seed %d, node %s, %d: with others\n%s\nalone\n%s", seed, node.Name, i, got, own)
				}
			}
		}
	}
	if asked < fewer(100) || told == 0 && !testing.Short() {
		t.Errorf("of %d answers, %d were those of an allocator with more steps", asked, told)
	}
}

// A topology preference of the allocator changes no alternative. A preference of a claim does.
func TestMemoryTellsPreferencesApart(t *testing.T) {
	state := clusterOf(valuesOf(rooted(gpus("here", 4, "H100"), "x"), "half", "a", "b", "b", "b")).State()
	half := resourceapi.FullyQualifiedName("gpu.example.com/half")
	c := claim("c", 2)
	c.Spec.Devices.Requests[0] = resourceapi.DeviceRequest{Name: "r0", FirstAvailable: []resourceapi.DeviceSubRequest{
		{Name: "any", DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 4},
		{Name: "b", DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 3},
	}}
	for _, askedFirst := range []string{"claim", "topology"} {
		memory := allocator.NewMemory(allocator.MemoryOptions{})
		for turn := range 4 {
			options, want := allocator.Options{Memory: memory}, "r0/b=gpu-1 r0/b=gpu-2 r0/b=gpu-3"
			var preferences []extension.Preference
			if (askedFirst == "claim") == (turn%2 == 0) {
				preferences = []extension.Preference{{MatchAttribute: half}}
			} else {
				options.Topology, want = []resourceapi.FullyQualifiedName{half}, "r0/any=gpu-0 r0/any=gpu-1 r0/any=gpu-2 r0/any=gpu-3"
			}
			problem, err := preferring(options, c, preferences...)
			if err != nil {
				t.Fatal(err)
			}
			if got := chosen(outcomeHere(t, problem, state)); got != want {
				t.Errorf("%s first, turn %d: %s instead of %s", askedFirst, turn, got, want)
			}
		}
	}
}

// A memory that is off has nothing, however often the same is asked. One that is on has it for all its allocators.
func TestMemoryStats(t *testing.T) {
	ctx := context.Background()
	state := clusterOf(gpus("a", 2, "H100"), gpus("b", 2, "H100")).State()
	for _, off := range []bool{false, true} {
		memory := allocator.NewMemory(allocator.MemoryOptions{Off: off})
		var evaluations int64
		for _, budget := range []int64{0, 1000} {
			problem := compile(allocator.Options{Memory: memory, Budget: budget}, selecting(claim("c", 1), `device.attributes["gpu.example.com"].model.lowerAscii().startsWith("h")`))
			for _, name := range []string{"a", "b", "a"} {
				found, err := problem.Feasible(ctx, state, node(name))
				if err != nil || found.Verdict() != allocator.Satisfiable {
					t.Fatalf("%s, error %v", found.Verdict(), err)
				}
				evaluations += found.Stats().CELEvaluations
			}
		}
		want, evaluated := allocator.MemoryStats{Searches: 1, Remembered: 1}, int64(1) // the selector of the class is a comparison
		if off {
			want, evaluated = allocator.MemoryStats{Searches: 6}, 6*2
		}
		if got := memory.Stats(); got != want || evaluations != evaluated {
			t.Errorf("off %v: %+v instead of %+v, %d expressions were evaluated instead of %d", off, got, want, evaluations, evaluated)
		}
	}
}

// Allocators of one memory that ask about different states of use do not make each other look again what a node is like.
func TestMemoryKeepsNotesApart(t *testing.T) {
	ctx := context.Background()
	memory := allocator.NewMemory(allocator.MemoryOptions{})
	free := clusterOf(gpus("here", 2, "H100"))
	taken := free.Branch()
	if err := taken.Assume(holder("held", &smallDevice{DeviceID: pools.DeviceID{Driver: "gpu.example.com", Pool: "here", Device: "gpu-0"}})); err != nil {
		t.Fatal(err)
	}
	core, supposing := compile(allocator.Options{Memory: memory}, claim("c", 1)), compile(allocator.Options{Memory: memory}, claim("c", 1))
	here, one, other := node("here"), free.State(), taken.State()
	ask := func() {
		if found, err := core.Feasible(ctx, one, here); err != nil || found.Verdict() != allocator.Satisfiable {
			t.Fatalf("%s, error %v", found.Verdict(), err)
		}
		if found, err := supposing.Feasible(ctx, other, here); err != nil || found.Verdict() != allocator.Satisfiable {
			t.Fatalf("%s, error %v", found.Verdict(), err)
		}
	}
	if allocated := testing.AllocsPerRun(100, ask); allocated > 0 {
		t.Errorf("%v allocations of memory for two answers that are known", allocated)
	}
}

// The result of a search that ran out of its budget is not remembered for others.
func TestMemoryHasNoUndecidedAnswers(t *testing.T) {
	state := clusterOf(valuesOf(rooted(gpus("here", 6, "H100"), "x"), "half", "a", "b", "a", "b", "c", "c")).State()
	half := resourceapi.FullyQualifiedName("gpu.example.com/half")
	undecided, missed := 0, 0
	for budget := range int64(40) {
		memory := allocator.NewMemory(allocator.MemoryOptions{})
		for turn, options := range []allocator.Options{{Memory: memory, Budget: 1 + budget}, {Memory: memory}} {
			problem, err := preferring(options, claim("c", 2), extension.Preference{MatchAttribute: half})
			if err != nil {
				t.Fatal(err)
			}
			outcome := outcomeHere(t, problem, state)
			if assignment, ok := outcome.(*allocator.Assignment); !ok {
				undecided++
			} else if len(assignment.Missed()) > 0 {
				missed++
			}
			if got, want := chosen(outcome), "r0=gpu-0 r0=gpu-2"; turn == 1 && got != want {
				t.Errorf("after %d steps: %s instead of %s", 1+budget, got, want)
			}
		}
	}
	if undecided == 0 || missed == 0 {
		t.Errorf("%d were undecided, %d have a preference that may be had", undecided, missed)
	}
}
