// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/cmd/dray/internal/input"
	"github.com/dray-project/dray/simulate"
)

// forEachExample reads each folder of examples/.
func forEachExample(t *testing.T, test func(t *testing.T, objects *input.Objects)) {
	t.Helper()
	examples, err := filepath.Glob("../../../../examples/*/*.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatalf("%d examples, error %v", len(examples), err)
	}
	seen := make(map[string]bool)
	for _, path := range examples {
		folder := filepath.Dir(path)
		if seen[folder] {
			continue
		}
		seen[folder] = true
		t.Run(filepath.Base(folder), func(t *testing.T) {
			objects, err := input.Read([]string{folder}, nil, input.Options{})
			if err != nil {
				t.Fatal(err)
			}
			test(t, objects)
		})
	}
}

func newCluster(t *testing.T, objects *input.Objects) *Cluster {
	t.Helper()
	c, err := New(objects, Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// read is a cluster of manifests.
func read(t *testing.T, manifests string) *Cluster {
	t.Helper()
	objects, err := input.Read([]string{input.Stdin}, strings.NewReader(manifests), input.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return newCluster(t, objects)
}

// A survey of all nodes says the same as looking for the first that fits.
func TestSurveyAgreesWithPlace(t *testing.T) {
	forEachExample(t, func(t *testing.T, objects *input.Objects) {
		c := newCluster(t, objects)
		for _, w := range c.Workloads() {
			placed, err := c.Place(context.Background(), w, c.Nodes)
			if err != nil {
				t.Fatal(err)
			}
			surveyed, err := c.Survey(context.Background(), w, c.Nodes, nil)
			if err != nil {
				t.Fatal(err)
			}
			if placed.Node != surveyed.Node {
				t.Errorf("%s: placed on %q, surveyed to go to %q", w, placed.Node, surveyed.Node)
			}
			if asked := len(surveyed.Fits) + len(surveyed.Refusals); asked != len(c.Nodes) {
				t.Errorf("%s: the survey covers %d of %d nodes", w, asked, len(c.Nodes))
			}
			if err := c.Keep(placed); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Each refusal is in exactly one group, and the closest node of a group is one of its nodes.
func TestGroupsCoverRefusals(t *testing.T) {
	forEachExample(t, func(t *testing.T, objects *input.Objects) {
		c := newCluster(t, objects)
		placements, err := c.Run(context.Background(), c.Workloads(), c.Nodes, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range placements {
			grouped := make(map[string]int)
			for _, group := range GroupRefusals(p.Refusals) {
				members := make(map[string]bool)
				for _, node := range group.Nodes {
					grouped[node]++
					members[node] = true
				}
				if !members[group.Closest] || group.Summary == "" {
					t.Errorf("%s: group of %d nodes: closest is %q, summary %q", p.Workload, len(group.Nodes), group.Closest, group.Summary)
				}
			}
			for _, refusal := range p.Refusals {
				if grouped[refusal.Node] != 1 {
					t.Errorf("%s: node %s is in %d groups", p.Workload, refusal.Node, grouped[refusal.Node])
				}
			}
		}
	})
}

// Placing modifies none of the objects read, and placing them again, in a new
// cluster, gives the same down to UIDs.
func TestRunRepeats(t *testing.T) {
	forEachExample(t, func(t *testing.T, objects *input.Objects) {
		before := copyClaims(objects.Claims)
		var first []*resourceapi.ResourceClaim
		for range 2 {
			c := newCluster(t, objects)
			placements, err := c.Run(context.Background(), c.Workloads(), c.Nodes, nil)
			if err != nil {
				t.Fatal(err)
			}
			var claims []*resourceapi.ResourceClaim
			for _, p := range placements {
				claims = append(claims, p.FinalClaims()...)
			}
			if first == nil {
				first = claims
			}
			if diff := cmp.Diff(first, claims); diff != "" {
				t.Errorf("the second run differs (-first +second):\n%s", diff)
			}
		}
		if diff := cmp.Diff(before, objects.Claims); diff != "" {
			t.Errorf("claims were modified (-before +after):\n%s", diff)
		}
	})
}

func copyClaims(claims []*resourceapi.ResourceClaim) []*resourceapi.ResourceClaim {
	var copies []*resourceapi.ResourceClaim
	for _, claim := range claims {
		copies = append(copies, claim.DeepCopy())
	}
	return copies
}

func TestCancelled(t *testing.T) {
	forEachExample(t, func(t *testing.T, objects *input.Objects) {
		c := newCluster(t, objects)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := c.Run(ctx, c.Workloads(), c.Nodes, nil); err == nil {
			t.Error("a run with a cancelled context has no error")
		}
	})
}

// A simulation gives pods the nodes and devices that asking node by node does, also where claims ask for
// more than v1 knows.
func TestSimulationLikePlace(t *testing.T) {
	extended, placed := 0, 0
	forEachExample(t, func(t *testing.T, objects *input.Objects) {
		c := newCluster(t, objects)
		if slices.ContainsFunc(c.Workloads(), func(w Workload) bool { return w.Pod == nil }) {
			return // claims without pods are not simulated
		}
		state, err := c.Simulation()
		if err != nil {
			t.Fatal(err)
		}
		sim := state.Sim()
		for _, w := range c.Workloads() {
			var want *Placement
			for _, node := range c.Nodes {
				if want, err = c.Place(t.Context(), w, []*corev1.Node{node}); err != nil {
					t.Fatal(err)
				}
				if want.Placed() {
					break
				}
			}
			result, err := sim.Place(t.Context(), w.Pod, simulate.Real(nil), simulate.FirstFit)
			if err != nil {
				t.Fatal(err)
			}
			if result.All() != want.Placed() {
				t.Fatalf("%s: placed on %q; simulated: %d placed, %d undecided (%v)", w, want.Node, result.Placed, result.Undecided, result.Err)
			}
			for p := range result.Placements() {
				simulated, err := p.Claims(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(devicesOf(allocatedNow(want)), devicesOf(simulated)); diff != "" || p.Node.Name() != want.Node {
					t.Fatalf("%s: placed on %s, simulated on %s (-placed +simulated):\n%s", w, want.Node, p.Node.Name(), diff)
				}
				placed++
				if slices.ContainsFunc(simulated, func(claim *resourceapi.ResourceClaim) bool { return claim.Annotations[extension.Annotation] != "" }) {
					extended++
				}
			}
			if err := c.Keep(want); err != nil {
				t.Fatal(err)
			}
		}
	})
	if extended == 0 || placed == 0 {
		t.Errorf("%d pods are placed, %d of them with claims that ask for more", placed, extended)
	}
}

// allocatedNow are the claims that a placement allocates.
func allocatedNow(p *Placement) []*resourceapi.ResourceClaim {
	var list []*resourceapi.ResourceClaim
	for i, claim := range p.Claims {
		if p.Before[i].Status.Allocation == nil {
			list = append(list, claim)
		}
	}
	return list
}

// devicesOf lists what claims hold, claim by claim.
func devicesOf(claims []*resourceapi.ResourceClaim) [][]string {
	var all [][]string
	for _, claim := range claims {
		var list []string
		for _, result := range claim.Status.Allocation.Devices.Results {
			list = append(list, result.Request+" "+result.Driver+"/"+result.Pool+"/"+result.Device)
		}
		all = append(all, list)
	}
	return all
}
