// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package structured

import (
	"errors"
	"fmt"
	"math"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
)

// The pool of node-3 has a name twice.
const onThreeNodes = `
cluster
node node-1
node node-2
node node-3
class gpu
slice gpu.example.com/node-1 on node-1
  gpu-0
  gpu-1
slice gpu.example.com/node-2 on node-2
  gpu-[0..5]
slice gpu.example.com/node-3 on node-3
  gpu-0
  gpu-0
----

allocate pair node=node-1
claim pair
  request first class=gpu
  request second class=gpu
----
pair/first -> gpu.example.com/node-1/gpu-0
pair/second -> gpu.example.com/node-1/gpu-1
pair on node-1
`

// An error that ends the search on one node is an error of that node: the scheduler continues with the next.
// It counts nodes by the text, which therefore contains no node name and no number.
func TestErrorsOfTheNode(t *testing.T) {
	scenarios, err := alloctest.Parse("errors.txt", onThreeNodes)
	if err != nil {
		t.Fatal(err)
	}
	c := scenarios[0].Case
	const spent, invalid = "undecided: the search used up its step budget", "invalid resource pools were found"
	for _, test := range []struct {
		budget int64
		want   [3]string
	}{
		{1, [3]string{spent, spent, invalid}},
		{allocator.DefaultBudget, [3]string{"", "", invalid}},
	} {
		a, err := NewAllocatorWith(t.Context(), Options{Budget: test.budget, MaxBudget: test.budget}, Features(c.Features), AllocatedState{}, classList(c.Classes), c.Slices, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range test.want {
			results, err := a.Allocate(t.Context(), c.Nodes[i], c.Claims)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != want || (results == nil) != (want != "") {
				t.Errorf("budget %d, node %d: %d results, error %q, want %q", test.budget, i+1, len(results), text, want)
			}
			if err != nil && !errors.Is(err, ErrFailedAllocationOnNode) || errors.Is(err, ErrUndecided) != (want == spent) {
				t.Errorf("budget %d, node %d: error %v has the wrong kind", test.budget, i+1, err)
			}
		}
	}
}

// Each allocator after one whose searches were given up has four times its budget for these claims, up to a limit.
func TestBudgetGrowsWithAttempts(t *testing.T) {
	scenarios, err := alloctest.Parse("errors.txt", onThreeNodes)
	if err != nil {
		t.Fatal(err)
	}
	c := scenarios[0].Case
	// What other claims came to is remembered for those that ask for the same, so each asks in its own way.
	undecided := func(o Options, uid types.UID, asks string) bool {
		a, err := NewAllocatorWith(t.Context(), o, Features(c.Features), AllocatedState{}, classList(c.Classes), c.Slices, nil)
		if err != nil {
			t.Fatal(err)
		}
		claim := c.Claims[0].DeepCopy()
		claim.UID = uid
		exactly := claim.Spec.Devices.Requests[0].Exactly
		exactly.Selectors = append(exactly.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{
			Expression: fmt.Sprintf("device.driver != %q", asks),
		}})
		var last error
		for range 2 { // as for two nodes of one attempt
			_, last = a.Allocate(t.Context(), c.Nodes[0], []*resourceapi.ResourceClaim{claim})
		}
		if last != nil && !errors.Is(last, ErrUndecided) {
			t.Fatal(last)
		}
		return last != nil
	}
	if !undecided(Options{Budget: 1}, "a", "a") || undecided(Options{Budget: 16}, "b", "b") {
		t.Fatal("one step is too many, or 16 are too few")
	}
	for name, tc := range map[string]struct {
		o       Options
		decided bool
	}{
		"grows":                {Options{Budget: 1}, true},
		"grows up to a limit":  {Options{Budget: 1, MaxBudget: 2}, false},
		"does not grow":        {Options{Budget: 1, MaxBudget: 1}, false},
		"a limit that is less": {Options{Budget: 2, MaxBudget: 1}, false},
	} {
		uid := types.UID(name)
		first := undecided(tc.o, uid, name)
		second := undecided(tc.o, uid, name)
		second = undecided(tc.o, uid, name) && second
		if !first || second == tc.decided || !undecided(tc.o, uid+"another", name+" another") {
			t.Errorf("%s: undecided is %v at first, and %v later", name, first, second)
		}
	}
	// A caller with a smaller limit is not given more than that.
	if !undecided(Options{Budget: 1, MaxBudget: 1}, "grows", "what nobody asked") {
		t.Error("the limit of another caller counts")
	}
	if o := (Options{Budget: math.MaxInt64 - 1}).withDefaults(); o.MaxBudget != math.MaxInt64 {
		t.Errorf("a large budget grows to %d", o.MaxBudget)
	}
}

type classList []*resourceapi.DeviceClass

func (l classList) List() ([]*resourceapi.DeviceClass, error) { return l, nil }

func (l classList) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range l {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("no class %s", name)
}
