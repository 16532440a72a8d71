// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/peer"
	"github.com/dray-project/dray/simulate"
)

// Extensions of claims are simulated as they are allocated step by step.
func TestExtendedLikeStepByStep(t *testing.T) {
	seen := make(map[string]int)
	for seed := range sequences(t, 100) {
		g := &game{T: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 33)), seen: seen, extended: true}
		if !g.begin(peer.Dray()) {
			continue
		}
		for range 8 {
			switch n := g.rand.IntN(10); {
			case n < 7:
				g.place(1 + g.rand.IntN(3))
			case n < 8:
				g.fits()
			case n < 9:
				g.taint()
			default:
				g.drain()
			}
		}
	}
	t.Logf("seen: %v", seen)
	allSeen(t, seen, "placed", "unfit", "shared", "fits", "drained", "match across", "preferred", "preferred across", "up to", "classes", "capacities", "limits")
}

// extend has a template ask for something more.
func (g *game) extend(template *resourceapi.ResourceClaimTemplate, c *alloctest.Case) {
	template.Spec.Spec = *template.Spec.Spec.DeepCopy()
	for _, request := range template.Spec.Spec.Devices.Requests {
		if request.Exactly != nil {
			request.Exactly.AdminAccess = nil // see TestLinkUnknown
		}
	}
	attributes, capacities := namesOf(c)
	pick := func(list []string) resourceapi.FullyQualifiedName {
		return resourceapi.FullyQualifiedName(list[g.rand.IntN(min(2, len(list)))])
	}
	var more extension.Claim
	switch n := g.rand.IntN(8); {
	case n == 0 && len(attributes) > 0:
		more.MatchAcross = append(more.MatchAcross, pick(attributes))
		g.seen["match across"]++
	case n == 1 && len(attributes) > 0:
		more.Preferred = append(more.Preferred, extension.Preference{MatchAttribute: pick(attributes)})
		g.seen["preferred"]++
	case n == 2 && len(attributes) > 0:
		more.Preferred = append(more.Preferred, extension.Preference{MatchAttribute: pick(attributes), Across: true})
		g.seen["preferred across"]++
	case n == 3 && len(capacities) > 0:
		more.MatchCapacities = append(more.MatchCapacities, extension.CapacityMatch{Capacity: pick(capacities)})
		g.seen["capacities"]++
	case n == 7 && len(attributes) > 0:
		more.MaxDistinct = append(more.MaxDistinct, extension.DistinctLimit{Attribute: pick(attributes), Most: 1})
		g.seen["limits"]++
	case n < 6:
		for _, request := range template.Spec.Spec.Devices.Requests {
			if request.Exactly == nil {
				continue
			}
			asked := extension.Request{UpTo: max(1, request.Exactly.Count) + 1}
			if g.seen["up to"]++; n == 5 {
				other := c.Classes[g.rand.IntN(len(c.Classes))].Name
				asked = extension.Request{Classes: []extension.Class{{DeviceClassName: other, Selectors: request.Exactly.Selectors}}}
				g.seen["classes"]++
			}
			more.Requests = map[string]extension.Request{request.Name: asked}
			break
		}
	}
	claim := &resourceapi.ResourceClaim{}
	if err := more.Annotate(claim); err != nil {
		g.Fatal(err)
	}
	template.Spec.Annotations = claim.Annotations
}

// namesOf lists the attributes and capacities of the devices of a case.
func namesOf(c *alloctest.Case) (attributes, capacities []string) {
	has := make(map[string]bool)
	hasCapacity := make(map[string]bool)
	for _, slice := range c.Slices {
		full := func(name string) string {
			if strings.Contains(name, "/") {
				return name
			}
			return slice.Spec.Driver + "/" + name
		}
		for _, device := range slice.Spec.Devices {
			for name := range device.Attributes {
				has[full(string(name))] = true
			}
			for name := range device.Capacity {
				hasCapacity[full(string(name))] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(has)), slices.Sorted(maps.Keys(hasCapacity))
}

// A faulty annotation is a fault, and makes pods with the claim an error that names it. Without
// Options.Extensions, nobody reads it.
func TestExtensionErrors(t *testing.T) {
	c := gpuCluster("a")
	c.Templates[0].Spec.Annotations = map[string]string{extension.Annotation: `{"upTo": 3}`}
	state := open(t, c, simulate.Options{Extensions: true})
	if faults := state.Faults(); len(faults) != 1 || !strings.Contains(faults[0].Error(), "ResourceClaimTemplate default/one: ") {
		t.Errorf("faults are %v", faults)
	}
	if _, err := state.Shapes(gpuPods("one", 1)); err == nil || !strings.Contains(err.Error(), `spec.resourceClaims gpus: claim default/`) || !strings.Contains(err.Error(), extension.Annotation) {
		t.Errorf("the pod: %v", err)
	}
	if found := fit(t, state, shapeOf(t, state, gpuPods("two", 1)), simulate.Real(nil)); found.Pods != 2 {
		t.Errorf("%d other pods fit, want 2", found.Pods)
	}
	plain := open(t, c, simulate.Options{})
	if found := fit(t, plain, shapeOf(t, plain, gpuPods("one", 1)), simulate.Real(nil)); found.Pods != 4 || len(plain.Faults()) != 0 {
		t.Errorf("without extensions %d pods fit, faults %v; want 4 and none", found.Pods, plain.Faults())
	}
}

// Pods get up to as many as they ask for, so that fewer fit than by their count.
func TestExtensionUpTo(t *testing.T) {
	c := gpuCluster("a", "b")
	c.Templates[0].Spec.Annotations = map[string]string{extension.Annotation: `{"requests": {"gpus": {"upTo": 3}}}`}
	state := open(t, c, simulate.Options{Extensions: true})
	shape := shapeOf(t, state, gpuPods("one", 1))
	if found := fit(t, state, shape, simulate.Real(nil)); found.Pods != 4 {
		t.Errorf("%d pods fit, want two on each node: one with three GPUs, one with one", found.Pods)
	}
}

// Devices of a class that may serve a request besides its own are seen wherever they are.
func TestExtensionClasses(t *testing.T) {
	c := gpuCluster("a")
	around := gpuSlice("nics", 2)
	around.Spec.Driver, around.Spec.NodeName, around.Spec.AllNodes = "nic.example.com", nil, ptr.To(true)
	c.Slices = append(c.Slices, around)
	nic := c.Classes[0].DeepCopy()
	nic.Name, nic.Spec.Selectors[0].CEL.Expression = "nic", `device.driver == "nic.example.com"`
	c.Classes = append(c.Classes, nic)
	c.Templates[0].Spec.Annotations = map[string]string{extension.Annotation: `{"requests": {"gpus": {"classes": [{"deviceClassName": "nic"}]}}}`}
	state := open(t, c, simulate.Options{Extensions: true})
	if found := fit(t, state, shapeOf(t, state, gpuPods("one", 1)), simulate.Real(nil)); found.Pods != 6 {
		t.Errorf("%d pods fit, want one for each of 4 GPUs and 2 NICs", found.Pods)
	}
}

// A constraint with devices of an allocated claim holds, unless these have admin access: then it is unknown.
func TestLinkUnknown(t *testing.T) {
	c := gpuCluster("a")
	for d := range c.Slices[0].Spec.Devices {
		c.Slices[0].Spec.Devices[d].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"numa": {IntValue: ptr.To(int64(d % 2))}}
	}
	across := map[string]string{extension.Annotation: `{"matchAcross": ["gpu.example.com/numa"]}`}
	c.Templates[0].Spec.Annotations = across
	for admin, want := range map[bool]string{false: "1 0 0", true: "0 0 1"} {
		shared := &resourceapi.ResourceClaim{Spec: *c.Templates[0].Spec.Spec.DeepCopy()}
		shared.Namespace, shared.Name, shared.Annotations = "default", "shared", across
		shared.Spec.Devices.Requests[0].Exactly.AdminAccess = &admin
		c.Claims = []*resourceapi.ResourceClaim{shared}
		state := open(t, c, simulate.Options{Extensions: true})
		first, second := gpuPods("one", 2)[0], gpuPods("one", 2)[1]
		first.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "shared", ResourceClaimName: &shared.Name}}
		second.Spec.ResourceClaims = append(second.Spec.ResourceClaims, first.Spec.ResourceClaims...)
		sim := state.Sim()
		if r, err := sim.Place(t.Context(), first, simulate.Real(nil), simulate.FirstFit); err != nil || !r.All() {
			t.Fatalf("admin %t: the first pod: %d placed, %v", admin, r.Placed, err)
		}
		r, err := sim.Place(t.Context(), second, simulate.Real(nil), simulate.FirstFit)
		if got := fmt.Sprint(r.Placed, r.Unfit, r.Undecided); err != nil || got != want || admin && r.Err == nil {
			t.Errorf("admin %t: placed, unfit, undecided: %s (%v), %v; want %s", admin, got, r.Err, err, want)
		}
		for placement := range r.Placements() {
			if claims, err := placement.Claims(t.Context()); err != nil || claims[0].Status.Allocation.Devices.Results[0].Device != "gpu-2" {
				t.Errorf("the claim that is to match gpu-0 has %+v, %v; want gpu-2", claims[0].Status.Allocation, err)
			}
		}
	}
}
