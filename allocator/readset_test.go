// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/pools"
)

// valuesOf gives the devices of a slice values of an attribute.
func valuesOf(slice *resourceapi.ResourceSlice, name resourceapi.QualifiedName, values ...string) *resourceapi.ResourceSlice {
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].Attributes[name] = resourceapi.DeviceAttribute{StringValue: &values[i]}
	}
	return slice
}

// Problems of one allocator whose selectors read the same, but which compare other attributes, do not tell the same nodes
// apart.
func TestNotEquivalentByComparedValues(t *testing.T) {
	ledger := clusterOf(
		valuesOf(rooted(gpus("a", 2, "H100"), "x"), "numa", "0", "0"),
		valuesOf(rooted(gpus("b", 2, "H100"), "x"), "numa", "0", "1"))
	of := allocator.New(allocator.Options{Features: allocator.AllFeatures()})
	for _, compared := range []struct {
		attribute resourceapi.FullyQualifiedName
		onB       allocator.Verdict
	}{{"gpu.example.com/root", allocator.Satisfiable}, {"gpu.example.com/numa", allocator.NotSatisfiable}} {
		c := claim("c", 2)
		c.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &compared.attribute}}
		problem := compileWith(t, of, c)
		for name, want := range map[string]allocator.Verdict{"a": allocator.Satisfiable, "b": compared.onB} {
			if got := feasible(problem, ledger, node(name)); got != want.String() {
				t.Errorf("%s: node %s: %s instead of %s", compared.attribute, name, got, want)
			}
		}
	}
}

func TestNotEquivalentByComputedValues(t *testing.T) {
	a, b := node("a"), node("b")
	// The first request computes the bus of its device, the second takes it as published.
	oneComputed := computed(claim("c", 1, 1))
	oneComputed.Spec.Devices.Requests[1].Exactly.DerivedAttributes = nil
	published := func(name, bus string) []*resourceapi.ResourceSlice {
		slice := rooted(gpus(name, 1, "H100"), "q")
		slice.Spec.Devices[0].Attributes["bus"] = resourceapi.DeviceAttribute{StringValue: &bus}
		return []*resourceapi.ResourceSlice{rooted(gpus(name, 1, "H100"), "x"), second(slice)}
	}
	unlike(t, "a published value is a computed one", a, b, oneComputed, append(published("a", "of x"), published("b", "of y")...)...)
	// Nothing is known of what the first expression reads.
	unknown := computed(claim("c", 1, 1))
	unknown.Spec.Devices.Requests[0].Exactly.DerivedAttributes[0].Expression = `"of " + device.attributes[device.driver].root`
	unlike(t, "what is computed reads what is not known", a, b, unknown,
		valuesOf(gpus("a", 2, "H100"), "root", "x", "x"), valuesOf(gpus("b", 2, "H100"), "root", "x", "y"))
}

// It is unknown what one selector reads, and known for another.
func TestNotEquivalentByUnknownValues(t *testing.T) {
	for _, exact := range []int{0, 1} {
		c := claim("c", 1, 1)
		for i := range c.Spec.Devices.Requests {
			expression := `device.attributes[device.driver].model == "H100"`
			if i == exact {
				expression = `device.driver == "gpu.example.com"`
			}
			c.Spec.Devices.Requests[i].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
		}
		unlike(t, fmt.Sprint("request ", exact), node("a"), node("b"), c, gpus("a", 2, "H100"), gpus("b", 2, "T4"))
	}
}

// Devices that the first class does not have are told apart by what the second one says of them.
func TestNotEquivalentForTheSecondClass(t *testing.T) {
	other := gpuClass.DeepCopy()
	other.Name, other.Spec.Selectors[0].CEL.Expression = "other", `device.driver == "other.example.com"`
	c := claim("c", 1)
	c.Spec.Devices.Requests[0].Exactly.DeviceClassName = "other"
	unknown := []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes[device.driver].model == "H100"`}}}
	asked := extension.Claim{Requests: map[string]extension.Request{"r0": {Classes: []extension.Class{{DeviceClassName: "gpu", Selectors: unknown}}}}}
	problem, err := allocator.New(allocator.Options{Features: allocator.AllFeatures()}).CompileExtended(
		[]*resourceapi.ResourceClaim{c}, []extension.Claim{asked}, allocator.ClassMap(gpuClass, other))
	if err != nil {
		t.Fatal(err)
	}
	ledger := clusterOf(gpus("a", 1, "H100"), gpus("b", 1, "T4"))
	for _, test := range []struct {
		node string
		want allocator.Verdict
	}{{"a", allocator.Satisfiable}, {"b", allocator.NotSatisfiable}} {
		if got := feasible(problem, ledger, node(test.node)); got != test.want.String() {
			t.Errorf("node %s: %s", test.node, got)
		}
	}
}

// The values of a list decide, not its length.
func TestNotEquivalentByLists(t *testing.T) {
	lists := func(name string, first, second []int64) *resourceapi.ResourceSlice {
		slice := gpus(name, 2, "H100")
		for i, list := range [][]int64{first, second} {
			slice.Spec.Devices[i].Attributes["root"] = resourceapi.DeviceAttribute{IntValues: list}
		}
		return slice
	}
	unlike(t, "lists have an element in common", node("a"), node("b"), sameRoot(claim("c", 2)),
		lists("a", []int64{1, 2}, []int64{2, 3}), lists("b", []int64{1, 2}, []int64{3, 4}))
}

// Allocators of which the features differ may be asked about one state. What lists have in common counts only for the one that
// knows lists.
func TestListsAreOfAFeature(t *testing.T) {
	slice := gpus("a", 2, "H100")
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].Attributes["root"] = resourceapi.DeviceAttribute{IntValues: []int64{int64(i), 1}}
	}
	without := allocator.AllFeatures()
	without.ListTypeAttributes = false
	for _, first := range []bool{false, true} {
		state := clusterOf(slice).State()
		for _, lists := range []bool{first, !first} {
			features, want := allocator.AllFeatures(), allocator.Satisfiable
			if !lists {
				features, want = without, allocator.NotSatisfiable
			}
			problem := compileWith(t, allocator.New(allocator.Options{Features: features}), sameRoot(claim("c", 2)))
			if found, err := problem.Feasible(t.Context(), state, node("a")); err != nil || found.Verdict() != want {
				t.Errorf("lists %v after %v: %s (%v)", lists, first, found.Verdict(), err)
			}
		}
	}
}

// The position of a device in its pool decides whether a search reaches it. The device is on another node,
// and a selector fails on it.
func TestErrorsOnOtherNodesByPosition(t *testing.T) {
	first, last := perDevice(gpus("a", 2, "H100"), "a", "elsewhere"), perDevice(gpus("b", 2, "H100"), "elsewhere", "b")
	delete(first.Spec.Devices[1].Attributes, "model")
	delete(last.Spec.Devices[0].Attributes, "model")
	problem := compile(allocator.Options{}, selecting(claim("c", 1), `device.attributes["gpu.example.com"].model == "H100"`))
	ledger := clusterOf(first, last)
	for range 2 {
		for _, test := range []struct{ node, want string }{{"a", allocator.Satisfiable.String()}, {"b", "error"}} {
			if got := feasible(problem, ledger, node(test.node)); got != test.want {
				t.Errorf("node %s: %s instead of %s", test.node, got, test.want)
			}
		}
	}
}

// Claims that ask for the same cost one search for all nodes that are alike, also where devices are elsewhere.
func TestKindsAreKept(t *testing.T) {
	elsewhere := func(name string) *resourceapi.ResourceSlice {
		return perDevice(gpus(name, 2, "H100"), name, "elsewhere")
	}
	for name, state := range map[string]*pools.State{
		"whole pools": clusterOf(gpus("a", 2, "H100"), gpus("b", 2, "H100")).State(),
		"elsewhere":   clusterOf(elsewhere("a"), elsewhere("b")).State(),
	} {
		of, searches := allocator.New(allocator.Options{Features: allocator.AllFeatures()}), 0
		for _, claimed := range []string{"c", "d"} {
			for _, model := range []string{"H100", "A100"} {
				problem := compileWith(t, of, selecting(claim(claimed, 1), `device.attributes["gpu.example.com"].model == "`+model+`"`))
				for _, on := range []string{"a", "b"} {
					outcome, err := problem.Allocate(t.Context(), state, node(on))
					if err != nil {
						t.Fatal(err)
					}
					if outcome.Stats().Steps > 0 {
						searches++
					}
				}
			}
		}
		if searches != 2 {
			t.Errorf("%s: %d searches for two kinds of claims and one kind of nodes", name, searches)
		}
	}
}

// A claim for another model does not look at each node again, in whatever order it lists its constraints.
func TestReadSetsAreKept(t *testing.T) {
	const count = 500
	var slices []*resourceapi.ResourceSlice
	var nodes []*corev1.Node
	for i := range count {
		nodes = append(nodes, node(fmt.Sprint(i)))
		slices = append(slices, gpus(nodes[i].Name, 2, "H100"))
	}
	state, of := clusterOf(slices...).State(), allocator.New(allocator.Options{Features: allocator.AllFeatures()})
	allocations := func(model string, attributes ...resourceapi.FullyQualifiedName) uint64 {
		c := selecting(claim("c", 2), `device.attributes["gpu.example.com"].model == "`+model+`"`)
		for i := range attributes {
			c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints, resourceapi.DeviceConstraint{MatchAttribute: &attributes[i]})
		}
		problem := compileWith(t, of, c)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := problem.Evaluate(t.Context(), state, nodes, 1); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
	first := allocations("H100", "gpu.example.com/root", "gpu.example.com/model")
	if first < count {
		t.Errorf("%d allocations for %d nodes that nobody asked about before: the test shows nothing", first, count)
	}
	for name, n := range map[string]uint64{
		"another model":       allocations("A100", "gpu.example.com/root", "gpu.example.com/model"),
		"another order":       allocations("B200", "gpu.example.com/model", "gpu.example.com/root"),
		"constraint repeated": allocations("T4", "gpu.example.com/root", "gpu.example.com/model", "gpu.example.com/root"),
	} {
		if n > count/2 {
			t.Errorf("%s: %d allocations for %d nodes", name, n, count)
		}
	}
}

func compileWith(t *testing.T, a *allocator.Allocator, c *resourceapi.ResourceClaim) *allocator.Problem {
	t.Helper()
	problem, err := a.Compile([]*resourceapi.ResourceClaim{c}, allocator.ClassMap(gpuClass))
	if err != nil {
		t.Fatal(err)
	}
	return problem
}

// Usage is read one pool at a time, as reading it is expensive. It is not read if the claims fit no node of
// the kind. If it is read and the same devices are free, the answer of a node without usage is taken.
func TestIdleAnswersServeNodesInUse(t *testing.T) {
	ledger := clusterOf(gpus("a", 2, "H100"), gpus("b", 2, "H100"))
	if err := ledger.Assume(holder("held", &smallDevice{DeviceID: pools.DeviceID{Driver: "gpu.example.com", Pool: "b", Device: "gpu-1"}})); err != nil {
		t.Fatal(err)
	}
	looked := 0
	state := observe(ledger, func() { looked++ })
	tooMany, one := compile(allocator.Options{}, claim("c", 3)), compile(allocator.Options{}, claim("c", 1))
	for _, name := range []string{"a", "b"} {
		found, err := tooMany.Feasible(t.Context(), state, node(name))
		if err != nil || found.Verdict() != allocator.NotSatisfiable || looked > 0 {
			t.Errorf("node %s: %s (%v) after %d looks", name, found.Verdict(), err, looked)
		}
	}
	for _, name := range []string{"a", "b"} {
		outcome, err := one.Allocate(t.Context(), state, node(name))
		if err != nil || chosen(outcome) != "r0=gpu-0" || outcome.Stats().Steps > 0 {
			t.Errorf("node %s: %s (%v) in %d steps", name, chosen(outcome), err, outcome.Stats().Steps)
		}
	}
}
