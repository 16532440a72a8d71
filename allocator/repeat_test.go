// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/pools"
)

// Repeat gives what Allocate does with the devices of each Assignment in use.
func TestRepeatIsLikeAllocateAgainAndAgain(t *testing.T) {
	seen := make(map[string]int)
	for seed := range uint64(fewer(3000)) {
		q := generate(t, seed)
		problem, err := unasked(allocator.Options{Features: q.Features}).Compile(q.Claims, allocator.ClassMap(q.Classes...))
		if err != nil {
			continue
		}
		times := 0
		for got, gotErr := range problem.Repeat(t.Context(), q.ledger.State(), q.node) {
			want, wantErr := q.ask(q.Claims)
			if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
				t.Fatalf("seed %d, the %d. time: %v, want %v", seed, times, gotErr, wantErr)
			}
			if gotErr != nil {
				break
			}
			compareOutcomes(t, fmt.Sprintf("seed %d, the %d. time", seed, times), got, want)
			assignment, ok := want.(*allocator.Assignment)
			if !ok {
				if times > 0 {
					seen["end"]++
				}
				break
			}
			if times++; times == 20 {
				break
			}
			for i, result := range assignment.Results() {
				taken := q.Claims[i].DeepCopy()
				taken.Name, taken.UID = fmt.Sprint(taken.Name, "-", times), ""
				taken.Status.Allocation = &result
				if err := q.ledger.Assume(taken); err != nil {
					t.Fatal(err)
				}
			}
		}
		if times > 1 {
			seen["again"]++
		}
	}
	for _, what := range []string{"again", "end"} {
		if seen[what] < fewer(200) {
			t.Errorf("%q was seen %d times", what, seen[what])
		}
	}
}

// Devices with the same ID are in use together, even if only one is on the node, and each consumes counters.
func TestRepeatWithDevicesOfOneName(t *testing.T) {
	var all []*resourceapi.ResourceSlice
	add := func(name, node string) *resourceapi.ResourceSlice {
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
		slice.Spec = resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: &node, Pool: resourceapi.ResourcePool{Name: "pool", ResourceSliceCount: 3}}
		all = append(all, slice)
		return slice
	}
	for _, node := range []string{"a", "b"} {
		slice := add(node, node)
		for i := range 2 {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i), ConsumesCounters: []resourceapi.DeviceCounterConsumption{
				{CounterSet: "set", Counters: map[string]resourceapi.Counter{"n": {Value: resource.MustParse("1")}}},
			}})
		}
	}
	add("counters", "a").Spec.SharedCounters = []resourceapi.CounterSet{{Name: "set", Counters: map[string]resourceapi.Counter{"n": {Value: resource.MustParse("3")}}}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim"}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
	}}}
	features := allocator.AllFeatures()
	problem, err := allocator.New(allocator.Options{Features: features}).Compile([]*resourceapi.ResourceClaim{claim}, allocator.ClassMap(&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}))
	if err != nil {
		t.Fatal(err)
	}
	state := pools.NewState(pools.Build(features.PoolGates(), all))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	ask := func() allocator.Outcome {
		outcome, err := problem.Allocate(t.Context(), state, node)
		if err != nil {
			t.Fatal(err)
		}
		return outcome
	}
	first := ask()
	taken := claim.DeepCopy()
	taken.Status.Allocation = &first.(*allocator.Assignment).Results()[0]
	if state, err = state.Assume(taken); err != nil {
		t.Fatal(err)
	}
	want := []allocator.Outcome{first, ask()}
	if state, err = state.Forget(taken); err != nil {
		t.Fatal(err)
	}
	n := 0
	for got, err := range problem.Repeat(t.Context(), state, node) {
		if err != nil || n == len(want) {
			t.Fatalf("the %d. time: %v, %v", n, got, err)
		}
		compareOutcomes(t, fmt.Sprint("the ", n, ". time"), got, want[n])
		n++
	}
}

// An invalid question is yielded as an error, and as the last result.
func TestRepeatOfWhatCannotBeAsked(t *testing.T) {
	slice := gpus("here", 4, "x")
	state := clusterOf(slice).State()
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("shutting down"))
	for want, test := range map[string]struct {
		ctx   context.Context
		state *pools.State
		node  *corev1.Node
	}{
		"node is nil": {t.Context(), state, nil},
		"allocation on node here was cancelled: shutting down": {cancelled, state, node("here")},
		"the snapshot was built with":                          {t.Context(), pools.NewState(pools.Build(pools.Gates{}, []*resourceapi.ResourceSlice{slice})), node("here")},
	} {
		var errs []error
		for outcome, err := range compile(allocator.Options{}, claim("c", 1)).Repeat(test.ctx, test.state, test.node) {
			if outcome != nil {
				t.Errorf("%s: got %v", want, outcome)
			}
			errs = append(errs, err)
		}
		if len(errs) != 1 || errs[0] == nil || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%s: got %v", want, errs)
		}
	}
	// It ends in between, too.
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	times := 0
	for outcome, err := range compile(allocator.Options{}, claim("c", 1)).Repeat(ctx, state, node("here")) {
		if times++; times == 1 {
			stop(errors.New("enough"))
			continue
		}
		if outcome != nil || err == nil || !strings.Contains(err.Error(), "enough") {
			t.Errorf("after it was cancelled: %v, %v", outcome, err)
		}
	}
	if times != 2 {
		t.Errorf("%d outcomes, want one and an error", times)
	}
}

// Preferences and policies choose by more than which devices are free: after the first outcome, another State is needed.
func TestRepeatEnds(t *testing.T) {
	state := clusterOf(gpus("here", 4, "x")).State()
	preferring, err := preferring(allocator.Options{}, claim("c", 1, 1), extension.Preference{MatchAttribute: root})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		problem *allocator.Problem
		want    int
	}{
		"first fit":  {compile(allocator.Options{}, claim("c", 1)), 5},
		"policy":     {compile(allocator.Options{Policy: allocator.Pack{}}, claim("c", 1)), 1},
		"preference": {preferring, 1},
	} {
		times := 0
		for _, err := range test.problem.Repeat(t.Context(), state, node("here")) {
			if times++; err != nil {
				t.Fatal(err)
			}
		}
		if times != test.want {
			t.Errorf("%s: %d outcomes, want %d", name, times, test.want)
		}
	}
}

func compareOutcomes(t *testing.T, when string, got, want allocator.Outcome) {
	t.Helper()
	if got.Verdict() != want.Verdict() {
		t.Fatalf("%s: %s, want %s", when, got.Verdict(), want.Verdict())
	}
	switch want := want.(type) {
	case *allocator.Assignment:
		if got := got.(*allocator.Assignment); !reflect.DeepEqual(got.Choices(), want.Choices()) || !reflect.DeepEqual(got.Results(), want.Results()) {
			t.Fatalf("%s: %v, want %v", when, got.Choices(), want.Choices())
		}
	case *allocator.Unsatisfiable:
		if got := got.(*allocator.Unsatisfiable); got.String() != want.String() {
			t.Fatalf("%s: %s, want %s", when, got, want)
		}
	}
}
