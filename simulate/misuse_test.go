// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/internal/dev/ending"
	"github.com/dray-project/dray/simulate"
)

// A nil argument, or an empty one, is an error that says so.
func TestMisuse(t *testing.T) {
	state := open(t, gpuCluster("a"), simulate.Options{})
	for want, c := range map[string]simulate.Cluster{
		"a node is nil":           {Nodes: []*corev1.Node{nil}},
		"a pod is nil":            {Pods: []*corev1.Pod{nil}},
		"a slice is nil":          {Slices: []*resourceapi.ResourceSlice{nil}},
		"a claim is nil":          {Claims: []*resourceapi.ResourceClaim{nil}},
		"a claim template is nil": {Templates: []*resourceapi.ResourceClaimTemplate{nil}},
		"a class is nil":          {Classes: []*resourceapi.DeviceClass{nil}},
		"a pod group is nil":      {PodGroups: []*schedulingapi.PodGroup{nil}},
		"a taint rule is nil":     {TaintRules: []*resourceapi.DeviceTaintRule{nil}},
	} {
		if err := second(simulate.Open(c, simulate.Options{})); err == nil || err.Error() != want {
			t.Errorf("Open: got %v, want %s", err, want)
		}
		if err := second(state.Update(c)); err == nil || err.Error() != want {
			t.Errorf("Update: got %v, want %s", err, want)
		}
	}
	const noShape = "the shape is not one of State.Shapes"
	ctx, on, first, spec := t.Context(), simulate.Real(nil), simulate.FirstFit, simulate.TemplateSpec{Node: nodeNamed("new")}
	slices, daemons := spec, spec
	slices.Slices, daemons.Daemon = []*resourceapi.ResourceSlice{nil}, []*corev1.Pod{nil}
	_, _, victims := state.Victims(ctx, nil, on, nil, 1)
	for i, test := range []struct {
		err  error
		want string
	}{
		{second(state.Shapes([]*corev1.Pod{nil})), "a pod is nil"},
		{second(state.Sim().Place(ctx, nil, on, first)), "a pod is nil"},
		{second(state.Template(slices)), "template new: a slice or a pod is nil"},
		{second(state.Template(daemons)), "template new: a slice or a pod is nil"},
		{second(state.FitsMany(ctx, nil, on)), noShape},
		{second(state.Sim().PlaceMany(ctx, new(simulate.Shape), 1, on, first)), noShape},
		{second(state.Sim().Gang(ctx, []simulate.Demand{{Count: 1}}, nil, on, first)), noShape},
		{victims, noShape},
		{state.Sim().Expect("a", nil), "node a: the template is nil"},
		{state.Sim().Merge(nil), "the Sims do not come from the same State"},
		{state.Sim().Remove("a", "a"), "node a is named twice"},
		{second(state.Sim().Drain(ctx, on, first, "a", "a")), "node a is named twice"},
	} {
		if test.err == nil || test.err.Error() != test.want {
			t.Errorf("%d: got %v, want %s", i, test.err, test.want)
		}
	}
}

// Nodes of no template are none, and not the real ones.
func TestNodesOfNoTemplate(t *testing.T) {
	state := open(t, gpuCluster("a"), simulate.Options{})
	shape := shapeOf(t, state, gpuPods("one", 1))
	for _, on := range []simulate.Nodes{simulate.New(nil, 3), simulate.New(nil, 0), simulate.Added(nil)} {
		if got := fit(t, state, shape, on); got.Pods != 0 {
			t.Errorf("%d pods fit", got.Pods)
		}
	}
}

// The list of slices is the caller's, who may use it for the next template.
func TestTemplateKeepsNoList(t *testing.T) {
	state := open(t, gpuCluster(), simulate.Options{})
	shape := shapeOf(t, state, gpuPods("two", 1))
	list := []*resourceapi.ResourceSlice{gpuSlice("new", 2)}
	template, err := state.Template(simulate.TemplateSpec{Node: nodeNamed("new"), Slices: list})
	if err != nil {
		t.Fatal(err)
	}
	list[0] = gpuSlice("other", 8)
	if _, slices := template.Nodes(0); len(slices) != 1 || len(slices[0].Spec.Devices) != 2 {
		t.Errorf("%d slices, the first with %d devices", len(slices), len(slices[0].Spec.Devices))
	}
	for _, placement := range place(t, state.Sim(), shape, 1, simulate.New(template, 1)) {
		if _, err := placement.Claims(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// Counts that are as large as can be do not overflow.
func TestLargestCounts(t *testing.T) {
	state := open(t, gpuCluster("a"), simulate.Options{})
	shape := shapeOf(t, state, gpuPods("one", 1))
	template, err := state.TemplateOf("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	sim := state.Sim()
	must(t, sim.Add(template, math.MaxInt))
	must(t, sim.Add(template, math.MaxInt))
	if all, _ := sim.Added(template); all != math.MaxInt {
		t.Errorf("%d nodes", all)
	}
	demand := simulate.Demand{Shape: shape, Count: math.MaxInt}
	result, err := sim.Gang(t.Context(), []simulate.Demand{demand, demand}, nil, simulate.Real(nil), simulate.FirstFit)
	if err != nil || result.Unfit != math.MaxInt {
		t.Errorf("%d pods without a place, %v", result.Unfit, err)
	}
}

// Placing pods of which any number fits ends with the context.
func TestPlaceManyEndsWithItsContext(t *testing.T) {
	cluster := gpuCluster("a", "b")
	cluster.Nodes[1].Status.Allocatable = cpus("1")
	state := open(t, cluster, simulate.Options{})
	shape := shapeOf(t, state, []*corev1.Pod{{}})
	template, err := state.TemplateOf("b", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, on := range []simulate.Nodes{simulate.Real(nil), simulate.New(template, 1)} {
		for _, policy := range []simulate.NodePolicy{simulate.FirstFit, simulate.Pack} {
			ctx := ending.After(t.Context(), 3)
			sim := state.Sim()
			if err := second(sim.PlaceMany(ctx, shape, 1<<40, on, policy)); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			for pod := range sim.State().Pods(nodeOf(t, state, "a")) {
				t.Fatalf("pod %q stays", pod.Name)
			}
		}
	}
}

// Pods that are placed again stand for others like them, and a claim has 256 who use it at most.
func TestCopiesUseClaims(t *testing.T) {
	c := gpuCluster("a", "b")
	claim := &resourceapi.ResourceClaim{Spec: c.Templates[0].Spec.Spec}
	claim.Namespace, claim.Name = "default", "shared"
	pod := func(name string) *corev1.Pod {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name, pod.UID = "default", name, types.UID(name)
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "r", ResourceClaimName: &claim.Name}}
		return pod
	}
	reserved, running := pod("reserved"), pod("running")
	running.Spec.NodeName = "a"
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "gpus", Driver: "gpu.example.com", Pool: "a", Device: "gpu-0"},
	}}}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "reserved", UID: "reserved"}, {Resource: "pods", Name: "running", UID: "running"}}
	c.Claims, c.Pods = append(c.Claims, claim), append(c.Pods, running)
	state := open(t, c, simulate.Options{})
	const limit, others = resourceapi.ResourceClaimReservedForMaxSize, 2
	all := simulate.Real(nil)
	// The reserved pod is a user already: placing it takes nothing of the limit.
	for name, want := range map[string]int{"new": limit - others, "reserved": limit - others + 1} {
		shape := shapeOf(t, state, []*corev1.Pod{pod(name)})
		if got := fit(t, state, shape, all); got.Pods != want || got.Undecided != 0 {
			t.Errorf("%s: %d pods fit, %d undecided; want %d", name, got.Pods, got.Undecided, want)
		}
		sim := state.Sim()
		r, err := sim.PlaceMany(t.Context(), shape, 300, all, simulate.FirstFit)
		if err != nil || r.Placed != want || r.Unfit != 300-want {
			t.Errorf("%s: %d placed, %d unfit, %v; want %d", name, r.Placed, r.Unfit, err, want)
		}
	}
	sim := state.Sim()
	for range 2 {
		if r, err := sim.Place(t.Context(), reserved, all, simulate.FirstFit); err != nil || r.Placed != 1 {
			t.Fatalf("%d placed, %v", r.Placed, err)
		}
	}
	if got := fit(t, sim.State(), shapeOf(t, state, []*corev1.Pod{pod("new")}), all); got.Pods != limit-others-1 {
		t.Errorf("after two placements of a pod %d fit, want %d", got.Pods, limit-others-1)
	}
	// Those who leave use the claim no longer: as many have a place elsewhere.
	free := claim.DeepCopy()
	free.Name, free.Status = "free", resourceapi.ResourceClaimStatus{}
	c.Claims = append(c.Claims, free)
	full := pod("full")
	full.Spec.ResourceClaims[0].ResourceClaimName = &free.Name
	fresh := open(t, c, simulate.Options{})
	sim = fresh.Sim()
	place(t, sim, shapeOf(t, fresh, []*corev1.Pod{full}), limit, simulate.Real(func(n *corev1.Node) bool { return n.Name == "b" }))
	if r, err := sim.Drain(t.Context(), all, simulate.FirstFit, "b"); err != nil || r.Placed != limit {
		t.Errorf("%d of %d placed elsewhere, %v", r.Placed, limit, err)
	}
}

// A pod that names one claim twice has its devices once.
func TestPodThatNamesAClaimTwice(t *testing.T) {
	c := gpuCluster("a")
	claim := &resourceapi.ResourceClaim{Spec: c.Templates[0].Spec.Spec}
	claim.Namespace, claim.Name = "default", "shared"
	c.Claims = append(c.Claims, claim)
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", "twice", "twice"
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "first", ResourceClaimName: &claim.Name}, {Name: "second", ResourceClaimName: &claim.Name}}
	state := open(t, c, simulate.Options{})
	sim := state.Sim()
	r, err := sim.Place(t.Context(), pod, simulate.Real(nil), simulate.FirstFit)
	if err != nil || r.Placed != 1 {
		t.Fatalf("%d placed, %v", r.Placed, err)
	}
	for placement := range r.Placements() {
		if claims, err := placement.Claims(t.Context()); err != nil || len(claims) != 1 {
			t.Errorf("%d claims are allocated, %v", len(claims), err)
		}
	}
	one := shapeOf(t, state, gpuPods("one", 1))
	before, after := fit(t, state, one, simulate.Real(nil)), fit(t, sim.State(), one, simulate.Real(nil))
	if after.Pods != before.Pods-1 {
		t.Errorf("%d pods fit, before %d", after.Pods, before.Pods)
	}
}

// A handle means the node of its name, wherever that is after an update.
func TestHandlesAfterUpdate(t *testing.T) {
	c := gpuCluster("a", "b", "c")
	running := gpuPods("three", 1)[0]
	state := open(t, c, simulate.Options{})
	sim := state.Sim()
	if r, err := sim.Place(t.Context(), running, simulate.Real(func(n *corev1.Node) bool { return n.Name == "b" }), simulate.FirstFit); err != nil || r.Placed != 1 {
		t.Fatalf("%d placed, %v", r.Placed, err)
	}
	a, b := nodeOf(t, state, "a"), nodeOf(t, state, "b")
	c.Nodes, c.Slices = c.Nodes[1:], c.Slices[1:] // b is the first node now
	after, err := sim.State().Update(c)
	must(t, err)
	next := after.Sim()
	if r, err := next.Place(t.Context(), running, simulate.Real(nil), simulate.FirstFit); err != nil || r.Placed != 1 {
		t.Fatalf("%d placed, %v", r.Placed, err)
	}
	now := next.State()
	for name, node := range map[string]simulate.Node{"a": a, "b": b, "": {}} {
		want := map[string]float64{"b": 0.75}[name]
		pods, pools := 0, 0
		for range now.Pods(node) {
			pods++
		}
		for range now.Utilization(node) {
			pools++
		}
		if got := now.InUse(node); node.Name() != name || got != want || pods != int(want+0.5) || pools != pods {
			t.Errorf("node %q: %v in use, %d pods, %d pools; want %v in use", name, got, pods, pools, want)
		}
		if err := next.Decide(node, nil); err == nil || next.Options(node) != nil {
			t.Errorf("node %q: %v, %v", name, err, next.Options(node))
		}
	}
	if want := "node a does not exist"; next.Decide(a, nil).Error() != want {
		t.Errorf("got %v, want %s", next.Decide(a, nil), want)
	}
}

// A template belongs to its Open, and nodes of two templates have different names.
func TestTemplatesThatAreRefused(t *testing.T) {
	state, other := open(t, gpuCluster("a"), simulate.Options{}), open(t, gpuCluster("a"), simulate.Options{})
	template := func(s *simulate.State) *simulate.Template {
		made, err := s.Template(simulate.TemplateSpec{Node: nodeNamed("new"), Slices: []*resourceapi.ResourceSlice{gpuSlice("new", 4)}})
		must(t, err)
		return made
	}
	strange, first, second2 := template(other), template(state), template(state)
	shape := shapeOf(t, state, gpuPods("one", 1))
	ctx, onStrange := t.Context(), simulate.New(strange, 1)
	const another, namesake = "template new is one of another Open", "template new: there are nodes of another template of that name"
	sim := state.Sim()
	both := state.Sim()
	must(t, both.Add(first, 1))
	onBoth := simulate.Union(simulate.New(first, 1), simulate.New(second2, 1))
	for i, test := range []struct {
		err  error
		want string
	}{
		{sim.Add(nil, 1), "the template is nil"},
		{sim.Add(strange, 1), another},
		{second(sim.Place(ctx, shape.Pods[0], onStrange, simulate.FirstFit)), another},
		{second(sim.PlaceMany(ctx, shape, 2, onStrange, simulate.FirstFit)), another},
		{second(state.FitsMany(ctx, shape, onStrange)), another},
		{second(sim.Gang(ctx, []simulate.Demand{{Shape: shape, Count: 1}}, nil, onStrange, simulate.FirstFit)), another},
		{second(sim.Drain(ctx, onStrange, simulate.FirstFit, "a")), another},
		{second(state.Drainable(ctx, simulate.Real(nil), onStrange, simulate.FirstFit)), another},
		{second(state.Any("any", strange)), "any any: " + another},
		{sim.Expect("a", strange), "node a: " + another},
		{second(state.FitsMany(ctx, shape, onBoth)), namesake},
		{both.Add(second2, 1), namesake},
		{second(both.PlaceMany(ctx, shape, 2, simulate.New(second2, 1), simulate.FirstFit)), namesake},
		{second(both.State().FitsMany(ctx, shape, simulate.New(second2, 1))), namesake},
	} {
		if test.err == nil || test.err.Error() != test.want {
			t.Errorf("%d: got %v, want %s", i, test.err, test.want)
		}
	}
	// Another Sim has nodes of the namesake, so that both cannot be put together.
	third := state.Sim()
	must(t, third.Add(second2, 1))
	var conflict *simulate.ConflictError
	from := state.Sim()
	must(t, from.Add(first, 1))
	if err := from.Merge(third); !errors.As(err, &conflict) || conflict.Object != "template new" {
		t.Errorf("merge: %v", err)
	}
	// After an update the template is still one of the Open.
	after, err := state.Update(gpuCluster("a", "b"))
	must(t, err)
	if got := fit(t, after, shapeOf(t, after, gpuPods("one", 1)), simulate.New(first, 1)); got.Pods != 4 {
		t.Errorf("%d pods fit", got.Pods)
	}
}

// A shape goes with any State as long as its pods ask for the same there.
func TestShapesOfAnotherState(t *testing.T) {
	c := gpuCluster("a")
	claims := []*corev1.Pod{gpuPods("one", 1)[0], gpuPods("same", 1)[0]}
	c.Templates = append(c.Templates, gpuTemplate("same", 1))
	shape := shapeOf(t, open(t, c, simulate.Options{}), claims)
	same := open(t, c, simulate.Options{})
	if got := fit(t, same, shape, simulate.Real(nil)); got.Pods != 4 {
		t.Errorf("%d pods fit, want 4", got.Pods)
	}
	c.Templates = append(gpuCluster().Templates, gpuTemplate("same", 2))
	const want = "pods default/one-0 and default/same-0 of a shape no longer ask for the same"
	changed := open(t, c, simulate.Options{})
	after, err := same.Update(c)
	must(t, err)
	for _, state := range []*simulate.State{changed, after} {
		for range 2 {
			if err := second(state.FitsMany(t.Context(), shape, simulate.Real(nil))); err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
}

// The zero Nodes is the empty set, and without a Fork, Commit and Revert do nothing.
func TestNothingToDo(t *testing.T) {
	state := open(t, gpuCluster("a"), simulate.Options{})
	shape := shapeOf(t, state, gpuPods("one", 1))
	sim := state.Sim()
	sim.Commit()
	sim.Revert()
	place(t, sim, shape, 1, simulate.Real(nil))
	sim.Commit()
	sim.Revert()
	if got := fit(t, sim.State(), shape, simulate.Real(nil)); got.Pods != 3 {
		t.Errorf("%d pods fit, want 3", got.Pods)
	}
	if got := fit(t, state, shape, simulate.Nodes{}); got.Pods != 0 || got.Undecided != 0 {
		t.Errorf("%d pods fit on no nodes, %d undecided", got.Pods, got.Undecided)
	}
	r, err := sim.PlaceMany(t.Context(), shape, 2, simulate.Nodes{}, simulate.FirstFit)
	if err != nil || r.Unfit != 2 {
		t.Errorf("%d of 2 unfit, %v", r.Unfit, err)
	}
	why, err := r.Why(t.Context())
	if err != nil || len(why) != 1 || why[0].String() != "2 pods like default/one-0 not placed: there is no node" {
		t.Errorf("%v, %v", why, err)
	}
}

// An error about a claim names the claim, and not the one that stands for it. Where pods with other claims share an answer, it says which of them.
func TestErrorsNameClaims(t *testing.T) {
	c := gpuCluster("a")
	shared := &resourceapi.ResourceClaim{Spec: *c.Templates[0].Spec.Spec.DeepCopy()}
	shared.Namespace, shared.Name = "default", "shared"
	shared.Spec.Devices.Requests[0].Exactly.DeviceClassName = "none"
	c.Claims = append(c.Claims, shared)
	c.Templates[1].Spec.Spec.Devices.Requests[0].Exactly.DeviceClassName = "none"
	c.Templates[2].Spec.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].size == 1`}}}
	state := open(t, c, simulate.Options{})
	named, made := gpuPods("one", 1)[0], gpuPods("two", 1)[0]
	named.Spec.ResourceClaims = append(named.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "more", ResourceClaimName: &shared.Name})
	for pod, want := range map[*corev1.Pod]string{
		named: "pod default/one-0: claim default/shared: request gpus: ", made: "pod default/two-0: claim default/two-0-gpus-",
	} {
		if err := second(state.Shapes([]*corev1.Pod{pod})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	want := "claim no. 1 of those to allocate: request gpus: selector 0: "
	if found := fit(t, state, shapeOf(t, state, gpuPods("three", 1)), simulate.Real(nil)); found.Err == nil || !strings.HasPrefix(found.Err.Error(), want) {
		t.Errorf("got %v, want %s", found.Err, want)
	}
}

// Pods that cannot be understood keep no others from being asked about.
func TestShapesOfFaultyPods(t *testing.T) {
	state := open(t, gpuCluster("a"), simulate.Options{})
	pods := append(gpuPods("missing", 2), gpuPods("one", 3)...)
	shapes, err := state.Shapes(append(pods, gpuPods("two", 1)...))
	if len(shapes) != 2 || len(shapes[0].Pods) != 1 || len(shapes[1].Pods) != 3 {
		t.Fatalf("shapes %v", shapes)
	}
	for _, pod := range pods[:2] {
		if err == nil || !strings.Contains(err.Error(), "pod default/"+pod.Name+": ") {
			t.Errorf("error %v does not name %s", err, pod.Name)
		}
	}
	if found := fit(t, state, shapes[1], simulate.Real(nil)); found.Pods != 4 {
		t.Errorf("%d pods fit, want 4", found.Pods)
	}
}
