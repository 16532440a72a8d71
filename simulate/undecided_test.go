// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate"
)

// gpuTemplates are templates of nodes with so many GPUs each, every one in its zone and at its price.
func gpuTemplates(t *testing.T, state *simulate.State, gpus ...int) []*simulate.Template {
	t.Helper()
	var list []*simulate.Template
	for i, n := range gpus {
		name := fmt.Sprintf("gpu%d", n)
		node := nodeNamed(name)
		node.Labels = map[string]string{"zone": fmt.Sprint("zone-", i%2), "pool": "gpus"}
		template, err := state.Template(simulate.TemplateSpec{Node: node, Slices: []*resourceapi.ResourceSlice{gpuSlice(name, n)}, Price: float64(n)})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, template)
	}
	return list
}

func anyOf(t *testing.T, state *simulate.State, templates ...*simulate.Template) *simulate.Template {
	t.Helper()
	undecided, err := state.Any("any", templates...)
	if err != nil {
		t.Fatal(err)
	}
	return undecided
}

func names(templates []*simulate.Template) string {
	var list []string
	for _, t := range templates {
		list = append(list, t.Node().Name)
	}
	return strings.Join(list, " ")
}

func place(t *testing.T, sim *simulate.Sim, shape *simulate.Shape, n int, on simulate.Nodes) []simulate.Placement {
	t.Helper()
	r, err := sim.PlaceMany(t.Context(), shape, n, on, simulate.FirstFit)
	if err != nil || r.Placed != n {
		t.Fatalf("%d of %d pods have a place, %v", r.Placed, n, err)
	}
	return slices.Collect(r.Placements())
}

// Templates that differ in CPU only are told apart once the CPU of one is used up.
func TestAnyOfSizes(t *testing.T) {
	simulate.RunUsual(t)
	for _, sizes := range [][]string{{"1", "4"}, {"4", "1"}} {
		state := open(t, gpuCluster(), simulate.Options{})
		var templates []*simulate.Template
		for _, cpu := range sizes {
			node := nodeNamed("cpu" + cpu)
			node.Status.Allocatable = cpus(cpu)
			template, err := state.Template(simulate.TemplateSpec{Node: node, Slices: []*resourceapi.ResourceSlice{gpuSlice("gpus", 4)}})
			if err != nil {
				t.Fatal(err)
			}
			templates = append(templates, template)
		}
		pods := gpuPods("one", 3)
		for _, pod := range pods {
			pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: cpus("1")}}}
		}
		shape := shapeOf(t, state, pods)
		undecided := anyOf(t, state, templates...)
		sim := state.Sim()
		node := place(t, sim, shape, 1, simulate.New(undecided, 1))[0].Node
		if got := len(sim.Options(node)); got != 2 {
			t.Errorf("sizes %v: after one pod, the node can be one of %d", sizes, got)
		}
		place(t, sim, shape, 1, simulate.Added(undecided))
		if got := names(sim.Options(node)); got != "cpu4" {
			t.Errorf("sizes %v: after two pods, the node can be %s, want cpu4", sizes, got)
		}
		if more := fit(t, sim.State(), shape, simulate.Added(undecided)); more.Pods != 2 {
			t.Errorf("sizes %v: %d more fit, want 2", sizes, more.Pods)
		}
	}
}

// Mistakes are errors, and change nothing.
func TestAnyErrors(t *testing.T) {
	state := open(t, gpuCluster("a"), simulate.Options{})
	templates := gpuTemplates(t, state, 8, 2, 4)
	undecided := anyOf(t, state, templates...)
	sim := state.Sim()
	one := shapeOf(t, state, gpuPods("one", 1))
	placed := place(t, sim, one, 3, simulate.New(undecided, 1))
	node := placed[0].Node
	before := names(sim.Options(node))
	existing, err := state.Node("a")
	if err != nil {
		t.Fatal(err)
	}
	byZone := []simulate.Topology{{NodeLabel: "zone"}}
	_, gang := sim.Gang(t.Context(), []simulate.Demand{{Shape: one, Count: 1}}, byZone, simulate.Added(undecided), simulate.FirstFit)
	_, byDevice := sim.Gang(t.Context(), []simulate.Demand{{Shape: one, Count: 1}}, []simulate.Topology{{DeviceAttribute: fabric}}, simulate.Added(undecided), simulate.FirstFit)
	notAnOption := placed[0].As(anyOf(t, state, templates[0]))
	_, as := notAnOption.Claims(t.Context())
	_, claims := placed[2].Claims(t.Context())
	for what, err := range map[string]error{
		"no template":         second(state.Any("any")),
		"nil":                 second(state.Any("any", nil)),
		"undecided itself":    second(state.Any("any", undecided)),
		"twice":               second(state.Any("any", templates[0], templates[1], templates[0])),
		"cannot be of":        sim.Decide(node, templates[1]),
		"template nil":        sim.Decide(node, nil),
		"is not undecided":    sim.Decide(existing, templates[0]),
		"not a number":        second(state.Template(simulate.TemplateSpec{Node: nodeNamed("n"), Price: math.NaN()})),
		"node a cannot be":    sim.Expect("a", undecided),
		"topology 0":          gang,
		"not decided":         byDevice,
		"the template any":    as,
		"node any-new-0: it":  claims,
		"any-new-7 does not ": sim.Decide(nodeAt(t, state, undecided, 7), templates[0]),
	} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%q is not part of: %v", what, err)
		}
	}
	if !errors.Is(claims, simulate.ErrUndecidedNode) || !errors.Is(gang, simulate.ErrUndecidedNode) {
		t.Errorf("want ErrUndecidedNode, have %v and %v", claims, gang)
	}
	if after := names(sim.Options(node)); after != before || before != "gpu4 gpu8" {
		t.Errorf("the node can be %s, before the mistakes %s; want gpu4 gpu8", after, before)
	}
	// All templates are in one pool, so that their domain is known.
	r, err := sim.Gang(t.Context(), []simulate.Demand{{Shape: one, Count: 5}}, []simulate.Topology{{NodeLabel: "pool"}}, simulate.Added(undecided), simulate.FirstFit)
	if err != nil || !r.All() || names(sim.Options(node)) != "gpu8" {
		t.Errorf("%d of 5 pods are placed, %v; the node can be %s", r.Placed, err, names(sim.Options(node)))
	}
}

// nodeAt is a handle of a node which the State does not have.
func nodeAt(t *testing.T, state *simulate.State, template *simulate.Template, index int) simulate.Node {
	t.Helper()
	sim := state.Sim()
	must(t, sim.Add(template, index+1))
	three := shapeOf(t, state, gpuPods("three", 1))
	placed := place(t, sim, three, 1000, simulate.Union(simulate.New(template, 1000)))
	return placed[slices.IndexFunc(placed, func(p simulate.Placement) bool { return strings.HasSuffix(p.Node.Name(), fmt.Sprint("-", index)) })].Node
}

// Pods fill equal undecided nodes at once, each as far as its largest template goes.
func TestAnyMany(t *testing.T) {
	state := open(t, gpuCluster(), simulate.Options{})
	undecided := anyOf(t, state, gpuTemplates(t, state, 8, 2, 4)...)
	sim := state.Sim()
	one := shapeOf(t, state, gpuPods("one", 1))
	placed := place(t, sim, one, 8*1000+3, simulate.New(undecided, 0))
	if all, used := sim.Added(undecided); all != 1001 || used != 1001 {
		t.Errorf("%d nodes, %d with pods, want 1001", all, used)
	}
	full, last := placed[0].Node, placed[len(placed)-1].Node
	if got := names(sim.Options(full)) + ", " + names(sim.Options(last)); got != "gpu8, gpu4 gpu8" {
		t.Errorf("the first and the last node can be %s; want gpu8, gpu4 gpu8", got)
	}
	if found := fit(t, sim.State(), one, simulate.Added(undecided)); found.Pods != 5 {
		t.Errorf("%d more pods fit, want the 5 that a gpu8 has left", found.Pods)
	}
	if err := sim.Decide(last, sim.Options(last)[0]); err != nil {
		t.Fatal(err)
	}
	if found := fit(t, sim.State(), one, simulate.Added(undecided)); found.Pods != 1 {
		t.Errorf("%d more pods fit once the last node is a gpu4, want 1", found.Pods)
	}
	if got := sim.State().InUse(last); got != 0.75 {
		t.Errorf("%v of the last node is in use, want 3 of 4", got)
	}
	claims := placed[8003-1].As(sim.Options(last)[0])
	objects, err := claims.Claims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	result := objects[0].Status.Allocation.Devices.Results[0]
	if got := result.Pool + "/" + result.Device; got != "gpu4-new-1000-any/gpu-2" {
		t.Errorf("the last pod has %s", got)
	}
}

// A question that reads more of devices than those before may tell templates apart that were one class.
func TestAnyWiderReadSet(t *testing.T) {
	c := gpuCluster("real")
	c.Slices[0].Spec.Devices[0].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"fabric": {StringValue: ptr.To("x")}}
	state := open(t, c, simulate.Options{})
	var templates []*simulate.Template
	for _, name := range []string{"x", "y"} {
		slice := gpuSlice(name, 4)
		for d := range slice.Spec.Devices {
			slice.Spec.Devices[d].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"fabric": {StringValue: &name}}
		}
		template, err := state.Template(simulate.TemplateSpec{Node: nodeNamed(name), Slices: []*resourceapi.ResourceSlice{slice}})
		if err != nil {
			t.Fatal(err)
		}
		templates = append(templates, template)
	}
	undecided := anyOf(t, state, templates...)
	sim := state.Sim()
	one := shapeOf(t, state, gpuPods("one", 1))
	node := place(t, sim, one, 2, simulate.New(undecided, 1))[0].Node
	// The topology makes a question that reads fabrics.
	r, err := sim.Gang(t.Context(), []simulate.Demand{{Shape: one, Count: 1}}, []simulate.Topology{{DeviceAttribute: fabric}}, simulate.Real(nil), simulate.FirstFit)
	if err != nil || !r.All() {
		t.Fatalf("the pod on the real node: %d placed, %v", r.Placed, err)
	}
	place(t, sim, one, 2, simulate.Added(undecided))
	if got := names(sim.Options(node)); got != "x y" {
		t.Errorf("the node can be %q, want x y", got)
	}
	if found := fit(t, sim.State(), one, simulate.Added(undecided)); found.Pods != 0 {
		t.Errorf("%d more pods fit, want none", found.Pods)
	}
}

// Two Sims that put pods on nodes of one undecided template are in conflict, and no others.
func TestAnyMerge(t *testing.T) {
	state := open(t, gpuCluster("a"), simulate.Options{})
	undecided := anyOf(t, state, gpuTemplates(t, state, 8, 2)...)
	one := shapeOf(t, state, gpuPods("one", 1))
	first, second, other := state.Sim(), state.Sim(), state.Sim()
	node := place(t, first, one, 3, simulate.New(undecided, 1))[0].Node
	place(t, second, one, 1, simulate.New(undecided, 1))
	place(t, other, one, 1, simulate.Real(nil))
	if err := other.Merge(first); err != nil {
		t.Fatal(err)
	}
	if got := names(other.Options(node)); got != "gpu8" {
		t.Errorf("after the merge the node can be %q, want gpu8", got)
	}
	var conflict *simulate.ConflictError
	if err := second.Merge(first); !errors.As(err, &conflict) || conflict.Object != "template any" {
		t.Errorf("both put pods on the node: %v", err)
	}
	// A decision is a change, too.
	again := second.State()
	a, b := again.Sim(), again.Sim()
	place(t, a, one, 1, simulate.Added(undecided))
	if err := b.Decide(node, b.Options(node)[0]); err != nil {
		t.Fatal(err)
	}
	if err := b.Merge(a); !errors.As(err, &conflict) {
		t.Errorf("one put a pod on the node, the other decided it: %v", err)
	}
}

// A refusal lists each template that the node can be of.
func TestAnyWhy(t *testing.T) {
	state := open(t, gpuCluster(), simulate.Options{})
	templates := gpuTemplates(t, state, 2, 1)
	spec := simulate.TemplateSpec{Node: nodeNamed("away"), Price: 9}
	spec.Node.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	away, err := state.Template(spec)
	if err != nil {
		t.Fatal(err)
	}
	undecided := anyOf(t, state, append(templates, away)...)
	sim := state.Sim()
	r, err := sim.PlaceMany(t.Context(), shapeOf(t, state, gpuPods("three", 1)), 1, simulate.New(undecided, 1), simulate.FirstFit)
	if err != nil || r.Unfit != 1 {
		t.Fatalf("%d do not fit, %v", r.Unfit, err)
	}
	refusals, err := r.Why(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, group := range refusals[0].Devices {
		listed = append(listed, group.Nodes...)
	}
	slices.Sort(listed)
	if want := []string{"any-new-0 as gpu1", "any-new-0 as gpu2"}; !slices.Equal(listed, want) {
		t.Errorf("devices are in the way on %v, want %v", listed, want)
	}
	if o := refusals[0].Others; len(o) != 1 || !slices.Equal(o[0].Nodes, []string{"any-new-0 as away"}) || !strings.Contains(o[0].Reason, "taint") {
		t.Errorf("something else is in the way: %v", o)
	}
}

// Where the budget ends, nothing becomes a no: neither at once, nor for pods that come later.
func TestAnyUndecided(t *testing.T) {
	simulate.RunUsual(t)
	c := gpuCluster()
	state := open(t, c, simulate.Options{Budget: 1})
	undecided := anyOf(t, state, gpuTemplates(t, state, 2, 4)...)
	sim := state.Sim()
	// The search for the first template spends the budget, the second is left out.
	r, err := sim.PlaceMany(t.Context(), shapeOf(t, state, gpuPods("one", 1)), 1, simulate.New(undecided, 1), simulate.FirstFit)
	if err != nil || r.Placed != 1 {
		t.Fatalf("%d placed, %v", r.Placed, err)
	}
	node := slices.Collect(r.Placements())[0].Node
	if got := names(sim.Options(node)); got != "gpu2" {
		t.Fatalf("the node can be %s, want gpu2", got)
	}
	three := shapeOf(t, state, gpuPods("three", 1))
	for range 2 {
		r, err = sim.PlaceMany(t.Context(), three, 1, simulate.Added(undecided), simulate.FirstFit)
		if err != nil || r.Undecided != 1 || r.Unfit != 0 {
			t.Errorf("%d placed, %d do not fit, %d undecided, %v; want it undecided", r.Placed, r.Unfit, r.Undecided, err)
		}
	}
	if found := fit(t, sim.State(), three, simulate.Added(undecided)); found.Pods != 0 || found.Undecided != 1 {
		t.Errorf("%d more fit, %d nodes undecided; want 0 and 1", found.Pods, found.Undecided)
	}
}

// What was not found out because the budget was spent is found out by the next call.
func TestAnyBudgetIsPerCall(t *testing.T) {
	simulate.RunUsual(t)
	state := open(t, gpuCluster(), simulate.Options{Budget: 1})
	undecided := anyOf(t, state, gpuTemplates(t, state, 2, 4)...)
	sim := state.Sim()
	three := gpuPods("three", 1)[0]
	var got []string
	for range 2 {
		r, err := sim.Place(t.Context(), three, simulate.New(undecided, 1), simulate.Spread)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(r.Placed, r.Unfit, r.Undecided))
	}
	if want := []string{"0 0 1", "1 0 0"}; !slices.Equal(got, want) {
		t.Errorf("placed, without place, undecided: %v, want %v", got, want)
	}
}

// Devices that other nodes reach as well cannot be in use and not in use: where that depends on what the
// node is, pods are undecided until it is said.
func TestAnySharedPool(t *testing.T) {
	c := gpuCluster()
	around := gpuSlice("zz", 2)
	around.Spec.NodeName, around.Spec.AllNodes = nil, ptr.To(true)
	c.Slices = append(c.Slices, around)
	state := open(t, c, simulate.Options{})
	templates := gpuTemplates(t, state, 1, 2, 3)
	undecided := anyOf(t, state, templates...)
	two := gpuPods("two", 1)[0]
	sim := state.Sim()
	must(t, sim.Add(undecided, 1))
	r, err := sim.Place(t.Context(), two, simulate.Added(undecided), simulate.FirstFit)
	if err != nil || r.Undecided != 1 || r.Err == nil || !strings.Contains(r.Err.Error(), "different devices of pools of several nodes") {
		t.Errorf("%d placed, %d undecided, %v, %v; want it undecided, and why", r.Placed, r.Undecided, r.Err, err)
	}
	// All that have the same to take are one class as before.
	alike := anyOf(t, state, templates[1:]...)
	sim = state.Sim() // where no other nodes have the names of these
	r, err = sim.Place(t.Context(), two, simulate.New(alike, 1), simulate.FirstFit)
	if err != nil || r.Placed != 1 {
		t.Fatalf("%d placed, %v, %v", r.Placed, r.Err, err)
	}
	node := slices.Collect(r.Placements())[0].Node
	if got := names(sim.Options(node)); got != "gpu2 gpu3" {
		t.Errorf("the node can be %q", got)
	}
}

// Policies look at an undecided node as the cheapest that it can be.
func TestAnyPolicy(t *testing.T) {
	state := open(t, gpuCluster("real"), simulate.Options{})
	undecided := anyOf(t, state, gpuTemplates(t, state, 8, 4)...)
	sim := state.Sim()
	one := shapeOf(t, state, gpuPods("one", 1))
	place(t, sim, one, 3, simulate.New(undecided, 1))
	place(t, sim, one, 2, simulate.Real(nil))
	on := simulate.Union(simulate.Real(nil), simulate.Added(undecided))
	r, err := sim.PlaceMany(t.Context(), one, 2, on, simulate.Score(func(c simulate.NodeClass) float64 {
		if c.Example.Template() == undecided {
			want := map[float64]string{0.75: "1 0", 0.5: "4 3"}[c.InUse]
			if got := fmt.Sprint(c.Room(one), " ", c.RoomAfter(one)); got != want {
				t.Errorf("room before and after is %q at %v, want %q", got, c.InUse, want)
			}
		}
		return c.InUse
	}))
	if err != nil || r.Placed != 2 {
		t.Fatalf("%d placed, %v", r.Placed, err)
	}
	var on2 []string
	for p := range r.Placements() {
		on2 = append(on2, p.Node.Name())
	}
	// The node is 3 of 4 full, and once it has 4 it can only be the one with 8, half full.
	if want := []string{"any-new-0", "real"}; !slices.Equal(on2, want) {
		t.Errorf("pods are on %v, want %v", on2, want)
	}
}

// manyTypes are templates of 500 types in 3 zones each: 10 kinds of devices, all of another size.
func manyTypes(tb testing.TB, state *simulate.State) []*simulate.Template {
	tb.Helper()
	var list []*simulate.Template
	for kind := range 500 {
		for _, zone := range []string{"a", "b", "c"} {
			name := fmt.Sprintf("type-%d-%s", kind, zone)
			node := nodeNamed(name)
			node.Labels = map[string]string{corev1.LabelTopologyZone: zone, corev1.LabelInstanceTypeStable: fmt.Sprint("type-", kind)}
			node.Status.Allocatable = cpus(fmt.Sprint(2 + kind/10))
			template, err := state.Template(simulate.TemplateSpec{Node: node, Slices: []*resourceapi.ResourceSlice{gpuSlice(name, 1+kind%10)}, Price: float64(kind)})
			if err != nil {
				tb.Fatal(err)
			}
			list = append(list, template)
		}
	}
	return list
}

// BenchmarkAny places 4 pods on a node of one of 500 types in 3 zones: on a new State each time, whose
// templates were not asked about; on one that has not seen this sequence of pods but knows the templates'
// devices; and again.
func BenchmarkAny(b *testing.B) {
	c := gpuCluster()
	pods := gpuPods("one", 4)
	for _, pod := range pods {
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: cpus("1")}}}
	}
	begin := func() (*simulate.State, *simulate.Template, *simulate.Shape) {
		state, err := simulate.Open(c, simulate.Options{Features: allocator.AllFeatures()})
		if err != nil {
			b.Fatal(err)
		}
		undecided, err := state.Any("any", manyTypes(b, state)...)
		if err != nil {
			b.Fatal(err)
		}
		shapes, err := state.Shapes(pods)
		if err != nil {
			b.Fatal(err)
		}
		return state, undecided, shapes[0]
	}
	put := func(state *simulate.State, undecided *simulate.Template, shape *simulate.Shape) {
		sim := state.Sim()
		if r, err := sim.PlaceMany(b.Context(), shape, 4, simulate.New(undecided, 1), simulate.FirstFit); err != nil || r.Placed != 4 {
			b.Fatalf("%d placed, %v", r.Placed, err)
		}
	}
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			state, undecided, shape := begin()
			b.StartTimer()
			put(state, undecided, shape)
		}
	})
	state, undecided, shape := begin()
	put(state, undecided, shape)
	b.Run("warm", func(b *testing.B) {
		for b.Loop() {
			put(state, undecided, shape)
		}
	})
	b.Run("new sequence", func(b *testing.B) {
		templates := manyTypes(b, state)
		for b.Loop() {
			b.StopTimer()
			again, err := state.Any("again", templates...)
			if err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			put(state, again, shape)
		}
	})
}

// Where looking at a device is an error, an undecided node says so, and counts the pods that certainly fit.
func TestAnyWithErrors(t *testing.T) {
	simulate.RunUsual(t)
	c := gpuCluster()
	c.Templates[0].Spec.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].size == 1`}}}
	state := open(t, c, simulate.Options{})
	var templates []*simulate.Template
	for _, name := range []string{"x", "y"} {
		slice := gpuSlice(name, 4)
		for i := range 2 {
			slice.Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"size": {IntValue: ptr.To(int64(1))}}
		}
		template, err := state.Template(simulate.TemplateSpec{Node: nodeNamed(name), Slices: []*resourceapi.ResourceSlice{slice}})
		if err != nil {
			t.Fatal(err)
		}
		templates = append(templates, template)
	}
	on := simulate.New(anyOf(t, state, templates...), 1)
	shape := shapeOf(t, state, gpuPods("one", 3))
	if found := fit(t, state, shape, on); found.Pods != 2 || found.Undecided != 1 || found.Err == nil {
		t.Errorf("%d fit, %d nodes are undecided, %v; want two, and an error about one", found.Pods, found.Undecided, found.Err)
	}
	r, err := state.Sim().PlaceMany(t.Context(), shape, 3, on, simulate.FirstFit)
	if err != nil || r.Placed != 2 || r.Undecided != 1 || r.Err == nil {
		t.Errorf("%d are placed, %d undecided (%v), %v; want two, and an error about the third", r.Placed, r.Undecided, r.Err, err)
	}
}

// Devices of pools of several nodes are taken once that is certain: here the NIC is the same one, whatever the node is.
func TestAnySameSharedDevice(t *testing.T) {
	c := gpuCluster()
	nics := gpuSlice("zz", 3)
	nics.Spec.Driver, nics.Spec.NodeName, nics.Spec.AllNodes = "nic.example.com", nil, ptr.To(true)
	class := &resourceapi.DeviceClass{}
	class.Name = "nic"
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "nic.example.com"`}}}
	c.Classes, c.Slices = append(c.Classes, class), append(c.Slices, nics)
	requests := &c.Templates[0].Spec.Spec.Devices.Requests
	*requests = append(*requests, *(*requests)[0].DeepCopy())
	(*requests)[1].Name, (*requests)[1].Exactly.DeviceClassName = "nic", "nic"
	state := open(t, c, simulate.Options{})
	undecided := anyOf(t, state, gpuTemplates(t, state, 1, 2, 3)...)
	sim, pods := state.Sim(), gpuPods("one", 4)
	must(t, sim.Add(undecided, 1))
	for i, want := range []string{"gpu1 gpu2 gpu3", "gpu2 gpu3", "gpu3", ""} {
		r, err := sim.Place(t.Context(), pods[i], simulate.Added(undecided), simulate.FirstFit)
		if err != nil || r.Undecided > 0 || r.All() != (want != "") {
			t.Fatalf("pod %d: placed %d, undecided %d, %v, %v", i, r.Placed, r.Undecided, r.Err, err)
		}
		for p := range r.Placements() {
			if got := names(sim.Options(p.Node)); got != want {
				t.Errorf("pod %d: the node can be %q, want %q", i, got, want)
			}
		}
	}
}
