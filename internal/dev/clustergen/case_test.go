// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen_test

import (
	"reflect"
	"testing"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
)

var profiles = clustergen.Profiles()

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

// Every tag needs its share of the cases, or what it stands for is not tested. A decision excuses cases, so it needs some,
// but few.
func TestEveryTagIsUsed(t *testing.T) {
	const cases = 4000
	counts := make(map[clustergen.Tag]int)
	decided := make(map[string]int)
	for seed := range uint64(cases) {
		c := clustergen.Generate(seed, clustergen.Default)
		for _, tag := range clustergen.Tags(c) {
			counts[tag]++
		}
		if decision := clustergen.Decision(c); decision != "" {
			decided[decision]++
		}
	}
	for _, tag := range clustergen.AllTags() {
		if counts[tag] < cases/50 {
			t.Errorf("%s: in %d of %d cases only", tag, counts[tag], cases)
		}
	}
	for _, decision := range []string{clustergen.DecisionWholePool, clustergen.DecisionMixedGroups, clustergen.DecisionDefaults} {
		if n := decided[decision]; n == 0 || n > cases/100 {
			t.Errorf("decision %s: %d of %d cases fall under it", decision, n, cases)
		}
	}
}

// Every pair of features needs cases with both, and the profile for shares needs what it
// is for.
func TestEveryPairIsUsed(t *testing.T) {
	const cases = 6000
	tags := clustergen.PairTags()
	counts := make(map[[2]clustergen.Tag]int)
	for seed := range uint64(cases) {
		has := clustergen.Tags(clustergen.Generate(seed, clustergen.Pairs))
		for _, first := range has {
			for _, second := range has {
				counts[[2]clustergen.Tag{first, second}]++
			}
		}
	}
	for i, first := range tags {
		for _, second := range tags[i+1:] {
			if n := counts[[2]clustergen.Tag{first, second}]; n < cases/200 {
				t.Errorf("%s with %s: in %d of %d cases only", first, second, n, cases)
			}
		}
	}
}

func TestSharesAreConstrained(t *testing.T) {
	const cases = 1000
	counts := make(map[clustergen.Tag]int)
	for seed := range uint64(cases) {
		for _, tag := range clustergen.Tags(clustergen.Generate(seed, clustergen.Shares)) {
			counts[tag]++
		}
	}
	for tag, least := range map[clustergen.Tag]int{
		clustergen.SharesWithoutCapacity: 950, clustergen.MatchAttribute: 700, clustergen.DistinctAttribute: 200, clustergen.SeveralClaims: 700,
	} {
		if counts[tag] < least {
			t.Errorf("%s: in %d of %d cases only", tag, counts[tag], cases)
		}
	}
}

func TestGatesAreOffInOneFifthOfCases(t *testing.T) {
	off := 0
	for seed := range uint64(1000) {
		if clustergen.Generate(seed, clustergen.Default).Features != allocator.AllFeatures() {
			off++
		}
	}
	if off < 150 || off > 250 {
		t.Errorf("%d of 1000 cases have a gate off", off)
	}
}

// find returns the first case for which a decision applies.
func find(t *testing.T, decision string) *alloctest.Case {
	t.Helper()
	for seed := range uint64(5000) {
		c := clustergen.Generate(seed, clustergen.Default)
		if clustergen.Decision(c) == decision {
			return c
		}
	}
	t.Fatal("no such case")
	return nil
}

func TestDecisionIsDroppedWithItsPool(t *testing.T) {
	c := find(t, clustergen.DecisionWholePool)
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
	c := find(t, clustergen.DecisionWholePool)
	c.Node = "unknown"
	if number := clustergen.Decision(c); number != "" {
		t.Errorf("decision %s applies without a node", number)
	}
}

// Gates has features that let kube-scheduler pick each of upstream's implementations.
func TestGatesPickAllImplementations(t *testing.T) {
	stable, incubating, other := 0, 0, 0
	for seed := range uint64(600) {
		f := clustergen.Generate(seed, clustergen.Gates).Features
		switch {
		case f.CompatibilityGroups || f.DerivedAttributes || f.ListTypeAttributes || f.OptionalNodeOperations:
			other++
		case f.ConsumableCapacity || f.DeviceBindingAndStatus || f.FractionalCapacityRange:
			incubating++
		default:
			stable++
		}
	}
	if min(stable, incubating, other) < 80 {
		t.Errorf("%d stable, %d incubating, %d others", stable, incubating, other)
	}
}
