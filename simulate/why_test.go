// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/podclaims"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate"
)

// why compares why pods have no place with what the allocator says of each node by itself.
func (g *game) why(where string, got simulate.Result, pod *corev1.Pod, fresh func(int) (*corev1.Node, []*resourceapi.ResourceSlice)) {
	g.Helper()
	refusals, err := got.Why(g.Context())
	if err != nil || len(refusals) != 1 {
		g.Fatalf("%s: %d refusals, %v", where, len(refusals), err)
	}
	r := &refusals[0]
	if r.Pods != got.Unfit+got.Undecided || r.Err != nil {
		g.Fatalf("%s: %d pods are refused, %v; want %d", where, r.Pods, r.Err, got.Unfit+got.Undecided)
	}
	listed := listedNodes(r)
	nodes := g.ref.candidates()
	existing := len(nodes) - len(g.ref.added)
	var extra []*resourceapi.ResourceSlice
	if fresh != nil {
		var node *corev1.Node
		node, extra = fresh(len(g.ref.added))
		nodes = append(nodes, node)
	}
	var want explain.Grouping
	for i, node := range nodes {
		by, found := listed[node.Name]
		if !found && i < existing {
			g.Fatalf("%s: node %s is not listed: %v", where, node.Name, r)
		}
		if !found {
			continue // equal to one before
		}
		delete(listed, node.Name)
		none, obstacle := g.refused(node, extra, pod)
		switch {
		case by != obstacle && (none == nil || by != "devices"):
			g.Fatalf("%s: node %s is listed under %q, want %q", where, node.Name, by, obstacle)
		case none != nil:
			want.Add(none, node.Name)
		}
	}
	if len(listed) > 0 {
		g.Fatalf("%s: nodes %v are listed and not there", where, listed)
	}
	groups := want.Groups()
	for i := range groups {
		if len(groups[i].Closest.Pools) > 0 && i < len(r.Devices) {
			groups[i].Uniform = r.Devices[i].Uniform // the summary names pools, which differ in nothing but that
		}
	}
	if diff := cmp.Diff(groups, r.Devices, cmp.AllowUnexported(explain.Group{}), cmpopts.EquateEmpty()); diff != "" {
		g.Fatalf("%s: explained (-step by step +simulated):\n%s", where, diff)
	}
	g.seen["explained"] += len(r.Devices)
	g.seen["obstacles"] += len(r.Others)
}

// listedNodes tells under what each node is listed.
func listedNodes(r *simulate.Refusal) map[string]string {
	listed := make(map[string]string)
	for _, group := range r.Devices {
		for _, name := range group.Nodes {
			listed[name] = "devices"
		}
	}
	for _, o := range r.Others {
		for _, name := range o.Nodes {
			listed[name] = o.Reason
		}
	}
	for _, name := range r.Undecided {
		listed[name] = "undecided"
	}
	return listed
}

// programs are compiled expressions of all sequences.
var programs = cel.NewCache(2000)

// refused asks about one node. Without an explanation, the obstacle is something else than devices.
func (g *game) refused(node *corev1.Node, extra []*resourceapi.ResourceSlice, pod *corev1.Pod) (*explain.Explanation, string) {
	var open []*resourceapi.ResourceClaim
	for i, claim := range g.ref.claimsOf(pod, g.templates) {
		if claim.Status.Allocation == nil {
			claim = claim.DeepCopy()
			if podClaim := pod.Spec.ResourceClaims[i]; podClaim.ResourceClaimTemplateName != nil {
				claim.Name = podclaims.WithSuffix("default", pod.Name+"-"+podClaim.Name+"-")
			}
			open = append(open, claim)
		} else if !admits(claim, node) {
			return nil, "a claim of the pod is allocated on other nodes"
		}
	}
	if !g.ref.hasCPU(node, pod) {
		return nil, "too little cpu"
	}
	memory := allocator.NewMemory(allocator.MemoryOptions{Off: true, Programs: programs})
	problem, err := allocator.New(allocator.Options{Features: g.ref.base.Features, Policy: g.options.DevicePolicy, Topology: g.options.Topology, Memory: memory}).Compile(open, allocator.ClassMap(g.ref.base.Classes...))
	if err != nil {
		g.Fatal(err)
	}
	ledger := pools.NewLedger(pools.Build(g.ref.base.Features.PoolGates(), append(slices.Clone(g.ref.slices), extra...)))
	for _, claim := range g.ref.allocated() {
		if err := ledger.Assume(claim); err != nil {
			g.Fatal(err)
		}
	}
	outcome, err := problem.Allocate(g.Context(), ledger.State(), node)
	if none, ok := outcome.(*allocator.Unsatisfiable); err == nil && ok {
		return none.Explain(), ""
	}
	return nil, "undecided"
}

// Reasons that are not about devices are told apart, too.
func TestWhyNotDevices(t *testing.T) {
	c := gpuCluster("cordoned", "tainted", "labels", "small", "gpus", "more-gpus")
	c.Nodes[0].Spec.Unschedulable = true
	c.Nodes[1].Spec.Taints = []corev1.Taint{{Key: "broken", Effect: corev1.TaintEffectNoSchedule}}
	for i, node := range c.Nodes {
		node.Labels = map[string]string{"zone": "a"}
		if i == 2 {
			node.Labels["zone"] = "b"
		}
	}
	c.Nodes[3].Status.Allocatable = cpus("1")
	c.Slices[4].Spec.Devices = c.Slices[4].Spec.Devices[:2]
	c.Slices[5].Spec.Devices = c.Slices[5].Spec.Devices[:2]
	state := open(t, c, simulate.Options{})
	pod := gpuPods("three", 1)[0]
	pod.Spec.NodeSelector = map[string]string{"zone": "a"}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: cpus("2")}}}
	r, err := state.Sim().Place(t.Context(), pod, simulate.Real(nil), simulate.FirstFit)
	if err != nil {
		t.Fatal(err)
	}
	refusals, err := r.Why(t.Context())
	if err != nil || len(refusals) != 1 {
		t.Fatalf("%d refusals, %v", len(refusals), err)
	}
	want := map[string]string{
		"cordoned": "the node is cordoned", "tainted": "the pod does not tolerate the taint broken:NoSchedule",
		"labels": "the labels of the node do not match the pod's node selector or affinity",
		"small":  "too little cpu", "gpus": "devices", "more-gpus": "devices",
	}
	if diff := cmp.Diff(want, listedNodes(&refusals[0])); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	text := refusals[0].String()
	for _, part := range []string{"1 pod like default/three-0 not placed", "2 nodes: ", "1 node: too little cpu"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q lacks %q", text, part)
		}
	}
}

// Nodes without devices that can be used are alike, and are explained by what is wrong with their pools.
func TestWhyPoolsCannotBeUsed(t *testing.T) {
	c := gpuCluster("a", "b", "c", "d", "e")
	for i, wanted := range []int64{2, 2, 3, 1, 1} {
		c.Slices[i].Spec.Pool.ResourceSliceCount = wanted
	}
	for i, twice := range []int{0, 2} {
		devices := c.Slices[3+i].Spec.Devices
		devices[1].Name = devices[twice].Name
	}
	state := open(t, c, simulate.Options{})
	r, err := state.Sim().Place(t.Context(), gpuPods("one", 1)[0], simulate.Real(nil), simulate.FirstFit)
	if err != nil {
		t.Fatal(err)
	}
	refusals, err := r.Why(t.Context())
	if err != nil || len(refusals) != 1 {
		t.Fatalf("%d refusals, %v", len(refusals), err)
	}
	var nodes [][]string
	for _, group := range refusals[0].Devices {
		nodes = append(nodes, group.Nodes)
	}
	if diff := cmp.Diff([][]string{{"a", "b"}, {"c"}, {"d"}, {"e"}}, nodes); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

// A gang is explained by the domain that comes closest, or by what all nodes lack.
func TestWhyGang(t *testing.T) {
	c := gpuCluster("a", "b", "c")
	c.Slices[0].Spec.Devices = c.Slices[0].Spec.Devices[:1]
	for i, node := range c.Nodes {
		node.Labels = map[string]string{"rack": []string{"near", "near", "far"}[i]}
		for d := range c.Slices[i].Spec.Devices {
			c.Slices[i].Spec.Devices[d].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"rail": {IntValue: ptr.To(int64(d))}}
		}
	}
	state := open(t, c, simulate.Options{})
	demands := []simulate.Demand{{Shape: shapeOf(t, state, gpuPods("one", 7)), Count: 7}}
	same := func(reason string) map[string]string { return map[string]string{"a": reason, "b": reason, "c": reason} }
	for name, test := range map[string]struct {
		topologies []simulate.Topology
		pods       int
		nodes      map[string]string
	}{
		"a rack":        {[]simulate.Topology{{NodeLabel: "rack"}}, 2, map[string]string{"a": "devices", "b": "devices"}},
		"the far rack":  {[]simulate.Topology{{NodeLabel: "rack", Values: []string{"far"}}}, 3, map[string]string{"c": "devices"}},
		"no such rack":  {[]simulate.Topology{{NodeLabel: "rack", Values: []string{"x", "y"}}}, 7, same("the node does not have the label rack = x or y")},
		"none is right": {[]simulate.Topology{{NodeLabel: "rack", Values: []string{}}}, 7, same("the node does not have the label rack and a value that is permitted")},
		"no hall":       {[]simulate.Topology{{NodeLabel: "hall"}}, 7, same("the node does not have the label hall")},
		"no attribute": {[]simulate.Topology{{NodeLabel: "rack"}, {DeviceAttribute: "example.com/rail", Values: []string{"1"}}}, 7,
			same("the node does not have the label rack, or not a device with the attribute example.com/rail = 1")},
		// Each node has one GPU of a rail, which the first pod has. Others do not count for the second.
		"one rail": {[]simulate.Topology{{DeviceAttribute: "gpu.example.com/rail"}}, 4, same("devices")},
	} {
		sim := state.Sim()
		r, err := sim.Gang(t.Context(), demands, test.topologies, simulate.Real(nil), simulate.FirstFit)
		if err != nil || r.All() {
			t.Fatalf("%s: placed %t, %v", name, r.All(), err)
		}
		refusals, err := r.Why(t.Context())
		if err != nil || len(refusals) != 1 {
			t.Fatalf("%s: %d refusals, %v", name, len(refusals), err)
		}
		if refusals[0].Pods != test.pods {
			t.Errorf("%s: %d pods are refused, want %d", name, refusals[0].Pods, test.pods)
		}
		if diff := cmp.Diff(test.nodes, listedNodes(&refusals[0])); diff != "" {
			t.Errorf("%s: nodes (-want +got):\n%s", name, diff)
		}
		if left := fit(t, sim.State(), demands[0].Shape, simulate.Real(nil)); left.Pods != 9 {
			t.Errorf("%s: %d pods fit after the gang was refused, want 9", name, left.Pods)
		}
	}
}

// What is wrong with pools is listed in the order of their names, for nodes that differ in nothing else, too.
func TestWhyListsPoolsByName(t *testing.T) {
	c := gpuCluster("a", "z", "b")
	kind := func(slice *resourceapi.ResourceSlice, name string) {
		for i := range slice.Spec.Devices {
			slice.Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"kind": {StringValue: &name}}
		}
	}
	for _, slice := range c.Slices {
		slice.Spec.Pool.ResourceSliceCount = 2 // so the pool is incomplete
		kind(slice, "gpu")
	}
	c.Classes[0].Spec.Selectors[0].CEL.Expression = `device.attributes["gpu.example.com"].kind == "gpu"`
	shared := gpuSlice("m", 1)
	kind(shared, "network") // which no request is about
	shared.Spec.NodeName, shared.Spec.AllNodes = nil, ptr.To(true)
	shared.Spec.Devices = append(shared.Spec.Devices, shared.Spec.Devices[0]) // so the pool is invalid
	c.Slices = append(c.Slices, shared)
	state, err := simulate.Open(c, simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	groups := func(names ...string) []explain.Group {
		on := simulate.Real(func(node *corev1.Node) bool { return slices.Contains(names, node.Name) })
		r, err := state.Sim().Place(t.Context(), gpuPods("one", 1)[0], on, simulate.FirstFit)
		if err != nil || r.Placed > 0 {
			t.Fatal(r, err)
		}
		refusals, err := r.Why(t.Context())
		if err != nil || len(refusals) != 1 {
			t.Fatal(refusals, err)
		}
		return refusals[0].Devices
	}
	all := groups("a", "z", "b")
	for _, name := range []string{"a", "z", "b"} {
		alone := groups(name)[0].Summary()
		at := slices.IndexFunc(all, func(g explain.Group) bool { return slices.Contains(g.Nodes, name) })
		behind := strings.Index(alone, "/m cannot be used") < strings.Index(alone, "/"+name+" cannot be used")
		if first := all[at].Nodes[0]; groups(first)[0].Summary() != all[at].Summary() || behind != (first == "z") {
			t.Errorf("node %s is in the group of %v: %s\nby itself: %s", name, all[at].Nodes, all[at].Summary(), alone)
		}
	}
	if len(all) != 2 {
		t.Errorf("%d groups, want that of a and b, and that of z", len(all))
	}
}

// Where a node has too little of several resources, the reason names the first by name, as dray explain does.
func TestWhyNamesTheFirstResource(t *testing.T) {
	for range 30 {
		c := gpuCluster("a")
		c.Nodes[0].Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi"), "example.com/nic": resource.MustParse("1"), "pods": resource.MustParse("0")}
		pod := gpuPods("one", 1)[0]
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			"cpu": resource.MustParse("1"), "memory": resource.MustParse("2Gi"), "example.com/nic": resource.MustParse("2"),
		}}}}
		r, err := open(t, c, simulate.Options{}).Sim().Place(t.Context(), pod, simulate.Real(nil), simulate.FirstFit)
		if err != nil {
			t.Fatal(err)
		}
		refusals, err := r.Why(t.Context())
		if err != nil || len(refusals) != 1 || len(refusals[0].Others) != 1 || refusals[0].Others[0].Reason != "too little example.com/nic" {
			t.Fatalf("refused because of %v, %v", refusals, err)
		}
	}
}
