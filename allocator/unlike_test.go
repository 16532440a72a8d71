// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/internal/dev/clustergen"
	"github.com/dray-project/dray/pools"
)

// unlike asks about two nodes that are alike but for one thing, which decides.
func unlike(t *testing.T, name string, fits, fails *corev1.Node, c *resourceapi.ResourceClaim, slices ...*resourceapi.ResourceSlice) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		for _, order := range [][]*corev1.Node{{fits, fails}, {fails, fits}} {
			ledger, problem := clusterOf(slices...), compile(allocator.Options{}, c)
			for range 2 {
				for _, node := range order {
					want := allocator.NotSatisfiable
					if node == fits {
						want = allocator.Satisfiable
					}
					if got := feasible(problem, ledger, node); got != want.String() {
						t.Errorf("node %s after %s: %s", node.Name, order[0].Name, got)
					}
				}
			}
		}
	})
}

func TestNotEquivalentNodes(t *testing.T) {
	a, b := node("a"), node("b")
	pair := sameRoot(claim("c", 2))
	unlike(t, "values of two pools are equal", a, b, pair,
		rooted(gpus("a", 1, "H100"), "x"), second(rooted(gpus("a", 1, "H100"), "x")),
		rooted(gpus("b", 1, "H100"), "x"), second(rooted(gpus("b", 1, "H100"), "y")))
	everywhere := rooted(gpus("net", 1, "H100"), "x")
	everywhere.Spec.NodeName, everywhere.Spec.AllNodes = nil, ptr.To(true)
	unlike(t, "a value is that of a pool for all nodes", a, b, pair,
		rooted(gpus("a", 1, "H100"), "x"), rooted(gpus("b", 1, "H100"), "y"), everywhere)
	valued := func(slice *resourceapi.ResourceSlice, value string, effect resourceapi.DeviceTaintEffect) *resourceapi.ResourceSlice {
		slice.Spec.Devices[0].Taints = []resourceapi.DeviceTaint{{Key: "soft", Value: value, Effect: effect}}
		return slice
	}
	equal := tolerating(claim("c", 1), "soft")
	toleration := &equal.Spec.Devices.Requests[0].Exactly.Tolerations[0]
	toleration.Operator, toleration.Value, toleration.Effect = resourceapi.DeviceTolerationOpEqual, "x", resourceapi.DeviceTaintEffectNoSchedule
	unlike(t, "the value of a taint is tolerated", a, b, equal,
		valued(gpus("a", 1, "H100"), "x", resourceapi.DeviceTaintEffectNoSchedule), valued(gpus("b", 1, "H100"), "y", resourceapi.DeviceTaintEffectNoSchedule))
	unlike(t, "the effect of a taint is tolerated", a, b, equal,
		valued(gpus("a", 1, "H100"), "x", resourceapi.DeviceTaintEffectNoSchedule), valued(gpus("b", 1, "H100"), "x", resourceapi.DeviceTaintEffectNoExecute))
	unlike(t, "a taint is tolerated", a, b, tolerating(claim("c", 1), "soft"),
		tainted(gpus("a", 1, "H100"), "soft"), tainted(gpus("b", 1, "H100"), "hard"))
	declaring := node("a")
	declaring.Status.DeclaredFeatures = []string{"DRAOptionalNodeOperations"}
	optional := gpus("a", 1, "H100")
	optional.Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
	unlike(t, "the node declares a feature", declaring, a, claim("c", 1), optional)
	unlike(t, "a capacity suffices", a, b, sharing(claim("c", 1)),
		bandwidth(gpus("a", 1, "H100"), "100"), bandwidth(gpus("b", 1, "H100"), "50"))
	multiple := bandwidth(gpus("a", 1, "H100"), "120")
	multiple.Spec.Devices[0].AllowMultipleAllocations = ptr.To(true)
	unlike(t, "a device can be shared", a, b, sharing(claim("c", 1, 1)), multiple, bandwidth(gpus("b", 1, "H100"), "120"))
	unlike(t, "a computed value is that of another pool", a, b, computed(claim("c", 2)),
		rooted(gpus("a", 1, "H100"), "x"), second(rooted(gpus("a", 1, "H100"), "x")),
		rooted(gpus("b", 1, "H100"), "x"), second(rooted(gpus("b", 1, "H100"), "y")))
	unlike(t, "a label is one of those that are not excluded", labelled("a", "1"), labelled("b", "2"), claim("c", 1),
		selected(gpus("any", 1, "H100"), corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"2"}}))
	unnamed := selected(gpus("any", 1, "H100"), corev1.NodeSelectorRequirement{})
	unnamed.Spec.NodeSelector.NodeSelectorTerms[0] = corev1.NodeSelectorTerm{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"b"}}},
	}
	unlike(t, "the name is one of those that are not excluded", a, b, claim("c", 1), unnamed)
	unlike(t, "a label has the value", labelled("a", "1"), labelled("a", "2"), claim("c", 1),
		selected(gpus("any", 1, "H100"), corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"1", "3"}}))
}

func TestNotEquivalentByCounters(t *testing.T) {
	a, b := node("a"), node("b")
	unlike(t, "a counter set has enough", a, b, claim("c", 2),
		counted("a", "8"), partitions(gpus("a", 2, "H100"), "4"), counted("b", "7"), partitions(gpus("b", 2, "H100"), "4"))
	unlike(t, "devices consume less", a, b, claim("c", 2),
		counted("a", "8"), partitions(gpus("a", 2, "H100"), "4"), counted("b", "8"), partitions(gpus("b", 2, "H100"), "5"))
	unlike(t, "devices share a group", a, b, claim("c", 2),
		counted("a", "8"), partitions(gpus("a", 2, "H100"), "4", "mig", "mig"), counted("b", "8"), partitions(gpus("b", 2, "H100"), "4", "mig", "mps"))
	other := partitions(gpus("a", 2, "H100"), "4")
	other.Spec.Devices[1].ConsumesCounters[0].Counters = map[string]resourceapi.Counter{"slices": {Value: resource.MustParse("4")}}
	unlike(t, "a device consumes another counter", a, b, claim("c", 2),
		counted("a", "7"), other, counted("b", "7"), partitions(gpus("b", 2, "H100"), "4"))
	apart := partitions(gpus("a", 2, "H100"), "4", "mig", "mps")
	apart.Spec.Devices[1].ConsumesCounters[0] = resourceapi.DeviceCounterConsumption{CounterSet: "other", CompatibilityGroups: []string{"mps"}}
	together := partitions(gpus("b", 2, "H100"), "4", "mig", "mps")
	together.Spec.Devices[1].ConsumesCounters[0].Counters = nil
	unlike(t, "devices with different groups are of different counter sets", a, b, claim("c", 2), counted("a", "8"), apart, counted("b", "8"), together)
}

// Nodes have copies of the same pools, some of them changed a little. One allocator is asked about all nodes
// in turn. Its answers are those of an allocator for each node.
func TestNodesThatDifferALittle(t *testing.T) {
	options := allocator.Options{Features: allocator.AllFeatures()}
	ask := func(a *allocator.Allocator, q question) any {
		problem, err := a.Compile(q.Claims, allocator.ClassMap(q.Classes...))
		if err != nil {
			return err.Error()
		}
		o, err := problem.Allocate(context.Background(), q.ledger.State(), q.node)
		if found, ok := o.(*allocator.Assignment); ok {
			return found.Results()
		}
		return fmt.Sprint(o, err)
	}
	answers := make(map[string]int)
	for seed := range uint64(fewer(600)) {
		sequence, remembering := clustergen.NewSequence(seed, clustergen.Pairs), unasked(options)
		c := sequence.First().First()
		for range 5 {
			q := asked(t, c)
			for _, q.node = range c.Nodes {
				got, want := ask(remembering, q), ask(unasked(options), q)
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d: %s: node %s: %v, but %v if asked by itself", seed, c.Name, q.node.Name, got, want)
				}
				answers[fmt.Sprintf("%T", got)]++
			}
			c = sequence.Next(c).After(c)
		}
	}
	for kind, n := range answers {
		if n < fewer(600) {
			t.Errorf("%d answers are %s", n, kind)
		}
	}
}

// A device elsewhere that a selector cannot be evaluated on is an error for the nodes that
// look at it, and only for these.
func TestErrorsElsewhere(t *testing.T) {
	slices := []*resourceapi.ResourceSlice{perDevice(gpus("a", 2, "H100"), "a", "elsewhere"), perDevice(gpus("b", 2, "H100"), "b", "elsewhere")}
	delete(slices[1].Spec.Devices[1].Attributes, "model")
	problem := compile(allocator.Options{}, selecting(claim("c", 2), `device.attributes["gpu.example.com"].model == "H100"`))
	ledger := clusterOf(slices...)
	for range 2 {
		if got := feasible(problem, ledger, node("a")); got != allocator.NotSatisfiable.String() {
			t.Errorf("node a: %s", got)
		}
		if got := feasible(problem, ledger, node("b")); got != "error" {
			t.Errorf("node b: %s", got)
		}
	}
}

// A device on which a selector fails and one that the selector rejects make nodes different. That also holds
// where only results of selectors distinguish devices, as it is unknown what these read.
func TestFailingSelectorIsNotEquivalentToRejection(t *testing.T) {
	slices := []*resourceapi.ResourceSlice{gpus("a", 1, "T4"), gpus("b", 1, "T4")}
	delete(slices[1].Spec.Devices[0].Attributes, "model")
	problem := compile(allocator.Options{}, selecting(claim("c", 1), `device.attributes[device.driver].model == "H100"`))
	ledger := clusterOf(slices...)
	for range 2 {
		if got := feasible(problem, ledger, node("a")); got != allocator.NotSatisfiable.String() {
			t.Errorf("node a: %s", got)
		}
		if got := feasible(problem, ledger, node("b")); got != "error" {
			t.Errorf("node b: %s", got)
		}
	}
}

// On a device with an invalid version every selector fails, even one that reads nothing.
func TestDeviceWithInvalidVersionIsNotEquivalent(t *testing.T) {
	slices := []*resourceapi.ResourceSlice{gpus("a", 1, "T4"), gpus("b", 1, "T4")}
	slices[1].Spec.Devices[0].Attributes["firmware"] = resourceapi.DeviceAttribute{VersionValue: ptr.To("v1")}
	class := gpuClass.DeepCopy()
	class.Spec.Selectors = nil
	problem, err := allocator.New(allocator.Options{}).Compile([]*resourceapi.ResourceClaim{selecting(claim("c", 1), "true")}, allocator.ClassMap(class))
	if err != nil {
		t.Fatal(err)
	}
	ledger := pools.NewLedger(pools.Build(allocator.Features{}.PoolGates(), slices))
	for range 2 {
		if got := feasible(problem, ledger, node("a")); got != allocator.Satisfiable.String() {
			t.Errorf("node a: %s", got)
		}
		if got := feasible(problem, ledger, node("b")); got != "error" {
			t.Errorf("node b: %s", got)
		}
	}
}

func feasible(p *allocator.Problem, l *pools.Ledger, node *corev1.Node) string {
	found, err := p.Feasible(context.Background(), l.State(), node)
	verdict := found.Verdict()
	if (verdict == allocator.NoVerdict) != (err != nil) {
		return fmt.Sprintf("verdict %s with error %v", verdict, err)
	}
	if err != nil {
		return "error"
	}
	return verdict.String()
}

func rooted(slice *resourceapi.ResourceSlice, root string) *resourceapi.ResourceSlice {
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].Attributes["root"] = resourceapi.DeviceAttribute{StringValue: &root}
	}
	return slice
}

// second makes a slice the second pool of its node.
func second(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	slice.Name += "-2"
	slice.Spec.Pool.Name += "-2"
	return slice
}

func tainted(slice *resourceapi.ResourceSlice, key string) *resourceapi.ResourceSlice {
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].Taints = []resourceapi.DeviceTaint{{Key: key, Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	return slice
}

func tolerating(c *resourceapi.ResourceClaim, key string) *resourceapi.ResourceClaim {
	for i := range c.Spec.Devices.Requests {
		c.Spec.Devices.Requests[i].Exactly.Tolerations = []resourceapi.DeviceToleration{{Key: key, Operator: resourceapi.DeviceTolerationOpExists}}
	}
	return c
}

// bandwidth gives the devices of a slice that much, in all or none.
func bandwidth(slice *resourceapi.ResourceSlice, value string) *resourceapi.ResourceSlice {
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"bandwidth": {Value: resource.MustParse(value)}}
	}
	return slice
}

// counted is a slice with the counter sets of the pool of a node, one with that much memory.
func counted(node, memory string) *resourceapi.ResourceSlice {
	slice := gpus(node, 0, "")
	slice.Name += "-counters"
	slice.Spec.Pool.ResourceSliceCount = 2
	slice.Spec.SharedCounters = []resourceapi.CounterSet{
		{Name: "card", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(memory)}, "slices": {Value: resource.MustParse("4")}}},
		{Name: "other", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("1")}}},
	}
	return slice
}

// partitions has the devices of a slice consume that much memory of the counter set, each in its group if there are any.
func partitions(slice *resourceapi.ResourceSlice, memory string, groups ...string) *resourceapi.ResourceSlice {
	slice.Spec.Pool.ResourceSliceCount = 2
	for i := range slice.Spec.Devices {
		consumption := resourceapi.DeviceCounterConsumption{
			CounterSet: "card", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(memory)}},
		}
		if len(groups) > 0 {
			consumption.CompatibilityGroups = groups[i : i+1]
		}
		slice.Spec.Devices[i].ConsumesCounters = []resourceapi.DeviceCounterConsumption{consumption}
	}
	return slice
}

// computed wants devices on one bus, which is computed from their roots.
func computed(c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	for i := range c.Spec.Devices.Requests {
		c.Spec.Devices.Requests[i].Exactly.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{
			Name: "gpu.example.com/bus", Expression: `"of " + device.attributes["gpu.example.com"].root`,
		}}
	}
	c.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("gpu.example.com/bus"))}}
	return c
}

func labelled(name, zone string) *corev1.Node {
	n := node(name)
	n.Labels = map[string]string{"zone": zone}
	return n
}

func selected(slice *resourceapi.ResourceSlice, requirement corev1.NodeSelectorRequirement) *resourceapi.ResourceSlice {
	slice.Spec.NodeName = nil
	slice.Spec.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{requirement},
	}}}
	return slice
}

// perDevice leaves the choice of nodes to the devices.
func perDevice(slice *resourceapi.ResourceSlice, nodes ...string) *resourceapi.ResourceSlice {
	slice.Spec.NodeName, slice.Spec.PerDeviceNodeSelection = nil, ptr.To(true)
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].NodeName = &nodes[i]
	}
	return slice
}

// byRank prefers devices with a lower rank.
type byRank struct{}

func (byRank) Before(a, b allocator.Candidate) bool {
	x, _ := a.Attribute("gpu.example.com/rank")
	y, _ := b.Attribute("gpu.example.com/rank")
	return *x.IntValue < *y.IntValue
}

func (byRank) Reads() []resourceapi.FullyQualifiedName {
	return []resourceapi.FullyQualifiedName{"gpu.example.com/rank"}
}

// Devices serve a request equally well, but a policy reads something that differs.
func TestNotEquivalentForPolicies(t *testing.T) {
	ranked := func(node string, ranks ...int64) *resourceapi.ResourceSlice {
		slice := gpus(node, len(ranks), "H100")
		for i, rank := range ranks {
			slice.Spec.Devices[i].Attributes["rank"] = resourceapi.DeviceAttribute{IntValue: &rank}
		}
		return slice
	}
	sized := func(node string, sizes ...int64) *resourceapi.ResourceSlice {
		slice := gpus(node, len(sizes), "H100")
		for i, size := range sizes {
			slice.Spec.Devices[i].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
				"memory": {Value: *resource.NewQuantity(size, resource.DecimalSI)},
			}
		}
		return slice
	}
	for policy, ledger := range map[allocator.Policy]*pools.Ledger{
		allocator.LeastWaste{}: clusterOf(sized("a", 8, 4), sized("b", 4, 8)),
		byRank{}:               clusterOf(ranked("a", 8, 4), ranked("b", 4, 8)),
	} {
		problem := compile(allocator.Options{Policy: policy}, claim("c", 1))
		for range 2 {
			for name, want := range map[string]string{"a": "r0=gpu-1", "b": "r0=gpu-0"} {
				outcome, err := problem.Allocate(t.Context(), ledger.State(), node(name))
				if err != nil {
					t.Fatal(err)
				}
				if got := chosen(outcome); got != want {
					t.Errorf("%T: node %s: %s instead of %s", policy, name, got, want)
				}
			}
		}
	}
}

// A device of another node is in use, and consumes counters of the pool.
func TestNotEquivalentByUseOnOtherNodes(t *testing.T) {
	ledger := clusterOf(
		counted("a", "4"), perDevice(partitions(gpus("a", 2, "H100"), "4"), "a", "elsewhere"),
		counted("b", "4"), perDevice(partitions(gpus("b", 2, "H100"), "4"), "b", "elsewhere"))
	used := claim("used", 1)
	used.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "r0", Driver: "gpu.example.com", Pool: "a", Device: "gpu-1"}},
	}}
	problem := compile(allocator.Options{}, claim("c", 1))
	look := func(want allocator.Verdict) {
		t.Helper()
		if got := feasible(problem, ledger, node("a")); got != want.String() {
			t.Errorf("node a: %s instead of %s", got, want)
		}
		if got := feasible(problem, ledger, node("b")); got != allocator.Satisfiable.String() {
			t.Errorf("node b: %s", got)
		}
	}
	look(allocator.Satisfiable)
	if err := ledger.Assume(used); err != nil {
		t.Fatal(err)
	}
	look(allocator.NotSatisfiable)
	if err := ledger.Forget(used); err != nil {
		t.Fatal(err)
	}
	look(allocator.Satisfiable)
}
