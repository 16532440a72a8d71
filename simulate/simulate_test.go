// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate"
)

func open(t *testing.T, c simulate.Cluster, o simulate.Options) *simulate.State {
	t.Helper()
	o.Features = allocator.AllFeatures()
	state, err := simulate.Open(c, o)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func shapeOf(t *testing.T, state *simulate.State, pods []*corev1.Pod) *simulate.Shape {
	t.Helper()
	shapes, err := state.Shapes(pods)
	if err != nil {
		t.Fatal(err)
	}
	if len(shapes) != 1 {
		t.Fatalf("%d shapes", len(shapes))
	}
	return shapes[0]
}

func fit(t *testing.T, state *simulate.State, shape *simulate.Shape, on simulate.Nodes) simulate.Fit {
	t.Helper()
	found, err := state.FitsMany(t.Context(), shape, on)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Sims of one State, at the same time, do not see each other, and the State stays as it is.
func TestForksDoNotSeeEachOther(t *testing.T) {
	state := open(t, gpuCluster("a", "b", "c"), simulate.Options{})
	shape := shapeOf(t, state, gpuPods("one", 1))
	var group sync.WaitGroup
	for n := range 8 {
		group.Go(func() {
			sim := state.Sim()
			for range 20 {
				sim.Fork()
				r, err := sim.PlaceMany(context.Background(), shape, n, simulate.Real(nil), simulate.FirstFit)
				if err != nil || r.Placed != n {
					t.Errorf("%d of %d are placed: %v", r.Placed, n, err)
				}
				if left, err := sim.State().FitsMany(context.Background(), shape, simulate.Real(nil)); err != nil || left.Pods != 12-n {
					t.Errorf("%d more fit after %d, want %d: %v", left.Pods, n, 12-n, err)
				}
				sim.Revert()
			}
		})
	}
	group.Wait()
	if left := fit(t, state, shape, simulate.Real(nil)); left.Pods != 12 {
		t.Errorf("%d pods fit into the first State, want 12", left.Pods)
	}
}

// Several goroutines ask the same new questions at the same time, and get equal answers.
func TestFirstQuestionsAtOnce(t *testing.T) {
	for range 10 {
		c := gpuCluster("a", "b", "c")
		for i := range 3 {
			pod := &corev1.Pod{}
			pod.Namespace, pod.Name, pod.Spec.NodeName = "default", fmt.Sprint("running-", i), "a"
			c.Pods = append(c.Pods, pod)
		}
		state := open(t, c, simulate.Options{})
		want := map[string]int{"one": 12, "two": 6, "three": 3}
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for template, pods := range want {
					shapes, err := state.Shapes(gpuPods(template, 1))
					if err != nil {
						t.Error(err)
						return
					}
					if found, err := state.FitsMany(context.Background(), shapes[0], simulate.Real(nil)); err != nil || found.Pods != pods {
						t.Errorf("%s: %d pods fit, want %d: %v", template, found.Pods, pods, err)
					}
				}
				if r, err := state.Sim().Drain(context.Background(), simulate.Real(nil), simulate.FirstFit, "a"); err != nil || r.Placed != 3 {
					t.Errorf("%d of 3 pods find another node: %v", r.Placed, err)
				}
				if nodes, err := state.Drainable(context.Background(), simulate.Real(nil), simulate.Real(nil), simulate.FirstFit); err != nil || len(nodes) != 3 || !nodes[0].Possible {
					t.Errorf("which nodes could go: %+v, %v", nodes, err)
				}
			})
		}
		group.Wait()
	}
}

// A State of a Sim does not change when the Sim does.
func TestStateOfSimDoesNotChange(t *testing.T) {
	state := open(t, gpuCluster("a"), simulate.Options{})
	shape := shapeOf(t, state, gpuPods("one", 1))
	sim := state.Sim()
	var states []*simulate.State
	for range 5 {
		states = append(states, sim.State())
		if _, err := sim.PlaceMany(t.Context(), shape, 1, simulate.Real(nil), simulate.FirstFit); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range states {
		if left := fit(t, s, shape, simulate.Real(nil)); left.Pods != 4-i {
			t.Errorf("after %d pods, %d fit, want %d", i, left.Pods, 4-i)
		}
	}
}

// If the budget does not suffice, each of the calls is undecided, and does not say no.
func TestUndecidedIsNotNo(t *testing.T) {
	simulate.RunUsual(t)
	c := gpuCluster("a", "b")
	c.Slices[1].Spec.Devices = c.Slices[1].Spec.Devices[:3] // another content
	state := open(t, c, simulate.Options{Budget: 1})
	shape := shapeOf(t, state, gpuPods("one", 1))
	if found := fit(t, state, shape, simulate.Real(nil)); found.Undecided != 2 {
		t.Errorf("%d nodes are undecided, want both", found.Undecided)
	}
	r, err := state.Sim().PlaceMany(t.Context(), shapeOf(t, state, gpuPods("three", 3)), 3, simulate.Real(nil), simulate.FirstFit)
	if err != nil {
		t.Fatal(err)
	}
	if r.Placed != 1 || r.Undecided != 2 || r.Unfit != 0 {
		t.Errorf("%d are placed, %d do not fit, %d are undecided; want 1, 0, 2", r.Placed, r.Unfit, r.Undecided)
	}
}

// failAtThird makes it an error to look at the third device of a slice for a pod with one GPU.
func failAtThird(c *simulate.Cluster, slice *resourceapi.ResourceSlice) {
	for i := range 2 {
		slice.Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"size": {IntValue: ptr.To(int64(1))}}
	}
	c.Templates[0].Spec.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].size == 1`}}}
}

// An undecided answer does not count on a node whose CPU is used up before.
func TestUndecidedBeyondCPU(t *testing.T) {
	c := gpuCluster()
	node := nodeNamed("gpu")
	node.Status.Allocatable = cpus("2")
	slice := gpuSlice("gpu", 3)
	failAtThird(&c, slice)
	state := open(t, c, simulate.Options{})
	template, err := state.Template(simulate.TemplateSpec{Node: node, Slices: []*resourceapi.ResourceSlice{slice}})
	if err != nil {
		t.Fatal(err)
	}
	pods := gpuPods("one", 3)
	for _, pod := range pods {
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: cpus("1")}}}
	}
	r, err := state.Sim().PlaceMany(t.Context(), shapeOf(t, state, pods), 3, simulate.New(template, 1), simulate.FirstFit)
	if err != nil || r.Placed != 2 || r.Unfit != 1 || r.Err != nil {
		t.Errorf("%d are placed, %d do not fit, %d are undecided (%v), %v; want 2, 1, 0", r.Placed, r.Unfit, r.Undecided, r.Err, err)
	}
}

// A count ends where an answer is an error, and says so.
func TestCountUpToAnError(t *testing.T) {
	c := gpuCluster("gpu")
	failAtThird(&c, c.Slices[0])
	state := open(t, c, simulate.Options{})
	got, err := state.FitsMany(t.Context(), shapeOf(t, state, gpuPods("one", 1)), simulate.Real(nil))
	if err != nil || got.Pods != 2 || got.Undecided != 1 || got.Err == nil || !strings.Contains(got.Err.Error(), "size") {
		t.Errorf("%+v, %v; want 2 pods, and one node undecided because of size", got, err)
	}
}

// An invalid object only excludes its pool or its claim.
func TestFaults(t *testing.T) {
	selector := func(key string) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{"x"}}},
		}}}
	}
	for object, add := range map[string]func(*simulate.Cluster, *corev1.NodeSelector){
		"ResourceSlice other-gpus": func(c *simulate.Cluster, s *corev1.NodeSelector) {
			slice := gpuSlice("other", 2)
			slice.Spec.Driver, slice.Spec.NodeName, slice.Spec.NodeSelector = "other.example.com", nil, s
			c.Slices = append(c.Slices, slice)
		},
		"ResourceSlice each-gpus": func(c *simulate.Cluster, s *corev1.NodeSelector) {
			slice := gpuSlice("each", 2)
			slice.Spec.Driver, slice.Spec.NodeName, slice.Spec.PerDeviceNodeSelection = "other.example.com", nil, ptr.To(true)
			slice.Spec.Devices[0].AllNodes, slice.Spec.Devices[1].NodeSelector = ptr.To(true), s
			c.Slices = append(c.Slices, slice)
		},
		"ResourceClaim default/elsewhere": func(c *simulate.Cluster, s *corev1.NodeSelector) {
			claim := &resourceapi.ResourceClaim{Spec: c.Templates[0].Spec.Spec}
			claim.Namespace, claim.Name = "default", "elsewhere"
			claim.Status.Allocation = &resourceapi.AllocationResult{NodeSelector: s}
			c.Claims = append(c.Claims, claim)
		},
	} {
		t.Run(object, func(t *testing.T) {
			c, right := gpuCluster("a"), gpuCluster("a")
			add(&c, selector("not a label!"))
			state := open(t, c, simulate.Options{})
			if faults := state.Faults(); len(faults) != 1 || faults[0].Object != object {
				t.Errorf("faults: %v", faults)
			}
			if found := fit(t, state, shapeOf(t, state, gpuPods("one", 1)), simulate.Real(nil)); found.Pods != 4 || found.Undecided != 0 {
				t.Errorf("%d pods fit, %d nodes are undecided", found.Pods, found.Undecided)
			}
			var fault simulate.Fault
			if _, err := simulate.Open(c, simulate.Options{Strict: true}); !errors.As(err, &fault) {
				t.Errorf("strict: %v", err)
			}
			add(&right, selector("example.com/label"))
			if _, err := simulate.Open(right, simulate.Options{Strict: true}); err != nil {
				t.Errorf("strict, without a fault: %v", err)
			}
		})
	}
}

// A gang is in one domain, or nowhere, and a preferred topology gives way.
func TestGang(t *testing.T) {
	c := gpuCluster("a", "b", "c", "d")
	for i, node := range c.Nodes {
		node.Labels = map[string]string{"rack": fmt.Sprint(i / 2)}
	}
	c.Slices[0].Spec.Devices = c.Slices[0].Spec.Devices[:1]
	state := open(t, c, simulate.Options{})
	shape := shapeOf(t, state, gpuPods("one", 9))
	for _, test := range []struct {
		pods      int
		preferred bool
		placed    int
		first     string
	}{{5, false, 5, "a"}, {6, false, 6, "c"}, {8, false, 8, "c"}, {9, false, 0, ""}, {9, true, 9, "a"}, {14, true, 0, ""}} {
		r, err := state.Sim().Gang(t.Context(), []simulate.Demand{{Shape: shape, Count: test.pods}},
			[]simulate.Topology{{NodeLabel: "rack", Preferred: test.preferred}}, simulate.Real(nil), simulate.FirstFit)
		if err != nil {
			t.Fatal(err)
		}
		first := ""
		for placement := range r.Placements() {
			first = placement.Node.Name()
			break
		}
		if placed := r.Placed; placed != test.placed && (test.placed > 0 || r.All()) || first != test.first {
			t.Errorf("gang of %d, preferred %t: %d are placed from node %q on, want %d from %q on", test.pods, test.preferred, placed, first, test.placed, test.first)
		}
	}
}

// Errors name what is wrong, and leave the Sim as it was.
func TestWrongInput(t *testing.T) {
	state := open(t, gpuCluster("a", "b"), simulate.Options{})
	sim := state.Sim()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	shape := shapeOf(t, state, gpuPods("one", 1))
	for name, err := range map[string]error{
		"remove":   sim.Remove("a", "x"),
		"twice":    sim.Remove("b", "b"),
		"taint":    sim.Taint(resourceapi.DeviceTaint{Key: "k"}, slices.Values([]pools.DeviceID{{Driver: "gpu.example.com", Pool: "a", Device: "x"}})),
		"drain":    second(sim.Drain(t.Context(), simulate.Real(nil), simulate.FirstFit, "x")),
		"context":  second(sim.PlaceMany(cancelled, shape, 1, simulate.Real(nil), simulate.FirstFit)),
		"pod":      second(state.Shapes(gpuPods("missing", 1))),
		"template": second(state.Template(simulate.TemplateSpec{})),
		"slices": second(state.Template(simulate.TemplateSpec{Node: nodeNamed("n"), Slices: []*resourceapi.ResourceSlice{{
			Spec: resourceapi.ResourceSliceSpec{AllNodes: ptr.To(true)},
		}}})),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if found := fit(t, sim.State(), shape, simulate.Real(nil)); found.Pods != 8 {
		t.Errorf("%d pods fit after errors, want 8", found.Pods)
	}
}

func second[T any](_ T, err error) error { return err }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Nodes of a template are added as a number: their names and objects are made when asked for.
func TestTemplateNodes(t *testing.T) {
	state := open(t, gpuCluster(), simulate.Options{})
	template, err := state.Template(simulate.TemplateSpec{Node: nodeNamed("gpu"), Slices: []*resourceapi.ResourceSlice{gpuSlice("gpu", 4)}})
	if err != nil {
		t.Fatal(err)
	}
	sim := state.Sim()
	must(t, sim.Add(template, 1_000_000))
	shape := shapeOf(t, state, gpuPods("three", 2))
	if found := fit(t, sim.State(), shape, simulate.Added(template)); found.Pods != 1_000_000 {
		t.Errorf("%d pods fit", found.Pods)
	}
	if found := fit(t, sim.State(), shape, simulate.New(template, 0)); found.Pods != simulate.Unlimited {
		t.Errorf("%d pods fit, want no limit", found.Pods)
	}
	r, err := sim.PlaceMany(t.Context(), shape, 2, simulate.Added(template), simulate.FirstFit)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for placement := range r.Placements() {
		claims, err := placement.Claims(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		results := claims[0].Status.Allocation.Devices.Results
		names = append(names, placement.Node.Name(), results[0].Pool)
	}
	if want := []string{"gpu-new-0", "gpu-new-0", "gpu-new-1", "gpu-new-1"}; !slices.Equal(names, want) {
		t.Errorf("nodes and pools are %v, want %v", names, want)
	}
}

// Placing one pod looks for room for one. That is not remembered as all the room there is.
func TestRoomBeyondWhatWasPlaced(t *testing.T) {
	state := open(t, gpuCluster(), simulate.Options{})
	template, err := state.Template(simulate.TemplateSpec{Node: nodeNamed("gpu8"), Slices: []*resourceapi.ResourceSlice{gpuSlice("gpu8", 8)}})
	if err != nil {
		t.Fatal(err)
	}
	one := shapeOf(t, state, gpuPods("one", 1))
	for pods := 1; pods <= 8; pods++ {
		sim := state.Sim()
		if r, err := sim.PlaceMany(t.Context(), one, pods, simulate.New(template, 1), simulate.FirstFit); err != nil || r.Placed != pods {
			t.Fatalf("%d of %d pods are placed: %v", r.Placed, pods, err)
		}
		if more := fit(t, sim.State(), one, simulate.Added(template)); more.Pods != 8-pods {
			t.Errorf("%d pods fit beside %d on a node with 8 GPUs", more.Pods, pods)
		}
		if empty := fit(t, state, one, simulate.New(template, 1)); empty.Pods != 8 {
			t.Errorf("%d pods fit on a node with 8 GPUs, after %d were placed on one like it", empty.Pods, pods)
		}
	}
}

// A pod that takes no devices leaves less room for those that ask for CPU, too, also where nodes were counted before.
func TestCountWithLessCPU(t *testing.T) {
	cluster := gpuCluster("a", "b")
	for _, node := range cluster.Nodes {
		node.Status.Allocatable = cpus("4")
	}
	state, err := simulate.Open(cluster, simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	pod := gpuPods("one", 1)[0]
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: cpus("1")}}}
	shapes, err := state.Shapes([]*corev1.Pod{pod})
	if err != nil {
		t.Fatal(err)
	}
	count := func(s *simulate.State, want int) {
		t.Helper()
		if fit, err := s.FitsMany(t.Context(), shapes[0], simulate.Real(nil)); err != nil || fit.Pods != want {
			t.Errorf("%d fit, want %d: %v", fit.Pods, want, err)
		}
	}
	count(state, 8)
	busy := &corev1.Pod{}
	busy.Namespace, busy.Name = "default", "busy"
	busy.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: cpus("3")}}}
	sim := state.Sim()
	if r, err := sim.Place(t.Context(), busy, simulate.Real(nil), simulate.FirstFit); err != nil || !r.All() {
		t.Fatal(r.Unfit, err)
	}
	count(sim.State(), 5)
}
