// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"strings"
	"testing"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
	"github.com/dray-project/dray/internal/dev/differential"
)

func TestReduceKeepsOnlyWhatMatters(t *testing.T) {
	tainted := func(c *alloctest.Case) bool {
		for _, slice := range c.Slices {
			for _, device := range slice.Spec.Devices {
				if len(device.Taints) > 0 && len(c.Claims) > 0 {
					return true
				}
			}
		}
		return false
	}
	seed := uint64(0)
	for !tainted(clustergen.Generate(seed, clustergen.Hard)) {
		seed++
	}
	c := clustergen.Generate(seed, clustergen.Hard)
	small := differential.Reduce(c, tainted)
	if len(small.Slices) != 1 || len(small.Slices[0].Spec.Devices) != 1 || len(small.Claims) != 1 ||
		len(small.Claims[0].Spec.Devices.Requests) != 0 || len(small.Allocated) != 0 || len(small.Classes) != 0 || len(small.Nodes) != 1 {
		t.Errorf("not minimal: %+v", small)
	}
	device := small.Slices[0].Spec.Devices[0]
	if len(device.Taints) == 0 || len(device.Attributes) != 0 {
		t.Errorf("device is not minimal: %+v", device)
	}
	if len(c.Slices[0].Spec.Devices) == 0 || len(c.Nodes) < 2 {
		t.Error("the original case was modified")
	}
}

// Every edit has to change something, or reducing would not end.
func TestReduceEnds(t *testing.T) {
	for seed := range uint64(200) {
		c := clustergen.Generate(seed, clustergen.Default)
		small := differential.Reduce(c, func(*alloctest.Case) bool { return true })
		if len(small.Slices)+len(small.Classes)+len(small.Allocated) != 0 || len(small.Claims) != 1 {
			t.Errorf("seed %d: something is left: %+v", seed, small)
		}
	}
}

func TestReducedDisagreementIsAScenario(t *testing.T) {
	wrongly := comparer(wrong(func(_ *alloctest.Case, o *alloctest.Outcome) { o.Results = nil }))
	r := differential.Run{Comparer: wrongly, Cases: 30, Seed: 1, Profile: clustergen.Default, Workers: 1}
	report := r.Do(t.Context())
	if len(report.Disagreed) == 0 {
		t.Fatal("no disagreement to reduce")
	}
	reduced := wrongly.Reduce(t.Context(), report.Disagreed[0])
	if reduced.Verdict.Disagreement == "" || len(reduced.Case.Slices) > 1 {
		t.Errorf("not reduced: %+v", reduced)
	}
	text, err := reduced.Scenario()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(text, "# ours is unsatisfiable, the peer's satisfiable") {
		t.Errorf("no reason in:\n%s", text)
	}
	scenarios, err := alloctest.Parse("reduced.txt", text)
	if err != nil || len(scenarios) != 1 {
		t.Errorf("not one scenario (%v):\n%s", err, text)
	}
	if _, err := reduced.Write(t.TempDir()); err != nil {
		t.Error(err)
	}
}
