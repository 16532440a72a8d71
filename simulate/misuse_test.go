package simulate_test

import (
	"context"
	"errors"
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"

	"github.com/dray-project/dray/simulate"
)

// What is nil, or stands for nothing, is an error that says so.
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
		{second(state.Victims(ctx, nil, on, nil, 1)), noShape},
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
	sim.Add(template, math.MaxInt)
	sim.Add(template, math.MaxInt)
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
		for _, policy := range []simulate.Policy{simulate.FirstFit, simulate.Pack} {
			ctx := &countedContext{Context: t.Context(), left: 4}
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
