package clustergen_test

import (
	"reflect"
	"testing"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/clustergen"
)

var profiles = []clustergen.Profile{clustergen.Default, clustergen.Hard}

func TestGenerateRepeats(t *testing.T) {
	for _, profile := range profiles {
		for seed := range uint64(300) {
			if !reflect.DeepEqual(clustergen.Generate(seed, profile), clustergen.Generate(seed, profile)) {
				t.Fatalf("%s seed %d: two cases differ", profile, seed)
			}
		}
	}
}

func TestSeedsDiffer(t *testing.T) {
	a, b := clustergen.Generate(1, clustergen.Default), clustergen.Generate(2, clustergen.Default)
	a.Name = b.Name
	if reflect.DeepEqual(a, b) {
		t.Error("seeds 1 and 2 give the same case")
	}
}

func TestNamesAreUnique(t *testing.T) {
	for _, profile := range profiles {
		for seed := range uint64(500) {
			c := clustergen.Generate(seed, profile)
			names := make(map[string]bool)
			add := func(kind, name string) {
				if name == "" || names[kind+name] {
					t.Fatalf("%s: %s %q is empty or not unique", c.Name, kind, name)
				}
				names[kind+name] = true
			}
			for _, slice := range c.Slices {
				add("slice", slice.Name)
			}
			for _, class := range c.Classes {
				add("class", class.Name)
			}
			for _, claim := range append(c.Allocated, c.Claims...) {
				add("claim", claim.Name)
				add("UID", string(claim.UID))
			}
		}
	}
}

// Every tag needs its share of the cases, or what it stands for is not tested.
func TestEveryTagIsUsed(t *testing.T) {
	const cases = 4000
	counts := make(map[clustergen.Tag]int)
	decided := 0
	for seed := range uint64(cases) {
		c := clustergen.Generate(seed, clustergen.Default)
		for _, tag := range clustergen.Tags(c) {
			counts[tag]++
		}
		if clustergen.Decision(c) != "" {
			decided++
		}
	}
	for _, tag := range clustergen.AllTags() {
		if counts[tag] < cases/50 {
			t.Errorf("%s: in %d of %d cases only", tag, counts[tag], cases)
		}
	}
	if decided == 0 || decided > cases/100 {
		t.Errorf("%d of %d cases fall under a decision", decided, cases)
	}
}

func TestGatesAreOffInAQuarter(t *testing.T) {
	off := 0
	for seed := range uint64(1000) {
		if clustergen.Generate(seed, clustergen.Default).Features != allocator.AllFeatures() {
			off++
		}
	}
	if off < 200 || off > 300 {
		t.Errorf("%d of 1000 cases have a gate off", off)
	}
}

// find returns the first case for which a decision does or does not apply.
func find(t *testing.T, applies bool) *alloctest.Case {
	t.Helper()
	for seed := range uint64(5000) {
		c := clustergen.Generate(seed, clustergen.Default)
		if (clustergen.Decision(c) != "") == applies {
			return c
		}
	}
	t.Fatal("no such case")
	return nil
}

func TestDecisionGoesAwayWithThePool(t *testing.T) {
	c := find(t, true)
	for _, slice := range c.Slices {
		slice.Spec.Pool.Generation = 1
		slice.Spec.Pool.Name = slice.Name
		slice.Spec.Pool.ResourceSliceCount = 1
	}
	if number := clustergen.Decision(c); number != "" {
		t.Errorf("decision %s applies to pools of one slice", number)
	}
}

func TestDecisionNeedsTheNode(t *testing.T) {
	c := find(t, true)
	c.Node = "unknown"
	if number := clustergen.Decision(c); number != "" {
		t.Errorf("decision %s applies without a node", number)
	}
}
