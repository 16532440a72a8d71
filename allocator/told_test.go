// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/pools"
)

// The results say which labels a node must have for devices of several pools: all that they ask for, also where the same
// values are asked for in two ways.
func TestNodeSelectorOfSeveralPools(t *testing.T) {
	requirements := []corev1.NodeSelectorRequirement{
		{Key: "zone", Operator: corev1.NodeSelectorOpGt, Values: []string{"3"}},
		{Key: "zone", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"3"}},
		{Key: "zone", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"4"}},
		{Key: "other", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"3"}},
	}
	var slicesOf []*resourceapi.ResourceSlice
	for _, requirement := range append(requirements, requirements[0]) {
		slice := selected(gpus("any", 1, "H100"), requirement)
		slice.Name += string(rune('a' + len(slicesOf)))
		slice.Spec.Pool.Name = slice.Name
		slicesOf = append(slicesOf, slice)
	}
	outcome, err := compile(allocator.Options{}, claim("c", 5)).Allocate(t.Context(), clusterOf(slicesOf...).State(), labelled("a", "5"))
	assignment, ok := outcome.(*allocator.Assignment)
	if !ok {
		t.Fatal(outcome, err)
	}
	terms := assignment.Results()[0].NodeSelector.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchExpressions) != len(requirements) || slices.ContainsFunc(requirements, func(want corev1.NodeSelectorRequirement) bool {
		return !slices.ContainsFunc(terms[0].MatchExpressions, func(got corev1.NodeSelectorRequirement) bool {
			return got.Key == want.Key && got.Operator == want.Operator && slices.Equal(got.Values, want.Values)
		})
	}) {
		t.Errorf("the node selector is %v", terms)
	}
}

// If several classes may serve a request, the configurations of those count of which it got a device,
// whatever other requests got.
func TestConfigurationOfClassesThatServe(t *testing.T) {
	configured := func(name, model string) *resourceapi.DeviceClass {
		class := gpuClass.DeepCopy()
		class.Name, class.Spec.Selectors[0].CEL.Expression = name, `device.attributes["gpu.example.com"].model == "`+model+`"`
		class.Spec.Config = []resourceapi.DeviceClassConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver: "gpu.example.com", Parameters: runtime.RawExtension{Raw: []byte(`{"class":"` + name + `"}`)},
		}}}}
		return class
	}
	either := extension.Request{Classes: []extension.Class{{DeviceClassName: "small"}}}
	c := claim("c", 1, 1, 1)
	for i := range c.Spec.Devices.Requests {
		c.Spec.Devices.Requests[i].Exactly.DeviceClassName = "large"
	}
	problem, err := allocator.New(allocator.Options{Features: allocator.AllFeatures()}).CompileExtended([]*resourceapi.ResourceClaim{c},
		[]extension.Claim{{Requests: map[string]extension.Request{"r0": either, "r1": either, "r2": either}}},
		allocator.ClassMap(configured("large", "H100"), configured("small", "T4")))
	if err != nil {
		t.Fatal(err)
	}
	state := clusterOf(gpus("a", 2, "H100"), second(gpus("a", 1, "T4"))).State()
	outcome, err := problem.Allocate(t.Context(), state, node("a"))
	assignment, ok := outcome.(*allocator.Assignment)
	if !ok {
		t.Fatal(outcome, err)
	}
	got := make(map[string][]string)
	for _, config := range assignment.Results()[0].Devices.Config {
		got[string(config.Opaque.Parameters.Raw)] = config.Requests
	}
	if len(got) != 2 || !slices.Equal(got[`{"class":"large"}`], []string{"r0", "r1"}) || !slices.Equal(got[`{"class":"small"}`], []string{"r2"}) {
		t.Errorf("the requests by configuration are %v", got)
	}
}

// An item of an explanation has the position of the request, and rejections that of the selector.
func TestPositionsInExplanations(t *testing.T) {
	c := claim("c", 1, 1)
	c.Spec.Devices.Requests[1] = selecting(selecting(claim("d", 1), "true"), "false").Spec.Devices.Requests[0]
	c.Spec.Devices.Requests[1].Name = "r1"
	outcome := allocate(t, compile(allocator.Options{}, c), clusterOf(gpus("a", 2, "H100")), node("a"))
	no, ok := outcome.(*allocator.Unsatisfiable)
	if !ok {
		t.Fatal(outcome)
	}
	e := no.Explain()
	if len(e.Core) != 1 || e.Core[0].Request != "r1" || e.Core[0].Position != 1 {
		t.Errorf("the core is %+v", e.Core)
	}
	rejections := e.Requests[1].Rejections
	if len(rejections) != 1 || rejections[0].Selector == nil || rejections[0].Selector.Position != 1 {
		t.Errorf("the rejections are %+v", rejections)
	}
}

// A preference across claims covers those that have it, and another one is another preference.
func TestPreferencesAcrossClaims(t *testing.T) {
	across := func(ids ...resourceapi.FullyQualifiedName) (x extension.Claim) {
		for _, id := range ids {
			x.Preferred = append(x.Preferred, extension.Preference{MatchAttribute: "gpu.example.com/" + id, Across: true})
		}
		return x
	}
	own := []extension.Preference{{MatchAttribute: root}}
	state := clusterOf(unique(valuesOf(gpus("a", 2, "H100"), "root", "x", "y")), unique(gpus("b", 2, "H100"))).State()
	for _, test := range []struct {
		node   string
		of     []extension.Claim
		missed []int
	}{
		{"a", []extension.Claim{across("root"), across("uuid")}, nil},
		{"a", []extension.Claim{across("root"), across("root")}, []int{0}},
		{"b", []extension.Claim{across("root", "uuid"), across("root", "uuid")}, []int{1}},
		// A preference of one claim alone is not that across claims.
		{"a", []extension.Claim{across("root"), {Preferred: own}}, nil},
		{"a", []extension.Claim{{Preferred: append(own, across("root").Preferred...)}, across("root")}, []int{1}},
	} {
		problem, err := allocator.New(allocator.Options{Features: allocator.AllFeatures()}).CompileExtended(
			[]*resourceapi.ResourceClaim{claim("c", 1), claim("d", 1)}, test.of, allocator.ClassMap(gpuClass))
		if err != nil {
			t.Fatal(err)
		}
		outcome, err := problem.Allocate(t.Context(), state, node(test.node))
		assignment, ok := outcome.(*allocator.Assignment)
		if !ok {
			t.Fatal(outcome, err)
		}
		var missed []int
		for _, m := range assignment.Missed() {
			if missed = append(missed, m.Rank); m.Claim != -1 {
				t.Errorf("node %s, %+v: missed by claim %d", test.node, test.of, m.Claim)
			}
		}
		if !slices.Equal(missed, test.missed) {
			t.Errorf("node %s, %+v: %v are missed, want %v", test.node, test.of, missed, test.missed)
		}
		if choices := assignment.Choices(); len(choices) != 2 || choices[0].Claim != 0 || choices[1].Claim != 1 {
			t.Errorf("the choices are %+v", choices)
		}
	}
}

// A preference can stand next to a request for all devices that it does not cover.
func TestPreferenceNextToRequestForAll(t *testing.T) {
	for request, fine := range map[string]bool{"r0": true, "r1": false} {
		c := claim("c", 1, 0)
		c.Spec.Devices.Requests[1].Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
		if _, err := preferring(allocator.Options{}, c, extension.Preference{MatchAttribute: root, Requests: []string{request}}); (err == nil) != fine {
			t.Errorf("request %s: error %v", request, err)
		}
	}
}

// A device has its binding failure conditions, whether or not it has binding conditions.
func TestBindingFailureConditionsAlone(t *testing.T) {
	slice := gpus("a", 1, "H100")
	slice.Spec.Devices[0].BindingFailureConditions = []string{"Failed"}
	assignment, ok := allocate(t, compile(allocator.Options{}, claim("c", 1)), clusterOf(slice), node("a")).(*allocator.Assignment)
	if !ok {
		t.Fatal("no device")
	}
	if got := assignment.Results()[0].Devices.Results[0].BindingFailureConditions; !slices.Equal(got, []string{"Failed"}) {
		t.Errorf("the conditions are %v", got)
	}
}

// A claim with admin access has what another one has, and each device once.
func TestAdminAccessOfSeveralClaims(t *testing.T) {
	admin := func(name string, counts ...int64) *resourceapi.ResourceClaim {
		c := claim(name, counts...)
		for i := range c.Spec.Devices.Requests {
			c.Spec.Devices.Requests[i].Exactly.AdminAccess = ptr.To(true)
		}
		return c
	}
	ledger := clusterOf(gpus("a", 3, "H100"))
	for _, test := range []struct {
		claims []*resourceapi.ResourceClaim
		want   string
	}{
		{[]*resourceapi.ResourceClaim{admin("c", 2), admin("d", 2)}, "r0=gpu-0 r0=gpu-1 r0=gpu-0 r0=gpu-1"},
		{[]*resourceapi.ResourceClaim{admin("c", 1, 1), admin("d", 1, 1)}, "r0=gpu-0 r1=gpu-1 r0=gpu-0 r1=gpu-1"},
		{[]*resourceapi.ResourceClaim{admin("c", 3), admin("d", 4)}, "*allocator.Unsatisfiable"},
	} {
		if got := chosen(allocate(t, compile(allocator.Options{}, test.claims...), ledger, node("a"))); got != test.want {
			t.Errorf("%s instead of %s", got, test.want)
		}
	}
}

// A rejection for want of a counter says which.
func TestCounterInExplanation(t *testing.T) {
	no, ok := allocate(t, compile(allocator.Options{}, claim("c", 1)), clusterOf(counted("a", "3"), partitions(gpus("a", 1, "H100"), "4")), node("a")).(*allocator.Unsatisfiable)
	if !ok {
		t.Fatal("a device has more than there is")
	}
	rejections := no.Explain().Requests[0].Rejections
	if len(rejections) != 1 || rejections[0].Counter == nil || *rejections[0].Counter != (explain.Counter{Set: "card", Name: "memory"}) {
		t.Errorf("the rejections are %+v", rejections)
	}
}

// A search that takes back a decision says what it did.
func TestStatsOfSearch(t *testing.T) {
	// gpu-0 is alone on its root.
	state := clusterOf(valuesOf(gpus("a", 3, "H100"), "root", "x", "y", "y")).State()
	outcome, err := compile(allocator.Options{}, selecting(sameRoot(claim("c", 1, 1)), `device.driver.lowerAscii().startsWith("gpu")`)).Allocate(t.Context(), state, node("a"))
	if err != nil || chosen(outcome) != "r0=gpu-1 r1=gpu-2" {
		t.Fatal(chosen(outcome), err)
	}
	if s := outcome.Stats(); s.Steps == 0 || s.Decisions < 3 || s.Backtracks < 1 || s.Checks < s.Decisions || s.CELEvaluations != 1 {
		t.Errorf("the stats are %+v", s)
	}
}

// A device that gives back of a counter is taken where another one needs it, though one before it would do.
func TestDeviceThatRestores(t *testing.T) {
	slice := valuesOf(gpus("a", 3, "H100"), "use", "any", "any", "last")
	slice.Spec.Pool.ResourceSliceCount = 2
	for i, memory := range map[int]string{1: "-4", 2: "4"} {
		slice.Spec.Devices[i].ConsumesCounters = []resourceapi.DeviceCounterConsumption{{
			CounterSet: "card", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(memory)}},
		}}
	}
	c := selecting(claim("c", 1), `device.attributes["gpu.example.com"].use == "any"`)
	last := selecting(claim("d", 1), `device.attributes["gpu.example.com"].use == "last"`).Spec.Devices.Requests[0]
	last.Name = "r1"
	c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, last)
	if got, want := chosen(allocate(t, compile(allocator.Options{}, c), clusterOf(counted("a", "0"), slice), node("a"))), "r0=gpu-1 r1=gpu-2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A constraint in a core has its position in the claim, and a claim may have so many of an extension, and no more.
func TestPositionsOfConstraints(t *testing.T) {
	c := claim("c", 2)
	for _, requests := range [][]string{{"r9"}, nil} {
		c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints, resourceapi.DeviceConstraint{MatchAttribute: ptr.To(root), Requests: requests})
	}
	no, ok := allocate(t, compile(allocator.Options{}, c), clusterOf(valuesOf(gpus("a", 2, "H100"), "root", "x", "y")), node("a")).(*allocator.Unsatisfiable)
	if !ok {
		t.Fatal("two roots are one")
	}
	core := no.Explain().Core
	if at := slices.IndexFunc(core, func(item explain.CoreItem) bool { return item.Constraint != "" }); at < 0 || core[at].Position != 1 {
		t.Errorf("the core is %+v", core)
	}
	for n, fine := range map[int]bool{extension.MatchesMaxSize: true, extension.MatchesMaxSize + 1: false} {
		if _, err := preferring(allocator.Options{}, claim("c", 1), slices.Repeat([]extension.Preference{{MatchAttribute: root}}, n)...); (err == nil) != fine {
			t.Errorf("%d preferences: error %v", n, err)
		}
	}
}

// A class that was changed is another class.
func TestChangedClass(t *testing.T) {
	of, state := allocator.New(allocator.Options{}), pools.NewState(pools.Build(allocator.Features{}.PoolGates(), []*resourceapi.ResourceSlice{gpus("a", 1, "H100")}))
	class := gpuClass
	for _, want := range []allocator.Verdict{allocator.Satisfiable, allocator.NotSatisfiable} {
		problem, err := of.Compile([]*resourceapi.ResourceClaim{claim("c", 1)}, allocator.ClassMap(class))
		if err != nil {
			t.Fatal(err)
		}
		if found, err := problem.Feasible(t.Context(), state, node("a")); err != nil || found.Verdict() != want {
			t.Errorf("%s: %s (%v)", class.Spec.Selectors[0].CEL.Expression, found.Verdict(), err)
		}
		class = gpuClass.DeepCopy()
		class.Spec.Selectors[0].CEL.Expression = `device.driver == "other.example.com"`
	}
}

// Shares of which no capacity is recorded are told apart from others by which device they are of.
func TestNotEquivalentByShares(t *testing.T) {
	ledger := clusterOf(shared(gpus("a", 2, "H100")), shared(gpus("b", 2, "H100")))
	for name, held := range map[string][]string{"a": {"gpu-0", "gpu-1"}, "b": {"gpu-1", "gpu-0"}} {
		for i, device := range held {
			h := holder(name+device, &smallDevice{DeviceID: pools.DeviceID{Driver: "gpu.example.com", Pool: name, Device: device}, step: 1})
			h.Status.Allocation.Devices.Results[0].ConsumedCapacity = nil
			if i == 0 {
				h.Status.Allocation.Devices.Results[0].ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": resource.MustParse("60")}
			}
			if err := ledger.Assume(h); err != nil {
				t.Fatal(err)
			}
		}
	}
	problem := compile(allocator.Options{}, sharing(claim("c", 1)))
	for name, want := range map[string]string{"a": "r0=gpu-1", "b": "r0=gpu-0"} {
		if got := chosen(allocate(t, problem, ledger, node(name))); got != want {
			t.Errorf("node %s: %s instead of %s", name, got, want)
		}
	}
}
