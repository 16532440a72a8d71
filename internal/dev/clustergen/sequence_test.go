// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen_test

import (
	"reflect"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
)

// play draws turns in which each claim gets the first device there is.
func play(seed uint64, turns int, visit func(last *alloctest.Case, t alloctest.Turn)) {
	s := clustergen.NewSequence(seed, clustergen.Pairs)
	turn, last := s.First(), &alloctest.Case{}
	for range turns {
		visit(last, turn)
		c := turn.After(last)
		last = c.WithAllocated(anyDevice(c))
		turn = s.Next(last)
	}
}

func anyDevice(c *alloctest.Case) []resourceapi.AllocationResult {
	results := make([]resourceapi.AllocationResult, len(c.Claims))
	for i := range results {
		for _, slice := range c.Slices {
			for _, device := range slice.Spec.Devices {
				results[i].Devices.Results = []resourceapi.DeviceRequestAllocationResult{
					{Request: "r0", Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: device.Name},
				}
			}
		}
	}
	return results
}

func TestSequencesRepeat(t *testing.T) {
	for seed := range uint64(50) {
		var first, second []alloctest.Turn
		play(seed, 6, func(_ *alloctest.Case, turn alloctest.Turn) { first = append(first, turn) })
		play(seed, 6, func(_ *alloctest.Case, turn alloctest.Turn) { second = append(second, turn) })
		if !reflect.DeepEqual(first, second) {
			t.Fatalf("seed %d: two sequences differ", seed)
		}
	}
}

// Every kind of change has to occur between turns.
func TestSequencesChange(t *testing.T) {
	changes := make(map[string]int)
	count := func(what string, happened bool) {
		if happened {
			changes[what]++
		}
	}
	for seed := range uint64(200) {
		play(seed, 10, func(last *alloctest.Case, turn alloctest.Turn) {
			if len(last.Slices) == 0 {
				return
			}
			count("slice gone", len(turn.Gone) > 0)
			count("claim released", len(turn.Released) > 0)
			count("dry run", turn.DryRun)
			before := make(map[string]*resourceapi.ResourceSlice)
			for _, slice := range last.Slices {
				before[slice.Name] = slice
			}
			for _, slice := range turn.Case.Slices {
				old := before[slice.Name]
				if count("slice back", old == nil); old == nil {
					continue
				}
				count("generation", old.Spec.Pool.Generation < slice.Spec.Pool.Generation)
				count("device added", len(old.Spec.Devices) < len(slice.Spec.Devices))
				count("device removed", len(old.Spec.Devices) > len(slice.Spec.Devices))
				count("counters", !reflect.DeepEqual(old.Spec.SharedCounters, slice.Spec.SharedCounters))
				for i := range min(len(old.Spec.Devices), len(slice.Spec.Devices)) {
					was, is := old.Spec.Devices[i], slice.Spec.Devices[i]
					count("taints", was.Name == is.Name && !reflect.DeepEqual(was.Taints, is.Taints))
					count("attributes", was.Name == is.Name && !reflect.DeepEqual(was.Attributes, is.Attributes))
					count("sharing", was.Name == is.Name && !reflect.DeepEqual(was.AllowMultipleAllocations, is.AllowMultipleAllocations))
				}
			}
		})
	}
	for _, what := range []string{
		"slice gone", "slice back", "claim released", "dry run", "generation", "device added", "device removed", "counters",
		"taints", "attributes", "sharing",
	} {
		if changes[what] < 10 {
			t.Errorf("%s: %d times in 2000 turns", what, changes[what])
		}
	}
}
