// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate"
)

// leftNode is a node that was removed.
type leftNode struct {
	node   *corev1.Node
	slices []*resourceapi.ResourceSlice
}

// addNode adds a real node: one like the template, or one that was removed as it was.
func (g *game) addNode() {
	node, published := g.template.Nodes(0)
	again := len(g.left) > 0 && g.rand.IntN(2) == 0
	if again {
		left := g.left[g.rand.IntN(len(g.left))]
		node, published = left.node, left.slices
	} else {
		g.nodesAdded++
		node.Name = fmt.Sprintf("added-%d", g.nodesAdded)
		for _, slice := range published {
			slice.Name, slice.Spec.Pool.Name, slice.Spec.NodeName = node.Name+slice.Name, node.Name+slice.Spec.Pool.Name, &node.Name
		}
	}
	exists := slices.ContainsFunc(g.ref.nodes, func(n *corev1.Node) bool { return n.Name == node.Name })
	err := g.sim.AddNode(node, published...)
	switch {
	case exists != (err != nil):
		g.Fatalf("seed %d: node %s is there: %t, and adding it: %v", g.seed, node.Name, exists, err)
	case exists:
		g.seen["node there already"]++
		return
	case again:
		g.seen["node added again"]++
	default:
		g.seen["node added"]++
	}
	g.ref.nodes = append(slices.Clip(g.ref.nodes), node)
	g.ref.slices = append(slices.Clip(g.ref.slices), published...)
}

func TestAddNodeErrors(t *testing.T) {
	cluster := gpuCluster("a", "b")
	everywhere := gpuSlice("x", 1)
	everywhere.Spec.NodeName, everywhere.Spec.AllNodes, everywhere.Spec.Pool.Name = nil, ptr.To(true), "everywhere"
	cluster.Slices = append(cluster.Slices, everywhere)
	state, err := simulate.Open(cluster, simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	sim := state.Sim()
	if err := sim.AddNode(nodeNamed("first"), gpuSlice("first", 1)); err != nil {
		t.Fatal(err)
	}
	in := func(pool string) *resourceapi.ResourceSlice {
		slice := gpuSlice("new", 1)
		slice.Spec.Pool.Name = pool
		return slice
	}
	for text, try := range map[string]func() error{
		"the node is nil":         func() error { return sim.AddNode(nil) },
		"node a exists":           func() error { return sim.AddNode(nodeNamed("a")) },
		"node first exists":       func() error { return sim.AddNode(nodeNamed("first")) },
		"slice 1 is nil":          func() error { return sim.AddNode(nodeNamed("new"), gpuSlice("new", 1), nil) },
		`spec.nodeName is "a"`:    func() error { return sim.AddNode(nodeNamed("new"), gpuSlice("a", 1)) },
		`spec.nodeName is ""`:     func() error { return sim.AddNode(nodeNamed("new"), everywhere) },
		"is one of several nodes": func() error { return sim.AddNode(nodeNamed("new"), in("everywhere")) },
		"is one of node first":    func() error { return sim.AddNode(nodeNamed("new"), in("first")) },
		"is one of node a":        func() error { return sim.AddNode(nodeNamed("new"), in(cluster.Slices[0].Spec.Pool.Name)) },
		"node new does not exist": func() error { return sim.Remove("new") }, // nothing changed
		"node second does not exist": func() error {
			sim.Fork()
			err := sim.AddNode(nodeNamed("second"))
			sim.Revert()
			return errors.Join(err, sim.Remove("second"))
		},
		"node first does not exist again": func() error {
			sim.Fork()
			err := errors.Join(sim.Remove("first"), sim.Remove("first"))
			sim.Revert()
			return fmt.Errorf("%w again", err)
		},
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want %q", err, text)
		}
	}
	if cluster.Slices[0].Spec.NodeName == nil || *cluster.Slices[0].Spec.NodeName != "a" {
		t.Fatal("the first slice is not that of node a")
	}
}

// Added nodes take part in all questions about real nodes, in the State, too. Revert removes them.
func TestAddedNodes(t *testing.T) {
	state, err := simulate.Open(gpuCluster("a"), simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	shapes, err := state.Shapes(gpuPods("one", 40))
	if err != nil {
		t.Fatal(err)
	}
	fits := func(s *simulate.State, want int) {
		t.Helper()
		fit, err := s.FitsMany(t.Context(), shapes[0], simulate.Real(nil))
		if err != nil || fit.Pods != want {
			t.Errorf("%d pods fit, want %d, error %v", fit.Pods, want, err)
		}
	}
	fits(state, 4)
	sim := state.Sim()
	sim.Fork()
	if err := sim.AddNode(nodeNamed("b"), gpuSlice("b", 8)); err != nil {
		t.Fatal(err)
	}
	with := sim.State()
	fits(with, 12)
	fits(state, 4)
	result, err := sim.PlaceMany(t.Context(), shapes[0], 6, simulate.Real(nil), simulate.FirstFit)
	if err != nil || result.Placed != 6 {
		t.Fatal(result.Placed, err)
	}
	fits(sim.State(), 6)
	node, err := sim.State().Node("b")
	if err != nil || sim.State().InUse(node) != 0.25 {
		t.Errorf("node b: %v, %v of it is in use", err, sim.State().InUse(node))
	}
	if err := sim.Evict(slices.Collect(sim.State().Pods(node))...); err != nil {
		t.Error(err)
	}
	fits(sim.State(), 8)
	departures, err := sim.State().Drainable(t.Context(), simulate.Real(nil), simulate.Real(nil), simulate.FirstFit)
	if err != nil || len(departures) != 2 || departures[1].Node.Name() != "b" || !departures[0].Possible {
		t.Errorf("the nodes that can go are %v, error %v", departures, err)
	}
	if err := sim.Remove("b"); err != nil {
		t.Error(err)
	}
	fits(sim.State(), 0)
	if err := sim.AddNode(nodeNamed("b"), gpuSlice("b", 2)); err != nil {
		t.Error(err)
	}
	fits(sim.State(), 2)
	sim.Revert()
	fits(sim.State(), 4)
	fits(with, 12)
}

// Sims merge if one of them added nodes, and not if both did.
func TestMergeAddedNodes(t *testing.T) {
	state, err := simulate.Open(gpuCluster("a"), simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	shapes, err := state.Shapes(gpuPods("one", 40))
	if err != nil {
		t.Fatal(err)
	}
	mine, other, third := state.Sim(), state.Sim(), state.Sim()
	for sim, name := range map[*simulate.Sim]string{other: "b", third: "c"} {
		if err := sim.AddNode(nodeNamed(name), gpuSlice(name, 8)); err != nil {
			t.Fatal(err)
		}
	}
	place := func(sim *simulate.Sim, n int, on simulate.Nodes) {
		t.Helper()
		if result, err := sim.PlaceMany(t.Context(), shapes[0], n, on, simulate.FirstFit); err != nil || result.Placed != n {
			t.Fatal(result.Placed, err)
		}
	}
	place(other, 3, simulate.Real(func(node *corev1.Node) bool { return node.Name == "b" }))
	place(mine, 4, simulate.Real(nil))
	if err := mine.Merge(other); err != nil {
		t.Fatal(err)
	}
	fit, err := mine.State().FitsMany(t.Context(), shapes[0], simulate.Real(nil))
	if err != nil || fit.Pods != 5 {
		t.Errorf("%d pods fit, want 5, error %v", fit.Pods, err)
	}
	var conflict *simulate.ConflictError
	if err := mine.Merge(third); !errors.As(err, &conflict) || conflict.Object != "node c" {
		t.Errorf("error %v, want a conflict about node c", err)
	}
}

// The taints of rules are on the devices of nodes that are added, too.
func TestAddedNodeHasTaintsOfRules(t *testing.T) {
	cluster := gpuCluster("a")
	rule := &resourceapi.DeviceTaintRule{}
	rule.Name = "broken"
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Pool: ptr.To("b")}
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	cluster.TaintRules = []*resourceapi.DeviceTaintRule{rule}
	state, err := simulate.Open(cluster, simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	shapes, err := state.Shapes(gpuPods("one", 1))
	if err != nil {
		t.Fatal(err)
	}
	sim := state.Sim()
	for _, name := range []string{"b", "c"} {
		if err := sim.AddNode(nodeNamed(name), gpuSlice(name, 8)); err != nil {
			t.Fatal(err)
		}
	}
	if fit, err := sim.State().FitsMany(t.Context(), shapes[0], simulate.Real(nil)); err != nil || fit.Pods != 12 {
		t.Errorf("%d pods fit, want 12, error %v", fit.Pods, err)
	}
}

// Devices of nodes that are added can get taints, also if a node of that name was there before.
func TestTaintOnAddedNodes(t *testing.T) {
	state, err := simulate.Open(gpuCluster("a"), simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	shapes, err := state.Shapes(gpuPods("one", 1))
	if err != nil {
		t.Fatal(err)
	}
	sim := state.Sim()
	if err := errors.Join(sim.Remove("a"), sim.AddNode(nodeNamed("a"), gpuSlice("a", 4)), sim.AddNode(nodeNamed("b"), gpuSlice("b", 4))); err != nil {
		t.Fatal(err)
	}
	for _, pool := range []string{"a", "b"} {
		taint := resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}
		if err := sim.Taint(taint, slices.Values([]pools.DeviceID{{Driver: "gpu.example.com", Pool: pool, Device: "gpu-1"}})); err != nil {
			t.Errorf("pool %s: %v", pool, err)
		}
	}
	if fit, err := sim.State().FitsMany(t.Context(), shapes[0], simulate.Real(nil)); err != nil || fit.Pods != 6 {
		t.Errorf("%d pods fit, want 6, error %v", fit.Pods, err)
	}
}

// A claim may be allocated to a device of a node that is not there yet.
func TestAddedNodeHasItsClaims(t *testing.T) {
	cluster := gpuCluster("a")
	claim := &resourceapi.ResourceClaim{}
	claim.Namespace, claim.Name = "default", "early"
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "r", Driver: "gpu.example.com", Pool: "b", Device: "gpu-1"},
	}}}
	cluster.Claims = append(cluster.Claims, claim)
	state, err := simulate.Open(cluster, simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	sim := state.Sim()
	if err := sim.AddNode(nodeNamed("b"), gpuSlice("b", 4)); err != nil {
		t.Fatal(err)
	}
	node, err := sim.State().Node("b")
	if err != nil || sim.State().InUse(node) != 0.25 {
		t.Errorf("error %v, %v of the node is in use, want a quarter", err, sim.State().InUse(node))
	}
}

// Claims keep their devices while the node is removed. These are in use again once they exist, on whichever node.
func TestNodeAddedAgainHasItsClaims(t *testing.T) {
	cluster := gpuCluster("a", "b")
	cluster.Claims = []*resourceapi.ResourceClaim{{}, {}}
	for i, devices := range [][]string{{"gpu-1", "gpu-3"}, {"gpu-2"}} {
		claim := cluster.Claims[i]
		claim.Namespace, claim.Name = "default", fmt.Sprint("stays-", i)
		claim.Status.Allocation = ptr.To(gpuResults("a", devices...))
	}
	inUse := func(sim *simulate.Sim, name string, want float64) {
		t.Helper()
		node, err := sim.State().Node(name)
		if err != nil || sim.State().InUse(node) != want {
			t.Errorf("error %v, %v of node %s is in use, want %v", err, sim.State().InUse(node), name, want)
		}
	}
	sim := open(t, cluster, simulate.Options{}).Sim()
	inUse(sim, "a", 0.75)
	for range 2 {
		must(t, sim.Remove("a"))
		must(t, sim.AddNode(nodeNamed("a"), gpuSlice("a", 4)))
		inUse(sim, "a", 0.75)
	}
	must(t, sim.Remove("a"))
	must(t, sim.AddNode(nodeNamed("a"), gpuSlice("a", 3))) // without gpu-3
	inUse(sim, "a", 2.0/3)
	must(t, sim.Remove("a"))
	slice := gpuSlice("c", 4)
	slice.Spec.Pool.Name = "a"
	must(t, sim.AddNode(nodeNamed("c"), slice))
	inUse(sim, "c", 0.75)
	inUse(sim, "b", 0)
	sim.Fork()
	must(t, sim.Remove("c"))
	must(t, sim.AddNode(nodeNamed("a")))
	inUse(sim, "a", 0)
	template, err := sim.State().Template(simulate.TemplateSpec{Node: nodeNamed("a"), Slices: []*resourceapi.ResourceSlice{gpuSlice("a", 4)}})
	must(t, err)
	must(t, sim.Expect("a", template))
	inUse(sim, "a", 0.75)
	sim.Revert()
	inUse(sim, "c", 0.75)
}

// A claim that was allocated on a node can be used there once a node of the name is there again.
func TestNodeAddedAgainServesItsClaims(t *testing.T) {
	cluster := gpuCluster("a", "b")
	claim := &resourceapi.ResourceClaim{Spec: cluster.Templates[0].Spec.Spec}
	claim.Namespace, claim.Name = "default", "shared"
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "jobs", Name: "elsewhere"}}
	cluster.Claims = append(cluster.Claims, claim)
	sim := open(t, cluster, simulate.Options{}).Sim()
	pods := gpuPods("one", 2)
	for i, pod := range pods {
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("shared")}}
		if i == 1 {
			must(t, sim.Remove("a"))
			must(t, sim.AddNode(nodeNamed("a"), gpuSlice("a", 4)))
		}
		r, err := sim.Place(t.Context(), pod, simulate.Real(nil), simulate.FirstFit)
		must(t, err)
		if !r.All() {
			t.Fatalf("pod %d has no place: %v", i, r)
		}
		for placement := range r.Placements() {
			if got := placement.Node.Name(); got != "a" {
				t.Errorf("pod %d is on %s, want a", i, got)
			}
		}
	}
}

// A node that was added, and preferred, is gone with a Revert.
func TestRankedNodesAreGoneWithRevert(t *testing.T) {
	state := open(t, gpuCluster("a", "b"), simulate.Options{})
	sim, pods := state.Sim(), gpuPods("one", 5)
	for i, want := range []string{"a", "b", "new", "a", "other"} {
		switch i {
		case 2:
			sim.Fork()
			must(t, sim.AddNode(nodeNamed("new"), gpuSlice("new", 4)))
		case 3:
			sim.Revert()
		case 4:
			must(t, sim.AddNode(nodeNamed("other"), gpuSlice("other", 4)))
		}
		r, err := sim.Place(t.Context(), pods[i], simulate.Real(nil), simulate.Spread)
		must(t, err)
		for placement := range r.Placements() {
			if got := placement.Node.Name(); got != want {
				t.Errorf("pod %d is on %s, want %s", i, got, want)
			}
		}
	}
}

// A claim that pods share keeps its device when further devices of its node are expected, and gives it back.
func TestExpectMovesWhatClaimsHold(t *testing.T) {
	cluster := gpuCluster("a", "b")
	claim := &resourceapi.ResourceClaim{Spec: cluster.Templates[0].Spec.Spec}
	claim.Namespace, claim.Name = "default", "shared"
	cluster.Claims = append(cluster.Claims, claim)
	nics := gpuSlice("b", 3)
	nics.Name, nics.Spec.Driver, nics.Spec.Pool.Name = "nics", "a-nic.example.com", "nics" // its pools come before those of the GPUs
	cluster.Slices = append(cluster.Slices, nics)
	state := open(t, cluster, simulate.Options{})
	template, err := state.TemplateOf("b", nil)
	must(t, err)
	sim := state.Sim()
	onA := simulate.Real(func(n *corev1.Node) bool { return n.Name == "a" })
	pod := gpuPods("one", 1)[0]
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("shared")}}
	r, err := sim.Place(t.Context(), pod, onA, simulate.FirstFit)
	must(t, err)
	if !r.All() {
		t.Fatal(r)
	}
	must(t, sim.Expect("a", template))
	free := func(want int) {
		t.Helper()
		devices, left := 0, 0
		now := sim.State()
		for _, use := range now.Devices(nodeOf(t, now, "a")) {
			if devices++; use.Free {
				left++
			}
		}
		if found := fit(t, now, shapeOf(t, state, gpuPods("one", 1)), onA); devices != 7 || left != want+3 || found.Pods != want {
			t.Errorf("%d of %d devices are free, and %d pods fit; want %d GPUs and 3 NICs", left, devices, found.Pods, want)
		}
	}
	free(3)
	must(t, sim.Evict(pod))
	free(4)
}

// A pod in the middle of equal nodes of a template leaves as many nodes before it and behind it.
func TestPodInTheMiddleOfATemplate(t *testing.T) {
	state := open(t, gpuCluster("a"), simulate.Options{})
	template, err := state.TemplateOf("a", nil)
	must(t, err)
	shape := shapeOf(t, state, gpuPods("three", 1))
	for at := range 5 {
		sim := state.Sim()
		must(t, sim.Add(template, 5))
		if r, err := sim.Put(t.Context(), gpuPods("two", 1)[0], template.At(at)); err != nil || !r.All() {
			t.Fatal(r, err)
		}
		if found := fit(t, sim.State(), shape, simulate.Added(template)); found.Pods != 4 {
			t.Errorf("with a pod on node %d, %d pods fit on the others, want 4", at, found.Pods)
		}
		names := make(map[string]bool)
		for _, placement := range place(t, sim, shape, 4, simulate.Added(template)) {
			names[placement.Node.Name()] = true
		}
		if len(names) != 4 || names[template.At(at).Name()] {
			t.Errorf("with a pod on node %d, they are on %v", at, names)
		}
	}
}

// A template of a real node has the pods of it that daemon names and that run, and no others. They use resources of each new node.
func TestTemplateWithDaemons(t *testing.T) {
	cpu := func(name, node, amount string, phase corev1.PodPhase) *corev1.Pod {
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase}}
		pod.Namespace, pod.Name, pod.UID = "default", name, types.UID(name)
		pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}}}}
		return pod
	}
	cluster := gpuCluster("a", "b")
	for _, node := range cluster.Nodes {
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("100")}
	}
	cluster.Pods = []*corev1.Pod{
		cpu("daemon-1", "a", "1", corev1.PodRunning), cpu("other", "a", "1", corev1.PodRunning), cpu("daemon-2", "a", "2", corev1.PodPending),
		cpu("daemon-ended", "a", "4", corev1.PodSucceeded), cpu("daemon-of-b", "b", "4", corev1.PodRunning),
	}
	state := open(t, cluster, simulate.Options{})
	shape := shapeOf(t, state, []*corev1.Pod{cpu("new", "", "1", corev1.PodPending)})
	isDaemon := func(pod *corev1.Pod) bool { return strings.HasPrefix(pod.Name, "daemon") }
	for name, test := range map[string]struct {
		daemon func(*corev1.Pod) bool
		want   int
	}{
		"no function": {nil, 8}, "none": {func(*corev1.Pod) bool { return false }, 8}, "daemons": {isDaemon, 5}, "all": {func(*corev1.Pod) bool { return true }, 4},
	} {
		template, err := state.TemplateOf("a", test.daemon)
		must(t, err)
		if found := fit(t, state, shape, simulate.New(template, 1)); found.Pods != test.want {
			t.Errorf("%s: %d pods fit on a new node, want %d", name, found.Pods, test.want)
		}
	}
	if _, err := state.TemplateOf("c", nil); err == nil || err.Error() != "node c does not exist" {
		t.Errorf("error %v", err)
	}
}
