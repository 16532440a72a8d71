// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
)

func allocate(t *testing.T, p *allocator.Problem, ledger *pools.Ledger, on *corev1.Node) allocator.Outcome {
	t.Helper()
	outcome, err := p.Allocate(context.Background(), ledger.State(), on)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

func TestBudgetEndsUndecided(t *testing.T) {
	// Four roots of two devices each, five devices of one root wanted.
	ledger := clusterOf(gpus("node-a", 8, "H100"))
	problem := compile(allocator.Options{Budget: 3}, sameRoot(claim("training", 1, 1, 1, 1, 1)))
	outcome := allocate(t, problem, ledger, node("node-a"))
	undecided, ok := outcome.(*allocator.Undecided)
	if !ok {
		t.Fatalf("outcome is %T", outcome)
	}
	if undecided.Stats().Steps <= 3-1 || undecided.Node() != "node-a" || strings.Contains(undecided.String(), "node-a") {
		t.Errorf("spent %+v: %s", undecided.Stats(), undecided)
	}
	full := compile(allocator.Options{}, sameRoot(claim("training", 1, 1, 1, 1, 1)))
	if outcome := allocate(t, full, ledger, node("node-a")); chosen(outcome) != "*allocator.Unsatisfiable" {
		t.Errorf("with the default budget: %s", chosen(outcome))
	}
}

func TestCancellationIsAnErrorWithItsCause(t *testing.T) {
	cause := errors.New("scheduler is shutting down")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	ledger := clusterOf(gpus("node-a", 2, "H100"))
	problem := compile(allocator.Options{}, claim("training", 1))
	if _, err := problem.Allocate(ctx, ledger.State(), node("node-a")); !errors.Is(err, cause) {
		t.Errorf("Allocate: %v", err)
	}
	if _, err := problem.Evaluate(ctx, ledger.State(), []*corev1.Node{node("node-a")}, 1); !errors.Is(err, cause) {
		t.Errorf("Evaluate: %v", err)
	}
}

func TestBadInputNamesObjectAndField(t *testing.T) {
	exactly := func(change func(*resourceapi.ExactDeviceRequest)) *resourceapi.ResourceClaim {
		c := claim("bad", 1)
		change(c.Spec.Devices.Requests[0].Exactly)
		return c
	}
	for _, test := range []struct {
		want  string
		claim *resourceapi.ResourceClaim
	}{
		{"claim 0 is nil", nil},
		{"claim default/bad: request r0: deviceClassName: DeviceClass \"h100\"", exactly(func(r *resourceapi.ExactDeviceRequest) { r.DeviceClassName = "h100" })},
		{"claim default/bad: request r0: deviceClassName", exactly(func(r *resourceapi.ExactDeviceRequest) { r.DeviceClassName = "" })},
		{"claim default/bad: request r0: allocationMode", exactly(func(r *resourceapi.ExactDeviceRequest) { r.AllocationMode = "Some" })},
		{"claim default/bad: request r0: count -1", exactly(func(r *resourceapi.ExactDeviceRequest) { r.Count = -1 })},
		{"claim default/bad: request r0: selector 0", exactly(func(r *resourceapi.ExactDeviceRequest) { r.Selectors = []resourceapi.DeviceSelector{{}} })},
		{"claim default/bad: request r0: neither", &resourceapi.ResourceClaim{
			ObjectMeta: claim("bad").ObjectMeta,
			Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
				Requests: []resourceapi.DeviceRequest{{Name: "r0"}},
			}},
		}},
		{"claim default/bad: constraint 0", func() *resourceapi.ResourceClaim {
			c := claim("bad", 1)
			c.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{}}
			return c
		}()},
	} {
		a := allocator.New(allocator.Options{Features: allocator.AllFeatures()})
		_, err := a.Compile([]*resourceapi.ResourceClaim{test.claim}, allocator.ClassMap(gpuClass))
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("want %q, got %v", test.want, err)
		}
	}
}

// Without classes, and with nil ones, there is none of the name.
func TestNoClasses(t *testing.T) {
	a := allocator.New(allocator.Options{})
	for _, classes := range []allocator.Classes{nil, allocator.ClassMap(), allocator.ClassMap(nil, nil)} {
		_, err := a.Compile([]*resourceapi.ResourceClaim{claim("training", 1)}, classes)
		var unknown *allocator.UnknownClassError
		if !errors.As(err, &unknown) || unknown.Name != "gpu" {
			t.Errorf("got %v", err)
		}
	}
}

func TestHugeCountsDoNotOverflow(t *testing.T) {
	ledger := clusterOf(gpus("node-a", 2, "H100"))
	problem := compile(allocator.Options{}, claim("training", 1<<62, 1<<62, 1<<62, 1<<62, 1))
	_, err := problem.Allocate(context.Background(), ledger.State(), node("node-a"))
	if err == nil || !strings.Contains(err.Error(), "claim default/training") {
		t.Errorf("got %v", err)
	}
}

// Computing with 1e2000000000 would take two billion digits. As a request it is an error, as a value of a device it is why
// that device cannot be had.
func TestQuantitiesOutOfRangeDoNotHang(t *testing.T) {
	bomb := *resource.NewScaledQuantity(1, 2_000_000_000)
	asking := sharing(claim("c", 1))
	asking.Spec.Devices.Requests[0].Exactly.Capacity.Requests["bandwidth"] = bomb
	offering := shared(gpus("node-a", 1, "H100"))
	offering.Spec.Devices[0].Capacity["bandwidth"] = resourceapi.DeviceCapacity{Value: bomb}
	for name, test := range map[string]struct {
		slice *resourceapi.ResourceSlice
		claim *resourceapi.ResourceClaim
	}{
		"requested": {shared(gpus("node-a", 1, "H100")), asking},
		"published": {offering, sharing(claim("c", 1))},
	} {
		ledger := clusterOf(test.slice)
		outcome, err := compile(allocator.Options{}, test.claim).Allocate(context.Background(), ledger.State(), node("node-a"))
		text := fmt.Sprint(err)
		if none, ok := outcome.(*allocator.Unsatisfiable); ok {
			text = none.Explain().Summary
		}
		if (err == nil) != (name == "published") || !strings.Contains(text, "capacity bandwidth: ") || !strings.Contains(text, "out of range") {
			t.Errorf("%s: %v, %v", name, err, outcome)
		}
	}
}

// A state that was built for other features would hide devices, or show some that must not be
// allocated.
func TestStateMustFitTheFeatures(t *testing.T) {
	problem := compile(allocator.Options{Features: allocator.AllFeatures()}, claim("c", 1))
	for want, state := range map[string]*pools.State{
		"state is nil":                nil,
		"the snapshot was built with": pools.NewState(pools.Build(pools.Gates{}, nil)),
	} {
		_, allocating := problem.Allocate(context.Background(), state, node("worker"))
		feasible, asking := problem.Feasible(context.Background(), state, node("worker"))
		_, evaluating := problem.Evaluate(context.Background(), state, []*corev1.Node{node("worker")}, 1)
		for _, err := range []error{allocating, asking, evaluating} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
		if feasible.Verdict() != allocator.NoVerdict {
			t.Errorf("%s: %s", want, feasible.Verdict())
		}
	}
}

// Results of Feasible are those of Allocate. They belong to the caller, with new share IDs in each call.
func TestFeasibleHasResults(t *testing.T) {
	var ids int
	options := allocator.Options{Features: allocator.AllFeatures(), ShareID: func() types.UID {
		ids++
		return types.UID(fmt.Sprint("share-", ids))
	}}
	for name, test := range map[string]struct {
		slice *resourceapi.ResourceSlice
		count int64
	}{
		"one device":     {gpus("node-a", 3, "H100"), 1},
		"several":        {gpus("node-a", 3, "H100"), 3},
		"a share":        {shared(gpus("node-a", 1, "H100")), 1},
		"too few":        {gpus("node-a", 3, "H100"), 4},
		"another node's": {gpus("node-b", 3, "H100"), 1},
	} {
		ledger, problem := clusterOf(test.slice), compile(options, claim("c", test.count))
		var want []resourceapi.AllocationResult
		if found, ok := allocate(t, problem, ledger, node("node-a")).(*allocator.Assignment); ok {
			want = found.Results()
		}
		found, err := problem.Feasible(context.Background(), ledger.State(), node("node-a"))
		if err != nil {
			t.Fatal(err)
		}
		first, second := found.Results(), found.Results()
		if name == "a share" {
			if *first[0].Devices.Results[0].ShareID == *second[0].Devices.Results[0].ShareID {
				t.Errorf("%s: has the same ID twice", name)
			}
			for _, results := range [][]resourceapi.AllocationResult{first, second} {
				results[0].Devices.Results[0].ShareID = want[0].Devices.Results[0].ShareID
			}
		}
		if diff := cmp.Diff(want, first); diff != "" {
			t.Errorf("%s: Allocate (-), Feasible (+):\n%s", name, diff)
		}
		for i := range first {
			first[i].NodeSelector.NodeSelectorTerms[0].MatchFields[0].Values[0] = "changed"
			first[i].Devices.Results[0] = resourceapi.DeviceRequestAllocationResult{}
		}
		if diff := cmp.Diff(want, second); diff != "" {
			t.Errorf("%s: results share memory:\n%s", name, diff)
		}
	}
}

// Results repeat what the slice lets nodes skip.
func TestResultsRepeatNodeOperations(t *testing.T) {
	slice := gpus("node-a", 1, "H100")
	slice.Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
	able := node("node-a")
	able.Status.DeclaredFeatures = []string{"DRAOptionalNodeOperations"}
	found, err := compile(allocator.Options{}, claim("c", 1)).Feasible(context.Background(), clusterOf(slice).State(), able)
	if err != nil || found.Verdict() != allocator.Satisfiable {
		t.Fatal(found.Verdict(), err)
	}
	if got := found.Results()[0].Devices.Results[0].SkipNodeOperations; !slices.Equal(got, slice.Spec.SkipNodeOperations) {
		t.Errorf("node operations to skip: %q", got)
	}
}

func TestNilNodeIsAnError(t *testing.T) {
	ledger := clusterOf(gpus("node-a", 2, "H100"))
	if _, err := compile(allocator.Options{}, claim("c", 1)).Allocate(context.Background(), ledger.State(), nil); err == nil {
		t.Error("no error")
	}
}

func TestInputIsNotModified(t *testing.T) {
	slice, c := gpus("node-a", 4, "H100"), sameRoot(claim("training", 2))
	wantSlice, wantClaim := slice.DeepCopy(), c.DeepCopy()
	ledger := clusterOf(slice)
	first := allocate(t, compile(allocator.Options{}, c), ledger, node("node-a")).(*allocator.Assignment)
	second := allocate(t, compile(allocator.Options{}, c), ledger, node("node-a")).(*allocator.Assignment)
	if diff := cmp.Diff(first.Results(), second.Results()); diff != "" {
		t.Errorf("answers differ (-first +second):\n%s", diff)
	}
	if diff := cmp.Diff(wantSlice, slice) + cmp.Diff(wantClaim, c); diff != "" {
		t.Errorf("input was modified (-before +after):\n%s", diff)
	}
}

// Quantities beyond the largest suffix are told apart, though not by their texts.
func TestLargeQuantitiesAreDifferent(t *testing.T) {
	slice := shared(gpus("node-a", 1, "H100"))
	slice.Spec.Devices[0].Capacity["bandwidth"] = resourceapi.DeviceCapacity{Value: resource.MustParse("1000000000000000000001")}
	c := sharing(claim("c", 1, 1))
	for i, value := range []string{"1", "1000000000000000000000"} {
		c.Spec.Devices.Requests[i].Exactly.Capacity.Requests["bandwidth"] = resource.MustParse(value)
	}
	outcome := allocate(t, compile(allocator.Options{}, c), clusterOf(slice), node("node-a"))
	results := outcome.(*allocator.Assignment).Results()[0].Devices.Results
	small, large := results[0].ConsumedCapacity["bandwidth"], results[1].ConsumedCapacity["bandwidth"]
	if small.Cmp(large) >= 0 {
		t.Errorf("consumed %v and %v", small.AsDec(), large.AsDec())
	}
}

// The memory of an allocator does not depend on later changes of a claim object.
func TestClaimsMayChangeAfterwards(t *testing.T) {
	ledger := clusterOf(shared(gpus("node-a", 2, "H100")))
	a := allocator.New(allocator.Options{Features: allocator.AllFeatures()})
	ask := func(c *resourceapi.ResourceClaim) string {
		problem, err := a.Compile([]*resourceapi.ResourceClaim{c}, allocator.ClassMap(gpuClass))
		if err != nil {
			t.Fatal(err)
		}
		assignment, ok := allocate(t, problem, ledger, node("node-a")).(*allocator.Assignment)
		if !ok {
			t.Fatal("not allocated")
		}
		consumed := assignment.Results()[0].Devices.Results[0].ConsumedCapacity["bandwidth"]
		return consumed.String()
	}
	first := sharing(claim("first", 1))
	if got := ask(first); got != "60" {
		t.Fatalf("consumed %s", got)
	}
	first.Spec.Devices.Requests[0].Exactly.Capacity.Requests["bandwidth"] = resource.MustParse("70")
	other := clusterOf(unique(shared(gpus("node-a", 1, "A100"))))
	ledger = other // shapes that were not judged before
	if got := ask(sharing(claim("second", 1))); got != "60" {
		t.Errorf("after the first claim changed, an equal one consumed %s", got)
	}
}

// Many goroutines use one snapshot, ledger and problem while claims come and go.
func TestConcurrentUse(t *testing.T) {
	slices := []*resourceapi.ResourceSlice{gpus("node-a", 8, "H100"), gpus("node-b", 8, "A100")}
	ledger := clusterOf(slices...)
	problem := compile(allocator.Options{}, sameRoot(selecting(claim("training", 2), `device.attributes["gpu.example.com"].model == "H100"`)))
	var group sync.WaitGroup
	for w := range 4 {
		group.Go(func() {
			for i := range 50 {
				outcome, err := problem.Allocate(context.Background(), ledger.State(), node("node-a"))
				if err != nil {
					t.Error(err)
					return
				}
				assignment, ok := outcome.(*allocator.Assignment)
				if !ok || len(assignment.Results()[0].Devices.Results) != 2 {
					t.Errorf("outcome %s", chosen(outcome))
					return
				}
				taken := claim(fmt.Sprintf("taken-%d-%d", w, i), 1)
				taken.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
					Results: []resourceapi.DeviceRequestAllocationResult{{
						Request: "r0", Driver: "gpu.example.com", Pool: "node-a", Device: "gpu-7", AdminAccess: ptr.To(w%2 == 0),
					}},
				}}
				if err := ledger.Assume(taken); err != nil {
					t.Error(err)
				}
				if _, err := problem.Evaluate(context.Background(), ledger.State(), []*corev1.Node{node("node-a"), node("node-b")}, 2); err != nil {
					t.Error(err)
				}
				if err := ledger.Forget(taken); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}
