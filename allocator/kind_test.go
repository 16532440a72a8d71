// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
	"github.com/dray-project/dray/internal/dev/oracle"
	"github.com/dray-project/dray/pools"
)

// Many copies of a generated node, with different devices in use, get the same answers with and without
// memory, for each policy.
func TestRememberedAnswersAgreeWithSearches(t *testing.T) {
	const model = resourceapi.FullyQualifiedName("gpu.example.com/model")
	for name, c := range map[string]struct {
		options allocator.Options
		cases   int
	}{
		"first fit":   {allocator.Options{}, 600},
		"least waste": {allocator.Options{Policy: allocator.LeastWaste{}}, 150},
		"pack":        {allocator.Options{Policy: allocator.Pack{}}, 150},
		"spread":      {allocator.Options{Policy: allocator.Spread{}}, 150},
		"topology":    {allocator.Options{Policy: allocator.Pack{}, Topology: []resourceapi.FullyQualifiedName{model, "gpu.example.com/numa"}}, 150},
		"own":         {allocator.Options{Policy: byStrings{}}, 150},
	} {
		t.Run(name, func(t *testing.T) { compareFleets(t, c.options, fewer(c.cases)) })
	}
}

// byStrings is a policy of a user: it prefers the device with the larger name of a model, then of another
// attribute, and then the larger one.
type byStrings struct{}

func (byStrings) Reads() []resourceapi.FullyQualifiedName {
	return []resourceapi.FullyQualifiedName{"gpu.example.com/model", "shared.example.com/root"}
}

func (p byStrings) Before(a, b allocator.Candidate) bool {
	for _, name := range p.Reads() {
		if x, y := text(a, name), text(b, name); x != y {
			return x > y
		}
	}
	return a.CompareSize(b) > 0
}

func text(c allocator.Candidate, name resourceapi.FullyQualifiedName) string {
	value, _ := c.Attribute(name)
	return ptr.Deref(value.StringValue, "")
}

// forgetful is a policy that does not say what it reads.
type forgetful struct{ policy allocator.Policy }

func (f forgetful) Before(a, b allocator.Candidate) bool { return f.policy.Before(a, b) }

func compareFleets(t *testing.T, options allocator.Options, cases int) {
	known, asked := 0, 0
	for seed := range uint64(cases) {
		c := clustergen.Generate(seed, clustergen.Default)
		nodes := multiply(c, rand.New(rand.NewPCG(seed, 0)), options.Policy != nil)
		ledger := pools.NewLedger(pools.Build(c.Features.PoolGates(), c.Slices))
		for _, claim := range c.Allocated {
			if err := ledger.Assume(claim); err != nil {
				t.Fatal(err)
			}
		}
		options.Features = c.Features
		remembering, fresh := unasked(options), options
		if fresh.Policy != nil {
			fresh.Policy = forgetful{fresh.Policy}
		}
		alone := make([]alloctest.Outcome, len(nodes))
		for round := range 3 {
			if round == 2 {
				take(t, remembering, c, ledger, nodes)
			}
			for i, got := range evaluate(t, remembering, c, ledger, nodes) {
				if round != 1 { // nothing changed
					_, alone[i] = render(unasked(fresh), c, ledger, nodes[i])
				}
				if diff := oracle.Equal(alone[i].Results, got.answer.Results); diff != "" || (alone[i].Err == nil) != (got.answer.Err == nil) || alone[i].Explanation != got.answer.Explanation {
					t.Fatalf("seed %d, round %d, node %s: got %+v, without memory %+v: %s", seed, round, nodes[i].Name, got.answer, alone[i], diff)
				}
				asked++
				if got.outcome != nil && got.outcome.Stats().Steps == 0 {
					known++
				}
			}
		}
	}
	if known < asked/10 {
		t.Errorf("only %d of %d answers were known: the test shows little", known, asked)
	}
}

type evaluated struct {
	outcome allocator.Outcome
	answer  alloctest.Outcome
}

// evaluate asks for all nodes at once.
func evaluate(t *testing.T, a *allocator.Allocator, c *alloctest.Case, ledger *pools.Ledger, nodes []*corev1.Node) []evaluated {
	t.Helper()
	all := make([]evaluated, len(nodes))
	problem, err := a.Compile(c.Claims, allocator.ClassMap(c.Classes...))
	if err != nil {
		for i := range all {
			all[i].answer.Err = err
		}
		return all
	}
	answers, err := problem.Evaluate(context.Background(), ledger.State(), nodes, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		outcome, err := answers.Outcome(i)
		all[i] = evaluated{outcome, rendered(outcome, err)}
		if found, _ := problem.Feasible(context.Background(), ledger.State(), nodes[i]); found.Verdict() != answers.Verdict(i) {
			t.Fatalf("node %s: the verdict is %s, and then %s", nodes[i].Name, answers.Verdict(i), found.Verdict())
		}
	}
	return all
}

// take allocates the claims on the first node where they fit.
func take(t *testing.T, a *allocator.Allocator, c *alloctest.Case, ledger *pools.Ledger, nodes []*corev1.Node) {
	t.Helper()
	for _, got := range evaluate(t, a, c, ledger, nodes) {
		if len(got.answer.Results) == 0 {
			continue
		}
		for i, claim := range c.Claims {
			allocated := claim.DeepCopy()
			allocated.Namespace, allocated.UID = "taken", types.UID(fmt.Sprint(i))
			allocated.Status.Allocation = &got.answer.Results[i]
			if err := ledger.Assume(allocated); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
}

func render(a *allocator.Allocator, c *alloctest.Case, ledger *pools.Ledger, node *corev1.Node) (allocator.Outcome, alloctest.Outcome) {
	problem, err := a.Compile(c.Claims, allocator.ClassMap(c.Classes...))
	if err != nil {
		return nil, alloctest.Outcome{Err: err}
	}
	outcome, err := problem.Allocate(context.Background(), ledger.State(), node)
	return outcome, rendered(outcome, err)
}

func rendered(outcome allocator.Outcome, err error) alloctest.Outcome {
	switch answer := outcome.(type) {
	case *allocator.Assignment:
		return alloctest.Outcome{Results: answer.Results()}
	case *allocator.Unsatisfiable:
		return alloctest.Outcome{Explanation: answer.Explain().Text()}
	}
	return alloctest.Outcome{Err: err}
}

// copier adds copies of the case's node with its local slices, some of their devices in
// use: as pools of their own, as more slices of the same pool, or with a choice of nodes
// per device.
type copier struct {
	c       *alloctest.Case
	random  *rand.Rand
	apart   bool // pools of their own
	chosen  bool // nodes are chosen per device, by name or label
	renames bool // strings differ from node to node
	// varies is set if capacities and strings of some devices are others.
	varies bool
}

func multiply(c *alloctest.Case, random *rand.Rand, varies bool) []*corev1.Node {
	m := copier{c: c, random: random, apart: random.IntN(3) > 0, chosen: random.IntN(4) == 0, renames: random.IntN(2) == 0}
	m.varies = varies
	nodes := append([]*corev1.Node{}, c.Nodes...)
	original := append([]*resourceapi.ResourceSlice{}, c.Slices...)
	for n := range 6 {
		name := fmt.Sprintf("copy-%d", n)
		node := c.Nodes[0].DeepCopy()
		node.Name = name
		node.Labels = map[string]string{"host": name}
		maps.Copy(node.Labels, c.Nodes[0].Labels)
		nodes = append(nodes, node)
		holder := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "copies", Name: name}}
		holder.Status.Allocation = &resourceapi.AllocationResult{}
		for _, slice := range original {
			if ptr.Deref(slice.Spec.NodeName, "") == c.Nodes[0].Name {
				m.copy(slice, name, holder, n%2 == 1)
			}
		}
		c.Allocated = append(c.Allocated, holder)
	}
	return nodes
}

func (m *copier) copy(slice *resourceapi.ResourceSlice, node string, holder *resourceapi.ResourceClaim, used bool) {
	copied := slice.DeepCopy()
	copied.Name += "-" + node
	copied.Spec.NodeName = &node
	if m.apart {
		copied.Spec.Pool.Name += "-" + node
	} else {
		for _, other := range append(m.c.Slices, copied) {
			if other.Spec.Driver == slice.Spec.Driver && other.Spec.Pool.Name == slice.Spec.Pool.Name {
				other.Spec.Pool.ResourceSliceCount++
			}
		}
		copied.Spec.Pool.ResourceSliceCount = slice.Spec.Pool.ResourceSliceCount
	}
	if m.chosen {
		copied.Spec.NodeName, copied.Spec.PerDeviceNodeSelection = nil, ptr.To(true)
	}
	for i := range copied.Spec.Devices {
		device := &copied.Spec.Devices[i]
		if !m.apart {
			device.Name += "-" + node
		}
		if m.chosen {
			m.choose(device, node)
		}
		if m.renames {
			rename(device, node)
		}
		if m.varies && m.random.IntN(3) == 0 {
			m.vary(device)
		}
		if used && m.random.IntN(4) == 0 {
			m.hold(holder, copied, device)
		}
	}
	m.c.Slices = append(m.c.Slices, copied)
}

func (m *copier) choose(device *resourceapi.Device, node string) {
	switch m.random.IntN(4) {
	case 0:
		device.NodeName = ptr.To(fmt.Sprintf("copy-%d", m.random.IntN(6)))
	case 1:
		device.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: "host", Operator: corev1.NodeSelectorOpIn, Values: []string{node, fmt.Sprintf("copy-%d", m.random.IntN(6))},
		}}}}}
	default:
		device.NodeName = &node
	}
}

// rename keeps strings equal that are equal.
func rename(device *resourceapi.Device, node string) {
	for name, attribute := range device.Attributes {
		if attribute.StringValue != nil && name != "model" {
			attribute.StringValue = ptr.To(*attribute.StringValue + "-" + node)
			device.Attributes[name] = attribute
		}
	}
}

// vary makes a device another one for policies.
func (m *copier) vary(device *resourceapi.Device) {
	for _, name := range slices.Sorted(maps.Keys(device.Capacity)) {
		if capacity := device.Capacity[name]; m.random.IntN(2) == 0 {
			capacity.Value.Add(*resource.NewQuantity(1+m.random.Int64N(2), resource.DecimalSI))
			device.Capacity[name] = capacity
		}
	}
	for _, name := range []resourceapi.QualifiedName{"model", "shared.example.com/root"} {
		if _, found := device.Attributes[name]; found && m.random.IntN(2) == 0 {
			device.Attributes[name] = resourceapi.DeviceAttribute{StringValue: ptr.To([]string{"a", "b", "bc"}[m.random.IntN(3)])}
		}
	}
}

func (m *copier) hold(holder *resourceapi.ResourceClaim, slice *resourceapi.ResourceSlice, device *resourceapi.Device) {
	result := resourceapi.DeviceRequestAllocationResult{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: device.Name}
	if ptr.Deref(device.AllowMultipleAllocations, false) && m.c.Features.ConsumableCapacity {
		result.ShareID = ptr.To(types.UID(fmt.Sprintf("share-%d", m.random.IntN(1000))))
		for name := range device.Capacity {
			result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{name: *resource.NewQuantity(m.random.Int64N(3), resource.DecimalSI)}
		}
	}
	holder.Status.Allocation.Devices.Results = append(holder.Status.Allocation.Devices.Results, result)
}
