// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/pools"
)

// pod is what a pod asks for.
type pod struct {
	claims     []*resourceapi.ResourceClaim
	extensions []extension.Claim // nil for none
}

// ask asks about node a, or node large if there are many devices.
func (p pod) ask(t *testing.T, with *allocator.Allocator, state *pools.State) string {
	t.Helper()
	if p.extensions == nil {
		p.extensions = make([]extension.Claim, len(p.claims))
	}
	problem, err := with.CompileExtended(p.claims, p.extensions, allocator.ClassMap(gpuClass))
	if err != nil {
		t.Fatal(err)
	}
	on := node("a")
	if exactly := p.claims[0].Spec.Devices.Requests[0].Exactly; exactly != nil && exactly.Count > 6 {
		on = node("large")
	}
	outcome, err := problem.Allocate(t.Context(), state, on)
	if err != nil {
		return "error"
	}
	return describeOutcome(outcome)
}

// models is a claim with a request for each model.
func models(names ...string) *resourceapi.ResourceClaim {
	c := claim("c")
	for i, name := range names {
		wanted := selecting(claim("c", 1), `device.attributes["gpu.example.com"].model == "`+name+`"`).Spec.Devices.Requests[0]
		wanted.Name = fmt.Sprint("r", i)
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, wanted)
	}
	return c
}

// changed changes the first request of a claim.
func changed(c *resourceapi.ResourceClaim, change func(*resourceapi.ExactDeviceRequest)) *resourceapi.ResourceClaim {
	change(c.Spec.Devices.Requests[0].Exactly)
	return c
}

// constrained adds a constraint to a claim.
func constrained(c *resourceapi.ResourceClaim, constraint resourceapi.DeviceConstraint) *resourceapi.ResourceClaim {
	c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints, constraint)
	return c
}

// mixedState has node a with several models, of which gpu-0 is in use and gpu-3 has a taint, and node large with many devices.
func mixedState(t *testing.T) *pools.State {
	t.Helper()
	mixed := gpus("a", 6, "H100")
	for i, model := range []string{"H100", "H100", "A100", "T4", "H100", "A100"} {
		d := &mixed.Spec.Devices[i]
		d.Attributes["model"], d.Attributes["slot"] = resourceapi.DeviceAttribute{StringValue: &model}, resourceapi.DeviceAttribute{IntValue: ptr.To(int64(i))}
		d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("8")}, "cores": {Value: resource.MustParse("2")}}
	}
	mixed.Spec.Devices[3].Taints = []resourceapi.DeviceTaint{{Key: "soft", Value: "x", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	ledger := clusterOf(mixed, gpus("large", 40, "H100"))
	if err := ledger.Assume(holder("held", &smallDevice{DeviceID: pools.DeviceID{Driver: "gpu.example.com", Pool: "a", Device: "gpu-0"}})); err != nil {
		t.Fatal(err)
	}
	return ledger.State()
}

// compareUnlike asks an allocator that remembers answers for two pods, one after the other, which do not get the same.
func compareUnlike(t *testing.T, pairs map[string][2]pod) {
	t.Helper()
	state := mixedState(t)
	for name, pair := range pairs {
		for i := range pair {
			remembering := allocator.New(allocator.Options{Features: allocator.AllFeatures()})
			first, second := pair[i], pair[1-i]
			want := second.ask(t, unasked(allocator.Options{Features: allocator.AllFeatures()}), state)
			if got := first.ask(t, remembering, state); got == want {
				t.Errorf("%s: both have %s", name, got)
			}
			if got := second.ask(t, remembering, state); got != want {
				t.Errorf("%s: got %s, by itself %s", name, got, want)
			}
		}
	}
}

func podOf(claims ...*resourceapi.ResourceClaim) pod { return pod{claims: claims} }

func podWith(c *resourceapi.ResourceClaim, x extension.Claim) pod {
	return pod{[]*resourceapi.ResourceClaim{c}, []extension.Claim{x}}
}

// matched wants the devices of some requests to have one value of an attribute of their driver.
func matched(c *resourceapi.ResourceClaim, id string, requests ...string) *resourceapi.ResourceClaim {
	return constrained(c, resourceapi.DeviceConstraint{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("gpu.example.com/" + id)), Requests: requests})
}

// Claims with different constraints are not equivalent, nor are those that constrain other requests.
func TestNotEquivalentClaims(t *testing.T) {
	tolerant := func(counts ...int64) *resourceapi.ResourceClaim { return tolerating(claim("c", counts...), "soft") }
	request := func(r extension.Request) pod {
		return podWith(claim("c", 1), extension.Claim{Requests: map[string]extension.Request{"r0": r}})
	}
	total := func(name resourceapi.QualifiedName, value string) pod {
		return request(extension.Request{Totals: map[resourceapi.QualifiedName]resource.Quantity{name: resource.MustParse(value)}})
	}
	crossed := func(a, b, c, d string) pod {
		return podOf(matched(matched(tolerant(1, 1, 1, 1), "root", a, b), "model", c, d))
	}
	either := claim("c", 1)
	either.Spec.Devices.Requests[0] = resourceapi.DeviceRequest{Name: "r0"}
	for i, r := range models("H100", "A100").Spec.Devices.Requests {
		either.Spec.Devices.Requests[0].FirstAvailable = append(either.Spec.Devices.Requests[0].FirstAvailable, resourceapi.DeviceSubRequest{
			Name: fmt.Sprint("s", i), DeviceClassName: "gpu", AllocationMode: r.Exactly.AllocationMode, Count: 1, Selectors: r.Exactly.Selectors,
		})
	}
	compareUnlike(t, map[string][2]pod{
		"which of three wants which": {podOf(models("H100", "A100", "H100")), podOf(models("H100", "A100", "A100"))},
		"constraint that covers it":  {crossed("r0", "r1", "r2", "r3"), crossed("r2", "r3", "r0", "r1")},
		"count":                      {podOf(claim("c", 1)), podOf(claim("c", 2))},
		"number of devices":          {request(extension.Request{UpTo: 2}), request(extension.Request{})},
		"claims":                     {podOf(claim("c", 20, 20)), podOf(claim("c", 20), claim("d", 20))},
		"alternatives":               {podOf(either), podOf(models("H100", "A100"))},
		"total":                      {total("memory", "8"), total("memory", "9")},
		"capacity of the total":      {total("memory", "3"), total("cores", "3")},
		"kind of constraint": {
			podOf(matched(claim("c", 2), "model")),
			podOf(constrained(claim("c", 2), resourceapi.DeviceConstraint{DistinctAttribute: ptr.To(resourceapi.FullyQualifiedName("gpu.example.com/model"))})),
		},
		"attribute":               {podOf(matched(tolerant(2), "root")), podOf(matched(tolerant(2), "slot"))},
		"constraint":              {podOf(claim("c", 2)), podOf(matched(claim("c", 2), "slot"))},
		"requests that it covers": {podOf(matched(tolerant(1, 1, 1), "root", "r0", "r1")), podOf(matched(tolerant(1, 1, 1), "root", "r1", "r2"))},
		"preference": {
			podWith(tolerant(1, 1), extension.Claim{Preferred: []extension.Preference{{MatchAttribute: "gpu.example.com/slot"}}}),
			podOf(matched(tolerant(1, 1), "slot")),
		},
	})
}

// Requests with different conditions for single devices are not equivalent.
func TestNotEquivalentRequests(t *testing.T) {
	tolerated := func(toleration resourceapi.DeviceToleration) pod {
		return podOf(changed(models("T4"), func(e *resourceapi.ExactDeviceRequest) { e.Tolerations = []resourceapi.DeviceToleration{toleration} }))
	}
	bus := func(name, expression string) pod {
		c := matched(tolerating(models("A100", "T4"), "soft"), "bus")
		for i := range c.Spec.Devices.Requests {
			c.Spec.Devices.Requests[i].Exactly.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{
				{Name: resourceapi.FullyQualifiedName("gpu.example.com/" + name), Expression: expression},
			}
		}
		return podOf(c)
	}
	capacity := func(name resourceapi.QualifiedName, value string) pod {
		return podOf(changed(claim("c", 1), func(e *resourceapi.ExactDeviceRequest) {
			e.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{name: resource.MustParse(value)}}
		}))
	}
	admin := func(e *resourceapi.ExactDeviceRequest) { e.AdminAccess = ptr.To(true) }
	all := func(e *resourceapi.ExactDeviceRequest) { e.AllocationMode = resourceapi.DeviceAllocationModeAll }
	const root = `"of " + device.attributes["gpu.example.com"].root`
	soft := resourceapi.DeviceToleration{Key: "soft", Operator: resourceapi.DeviceTolerationOpEqual, Value: "x", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	other, execute, equal := soft, soft, soft
	other.Value, execute.Effect, equal.Operator = "y", resourceapi.DeviceTaintEffectNoExecute, ""
	exists, unequal := other, other
	exists.Operator, unequal.Operator = resourceapi.DeviceTolerationOpExists, ""
	compareUnlike(t, map[string][2]pod{
		"toleration":               {tolerated(soft), podOf(models("T4"))},
		"key of a toleration":      {podOf(tolerating(models("T4"), "soft")), podOf(tolerating(models("T4"), "hard"))},
		"operator of one":          {tolerated(other), tolerated(exists)},
		"value of one":             {tolerated(soft), tolerated(other)},
		"effect of one":            {tolerated(soft), tolerated(execute)},
		"value without operator":   {tolerated(equal), tolerated(unequal)},
		"admin access":             {podOf(claim("c", 1)), podOf(changed(claim("c", 1), admin))},
		"all":                      {podOf(claim("c", 1)), podOf(changed(claim("c", 1), all))},
		"name of what is computed": {bus("bus", root), bus("car", root)},
		"expression":               {bus("bus", root), bus("bus", `"of " + device.attributes["gpu.example.com"].model`)},
		"capacity":                 {capacity("memory", "8"), capacity("memory", "9")},
		"name of the capacity":     {capacity("memory", "8"), capacity("cores", "8")},
	})
}
