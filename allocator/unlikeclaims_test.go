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

// What a claim asks for is told apart from what another one does, by an allocator that remembers answers.
func TestUnlikeClaims(t *testing.T) {
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
	state := ledger.State()
	pods := func(claims ...*resourceapi.ResourceClaim) pod { return pod{claims: claims} }
	extended := func(c *resourceapi.ResourceClaim, x extension.Claim) pod {
		return pod{[]*resourceapi.ResourceClaim{c}, []extension.Claim{x}}
	}
	request := func(r extension.Request) pod {
		return extended(claim("c", 1), extension.Claim{Requests: map[string]extension.Request{"r0": r}})
	}
	totals := func(amounts map[resourceapi.QualifiedName]resource.Quantity) pod {
		return request(extension.Request{Totals: amounts})
	}
	match := func(c *resourceapi.ResourceClaim, id string, requests ...string) *resourceapi.ResourceClaim {
		return constrained(c, resourceapi.DeviceConstraint{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("gpu.example.com/" + id)), Requests: requests})
	}
	crossed := func(a, b, c, d string) *resourceapi.ResourceClaim {
		return match(match(tolerating(claim("c", 1, 1, 1, 1), "soft"), "root", a, b), "model", c, d)
	}
	preferred := func(ids ...string) pod {
		var x extension.Claim
		for _, id := range ids {
			x.Preferred = append(x.Preferred, extension.Preference{MatchAttribute: resourceapi.FullyQualifiedName("gpu.example.com/" + id)})
		}
		return extended(tolerating(claim("c", 1, 1), "soft"), x)
	}
	tolerated := func(toleration resourceapi.DeviceToleration) pod {
		return pods(changed(models("T4"), func(e *resourceapi.ExactDeviceRequest) { e.Tolerations = []resourceapi.DeviceToleration{toleration} }))
	}
	bus := func(name, expression string) pod {
		c := match(tolerating(models("A100", "T4"), "soft"), "bus")
		for i := range c.Spec.Devices.Requests {
			c.Spec.Devices.Requests[i].Exactly.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{Name: resourceapi.FullyQualifiedName("gpu.example.com/" + name), Expression: expression}}
		}
		return pods(c)
	}
	capacity := func(name resourceapi.QualifiedName, value string) pod {
		return pods(changed(claim("c", 1), func(e *resourceapi.ExactDeviceRequest) {
			e.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{name: resource.MustParse(value)}}
		}))
	}
	either := claim("c", 1)
	either.Spec.Devices.Requests[0] = resourceapi.DeviceRequest{Name: "r0"}
	for i, r := range models("H100", "A100").Spec.Devices.Requests {
		either.Spec.Devices.Requests[0].FirstAvailable = append(either.Spec.Devices.Requests[0].FirstAvailable, resourceapi.DeviceSubRequest{
			Name: fmt.Sprint("s", i), DeviceClassName: "gpu", AllocationMode: r.Exactly.AllocationMode, Count: 1, Selectors: r.Exactly.Selectors,
		})
	}
	const root = `"of " + device.attributes["gpu.example.com"].root`
	soft := resourceapi.DeviceToleration{Key: "soft", Operator: resourceapi.DeviceTolerationOpEqual, Value: "x", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	hard, exists, other, execute := soft, soft, soft, soft
	hard.Key, exists.Operator, other.Value, execute.Effect = "hard", resourceapi.DeviceTolerationOpExists, "y", resourceapi.DeviceTaintEffectNoExecute
	otherExists := other
	otherExists.Operator = resourceapi.DeviceTolerationOpExists
	for name, pair := range map[string][2]pod{
		"which of three wants which": {pods(models("H100", "A100", "H100")), pods(models("H100", "A100", "A100"))},
		"constraint that covers it":  {pods(crossed("r0", "r1", "r2", "r3")), pods(crossed("r2", "r3", "r0", "r1"))},
		"count":                      {pods(claim("c", 1)), pods(claim("c", 2))},
		"claims":                     {pod{claims: []*resourceapi.ResourceClaim{claim("c", 20, 20)}}, pods(claim("c", 20), claim("d", 20))},
		"alternatives":               {pods(either), pods(models("H100", "A100"))},
		"total":                      {totals(amounts("memory", "8")), totals(amounts("memory", "9"))},
		"capacity of the total":      {totals(amounts("memory", "3")), totals(amounts("cores", "3"))},
		"kind of constraint": {
			pods(match(claim("c", 2), "model")),
			pods(constrained(claim("c", 2), resourceapi.DeviceConstraint{DistinctAttribute: ptr.To(resourceapi.FullyQualifiedName("gpu.example.com/model"))})),
		},
		"attribute":                {pods(match(tolerating(claim("c", 2), "soft"), "root")), pods(match(tolerating(claim("c", 2), "soft"), "slot"))},
		"constraint":               {pods(claim("c", 2)), pods(match(claim("c", 2), "slot"))},
		"requests that it covers":  {pods(match(tolerating(claim("c", 1, 1, 1), "soft"), "root", "r0", "r1")), pods(match(tolerating(claim("c", 1, 1, 1), "soft"), "root", "r1", "r2"))},
		"preference":               {preferred("slot"), pods(match(tolerating(claim("c", 1, 1), "soft"), "slot"))},
		"toleration":               {tolerated(soft), pods(models("T4"))},
		"key of a toleration":      {tolerated(soft), tolerated(hard)},
		"operator of one":          {tolerated(other), tolerated(otherExists)},
		"value of one":             {tolerated(soft), tolerated(other)},
		"effect of one":            {tolerated(soft), tolerated(execute)},
		"admin access":             {pods(claim("c", 1)), pods(changed(claim("c", 1), func(e *resourceapi.ExactDeviceRequest) { e.AdminAccess = ptr.To(true) }))},
		"all":                      {pods(claim("c", 1)), pods(changed(claim("c", 1), func(e *resourceapi.ExactDeviceRequest) { e.AllocationMode = resourceapi.DeviceAllocationModeAll }))},
		"name of what is computed": {bus("bus", root), bus("car", root)},
		"expression":               {bus("bus", root), bus("bus", `"of " + device.attributes["gpu.example.com"].model`)},
		"capacity":                 {capacity("memory", "8"), capacity("memory", "9")},
		"name of the capacity":     {capacity("memory", "8"), capacity("cores", "8")},
		"number of devices":        {request(extension.Request{UpTo: 2}), request(extension.Request{})},
	} {
		for i := range pair {
			remembering := allocator.New(allocator.Options{Features: allocator.AllFeatures()})
			first, second := pair[i], pair[1-i]
			want := second.ask(t, allocator.New(allocator.Options{Features: allocator.AllFeatures()}), state)
			if got := first.ask(t, remembering, state); got == want {
				t.Errorf("%s: both have %s", name, got)
			}
			if got := second.ask(t, remembering, state); got != want {
				t.Errorf("%s: got %s, by itself %s", name, got, want)
			}
		}
	}
}

func amounts(name resourceapi.QualifiedName, value string) map[resourceapi.QualifiedName]resource.Quantity {
	return map[resourceapi.QualifiedName]resource.Quantity{name: resource.MustParse(value)}
}
