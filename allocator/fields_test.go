// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/internal/dev/fieldworld"
	"github.com/dray-project/dray/internal/keys"
	"github.com/dray-project/dray/internal/reads"
)

// fieldUser is an Allocator, with all parts of its keys.
var fieldUser = fieldworld.User{
	Open: openForFields,
	Omissions: slices.Concat(
		keys.Omissions(&keys.Device), keys.Omissions(&keys.Taint), keys.Omissions(&keys.Pool), keys.Omissions(&keys.Node), keys.Omissions(&keys.Capacity),
		keys.Omissions(&keys.Attribute), keys.Omissions(&eligibility.Selected), keys.Omissions(&eligibility.Filtered), keys.Omissions(&eligibility.Tolerated),
		keys.Omissions(&claims.Asked), keys.Omissions(&claims.Constrained), keys.Omissions(&claims.Seen)),
	Sampled: 200, All: os.Getenv("DRAY_FIELDS") == "all",
}

// The keys of an Allocator cover each row of the table that they have to, and no other.
func TestKeysCoverTheTable(t *testing.T) {
	fieldUser.Covered(t, map[keys.Row]string{
		{Root: reads.Slice, Path: "Spec.Driver"}:                  "selectors read it: package cel",
		{Root: reads.Slice, Path: "Spec.Pool.ResourceSliceCount"}: "a pool that is not complete is unusable: package alike",
	})
}

// Answers of an Allocator depend on each field as the table says.
func TestEachFieldDecidesAsTheTableSays(t *testing.T) { fieldUser.Judge(t) }

// programs are shared by all allocators of these tests: what is compiled depends on nothing else.
var programs = cel.NewCache(4096)

// unasked is an allocator that was asked nothing before. All that it has of others are compiled expressions.
func unasked(options allocator.Options) *allocator.Allocator {
	options.Memory = allocator.NewMemory(allocator.MemoryOptions{Programs: programs})
	return allocator.New(options)
}

func openForFields(t *testing.T, sides ...*fieldworld.Side) fieldworld.Ask {
	t.Helper()
	features := allocator.AllFeatures()
	features.DeviceBindingAndStatus = !sides[0].InUse
	a := unasked(allocator.Options{Features: features})
	var published []*resourceapi.ResourceSlice
	read := map[string]bool{}
	for _, side := range sides {
		if !read[side.Node.Name] {
			published = append(published, side.Slices...)
		}
		read[side.Node.Name] = true
	}
	ledger := clusterOf(published...)
	for _, node := range slices.Sorted(maps.Keys(read)) {
		for _, used := range fieldworld.Used(node) {
			if err := ledger.Assume(used); sides[0].InUse && err != nil {
				t.Fatal(err)
			} else if !sides[0].InUse && err == nil {
				if err := ledger.Forget(used); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	state := ledger.State()
	return func(t *testing.T, side *fieldworld.Side, c *resourceapi.ResourceClaim) fieldworld.Answer {
		t.Helper()
		problem, err := a.Compile([]*resourceapi.ResourceClaim{c}, allocator.ClassMap(side.Classes()...))
		if err != nil {
			return fieldworld.Answer{Devices: "error", Results: err.Error()}
		}
		outcome, err := problem.Allocate(t.Context(), state, side.Node)
		if err != nil {
			return fieldworld.Answer{Devices: "error: " + allocator.General(err), Results: err.Error()}
		}
		switch found := outcome.(type) {
		case *allocator.Assignment:
			return fieldAnswer(t, found)
		case *allocator.Unsatisfiable:
			if side.Explains {
				return fieldworld.Answer{Devices: "none", Results: found.Explain().Text()}
			}
			return fieldworld.Answer{Devices: "none"}
		}
		return fieldworld.Answer{Devices: fmt.Sprintf("%T", outcome)}
	}
}

func fieldAnswer(t *testing.T, found *allocator.Assignment) (answer fieldworld.Answer) {
	t.Helper()
	for _, choice := range found.Choices() {
		answer.Devices += fmt.Sprintf("%s=%s ", choice.Request, choice.Device.Device)
	}
	results := found.Results()
	for _, r := range results {
		for _, d := range r.Devices.Results {
			for _, name := range slices.Sorted(maps.Keys(d.ConsumedCapacity)) {
				taken := d.ConsumedCapacity[name]
				answer.Devices += taken.String()
			}
		}
		text, err := r.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		answer.Results += string(text)
	}
	return answer
}
