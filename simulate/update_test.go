// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate"
)

// update makes what was simulated real, changes a few objects, and goes on with the State of that.
func (g *game) update() {
	g.change()
	var err error
	before := g.state
	if g.state, err = g.sim.State().Update(g.cluster()); err != nil {
		g.Fatalf("seed %d: update: %v", g.seed, err)
	}
	if faults := g.state.Faults(); len(faults) > 0 {
		g.Fatalf("seed %d: update: %v", g.seed, faults)
	}
	if len(g.ref.added) > 0 {
		g.ref.nodes, g.ref.added = slices.Concat(g.ref.nodes, g.ref.added), nil
		g.anotherTemplate()
	}
	g.before, g.sim, g.forks = before, g.state.Sim(), nil
	g.seen["updated"]++
}

// change does to the objects what time does.
func (g *game) change() {
	if n := len(g.ref.nodes); g.rand.IntN(3) == 0 && n > 1 {
		g.ref.nodes = slices.Clone(g.ref.nodes)
		i := g.rand.IntN(n - 1)
		g.ref.nodes[i], g.ref.nodes[n-1] = g.ref.nodes[n-1], g.ref.nodes[i]
	}
	if n := len(g.ref.slices); g.rand.IntN(3) == 0 && n > 0 {
		g.ref.slices = slices.Clone(g.ref.slices)
		i := g.rand.IntN(n)
		g.ref.slices[i] = g.ref.slices[i].DeepCopy()
	}
	if n := len(g.ref.pods); g.rand.IntN(2) == 0 && n > 0 {
		ended := g.ref.pods[g.rand.IntN(n)]
		g.ref.pods = slices.DeleteFunc(slices.Clone(g.ref.pods), func(p *placedPod) bool { return p == ended })
		for _, name := range ended.claims {
			if g.ref.release(name, ended.pod); name != "shared" {
				delete(g.ref.claims, name)
			}
		}
		g.seen["ended"]++
	}
	if g.rand.IntN(4) == 0 && len(g.ref.base.Classes) > 0 {
		base := *g.ref.base
		base.Classes = slices.Clone(base.Classes)
		class := base.Classes[0].DeepCopy()
		g.classes++
		class.Spec.Config = []resourceapi.DeviceClassConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver: "gpu.example.com", Parameters: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"change":%d}`, g.classes)},
		}}}}
		base.Classes[0], g.ref.base = class, &base
		g.seen["class changed"]++
	}
}

// cluster lists the objects of the reference as an API server would.
func (g *game) cluster() simulate.Cluster {
	c := simulate.Cluster{Nodes: slices.Concat(g.ref.nodes, g.ref.added), Slices: g.published(), Classes: g.ref.base.Classes}
	for _, name := range slices.Sorted(maps.Keys(g.templates)) {
		c.Templates = append(c.Templates, g.templates[name])
	}
	owner := make(map[string]*corev1.Pod)
	g.ref.pods = slices.Clone(g.ref.pods)
	for i, placed := range g.ref.pods {
		pod := placed.pod.DeepCopy()
		pod.Spec.NodeName, pod.Status.ResourceClaimStatuses = placed.node, nil
		for k, podClaim := range pod.Spec.ResourceClaims {
			if podClaim.ResourceClaimTemplateName != nil {
				owner[placed.claims[k]] = pod
				pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: podClaim.Name, ResourceClaimName: ptr.To(placed.claims[k])})
			}
		}
		c.Pods = append(c.Pods, pod)
		g.ref.pods[i] = &placedPod{pod: pod, node: placed.node, claims: placed.claims}
	}
	for _, name := range slices.Sorted(maps.Keys(g.ref.claims)) {
		claim := g.ref.claims[name]
		if pod := owner[name]; pod != nil {
			claim = claim.DeepCopy()
			claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
		}
		c.Claims = append(c.Claims, claim)
	}
	return c
}

// anotherTemplate takes the place of one of which nodes are real now.
func (g *game) anotherTemplate() {
	g.templateNumber++
	like := g.ref.nodes[g.rand.IntN(len(g.ref.nodes))]
	node := like.DeepCopy()
	node.Name = fmt.Sprintf("other-%d", g.templateNumber)
	spec := simulate.TemplateSpec{Node: node}
	for _, slice := range g.ref.own(like.Name) {
		slice = slice.DeepCopy()
		slice.Name, slice.Spec.NodeName = node.Name+slice.Name, &node.Name
		slice.Spec.Pool.Name = node.Name + slice.Spec.Pool.Name
		spec.Slices = append(spec.Slices, slice)
	}
	var err error
	if g.template, err = g.state.Template(spec); err != nil {
		g.Fatalf("seed %d: %v", g.seed, err)
	}
}

// expect says of a node that it will have the devices of the template.
func (g *game) expect() {
	if len(g.ref.nodes) == 0 {
		return // two Sims drained one each
	}
	node := g.ref.nodes[g.rand.IntN(len(g.ref.nodes))].Name
	if err := g.sim.Expect(node, g.template); err != nil {
		g.Fatalf("seed %d: %v", g.seed, err)
	}
	published := make(map[string]bool)
	for _, slice := range g.ref.slices {
		if ptr.Deref(slice.Spec.NodeName, "") == node {
			published[slice.Spec.Driver] = true
		}
	}
	rename := func(name string) string {
		name, like := strings.TrimSuffix(name, "-new-0"), g.template.Node().Name
		if strings.Contains(name, like) {
			return strings.Replace(name, like, node, 1)
		}
		return name + "-" + node
	}
	_, fresh := g.template.Nodes(0)
	for _, slice := range fresh {
		if published[slice.Spec.Driver] {
			continue
		}
		slice.Name, slice.Spec.Pool.Name, slice.Spec.NodeName = rename(slice.Name), rename(slice.Spec.Pool.Name), &node
		g.ref.slices = append(slices.Clip(g.ref.slices), slice)
		g.ref.unpublished = append(slices.Clip(g.ref.unpublished), slice)
		g.seen["expected"]++
	}
}

// published are the slices that there are. Now and then those that were expected arrive, all of a node
// and driver at once.
func (g *game) published() []*resourceapi.ResourceSlice {
	arrived := make(map[string]bool)
	of := func(s *resourceapi.ResourceSlice) string { return s.Spec.Driver + "/" + *s.Spec.NodeName }
	for _, slice := range g.ref.unpublished {
		if g.rand.IntN(2) == 0 || !slices.Contains(g.ref.slices, slice) {
			arrived[of(slice)] = true // a slice that was changed is no more what is expected
		}
	}
	g.ref.unpublished = slices.DeleteFunc(slices.Clone(g.ref.unpublished), func(s *resourceapi.ResourceSlice) bool { return arrived[of(s)] })
	g.seen["arrived"] += len(arrived)
	g.seen["still expected"] += len(g.ref.unpublished)
	return slices.DeleteFunc(slices.Clone(g.ref.slices), func(s *resourceapi.ResourceSlice) bool { return slices.Contains(g.ref.unpublished, s) })
}

// Shapes and templates outlive an Update, which reads again what they refer to.
func TestUpdateReadsShapesAgain(t *testing.T) {
	c := gpuCluster("a")
	state := open(t, c, simulate.Options{})
	shape := shapeOf(t, state, gpuPods("two", 1))
	c.Templates = slices.Clone(c.Templates)
	c.Templates[1] = gpuTemplate("two", 4)
	next, err := state.Update(c)
	if err != nil {
		t.Fatal(err)
	}
	if before, after := fit(t, state, shape, simulate.Real(nil)), fit(t, next, shape, simulate.Real(nil)); before.Pods != 2 || after.Pods != 1 {
		t.Errorf("%d pods fit before and %d after the update, want 2 and 1", before.Pods, after.Pods)
	}
	c.Templates = c.Templates[:1]
	if next, err = next.Update(c); err != nil {
		t.Fatal(err)
	}
	if _, err := next.FitsMany(t.Context(), shape, simulate.Real(nil)); err == nil || !strings.Contains(err.Error(), "ResourceClaimTemplate default/two does not exist") {
		t.Errorf("without the template: %v", err)
	}
	if _, err := next.Sim().Gang(t.Context(), []simulate.Demand{{Shape: shape, Count: 1}}, nil, simulate.Real(nil), simulate.FirstFit); err == nil {
		t.Error("without the template: no error of Gang")
	}
	if _, _, err := next.Victims(t.Context(), shape, simulate.Real(nil), func(*corev1.Pod) float64 { return 1 }, 1); err == nil {
		t.Error("without the template: no error of Victims")
	}
}

// An update that adds a node of a name that there is already is an error, as for Open.
func TestUpdateWrongInput(t *testing.T) {
	c := gpuCluster("a")
	state := open(t, c, simulate.Options{})
	if _, err := state.Update(gpuCluster("a", "b", "a")); err == nil || !strings.Contains(err.Error(), "node a: there are two") {
		t.Errorf("two nodes of a name: %v", err)
	}
	if _, err := state.Update(simulate.Cluster{Nodes: []*corev1.Node{nil}}); err == nil {
		t.Error("a nil node: no error")
	}
	template, err := state.TemplateOf("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := state.Sim().Expect("x", template); err == nil || !strings.Contains(err.Error(), "node x does not exist") {
		t.Errorf("a node that does not exist: %v", err)
	}
}

// A claim keeps the devices that it holds while its driver publishes nothing, and they are in use once
// they are expected. The real slices win.
func TestExpectWhatIsHeld(t *testing.T) {
	full := gpuCluster("a", "b")
	claim := &resourceapi.ResourceClaim{}
	claim.Namespace, claim.Name = "default", "held"
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Driver: "gpu.example.com", Pool: "b", Device: "gpu-1"}, {Driver: "gpu.example.com", Pool: "b", Device: "gpu-2"},
	}}}
	c := full
	c.Slices, c.Claims = full.Slices[:1], []*resourceapi.ResourceClaim{claim}
	state := open(t, c, simulate.Options{})
	shape := shapeOf(t, state, gpuPods("one", 1))
	template, err := state.TemplateOf("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	sim := state.Sim()
	check := func(when string, s *simulate.State, want int) {
		t.Helper()
		if found := fit(t, s, shape, simulate.Real(nil)); found.Pods != want {
			t.Errorf("%s, %d pods fit, want %d", when, found.Pods, want)
		}
	}
	check("before", sim.State(), 4)
	sim.Fork()
	if err := sim.Expect("b", template); err != nil {
		t.Fatal(err)
	}
	check("while they are expected", sim.State(), 6)
	next, err := sim.State().Update(c)
	if err != nil {
		t.Fatal(err)
	}
	check("after an update without the slices", next, 6)
	c.Slices = append(slices.Clone(c.Slices), gpuSlice("b", 3))
	if next, err = next.Update(c); err != nil {
		t.Fatal(err)
	}
	check("once the slices are there, with a device less", next, 5)
	c.Slices = c.Slices[:1]
	if next, err = next.Update(c); err != nil {
		t.Fatal(err)
	}
	check("once they are gone again", next, 4)
	sim.Revert()
	check("after revert", sim.State(), 4)
	if err := sim.Remove("b"); err != nil {
		t.Fatal(err)
	}
	if err := sim.Expect("b", template); err == nil {
		t.Error("a removed node: no error")
	}
}

// Devices that get positions before those in use do not change which are in use.
func TestExpectInFront(t *testing.T) {
	c := gpuCluster("a", "b")
	front := gpuSlice("b", 2)
	front.Name, front.Spec.Driver, front.Spec.Pool.Name = "front", "front.example.com", "front"
	c.Slices = append(c.Slices, front)
	state := open(t, c, simulate.Options{})
	template, err := state.TemplateOf("b", nil)
	if err != nil {
		t.Fatal(err)
	}
	sim := state.Sim()
	only := simulate.Real(func(node *corev1.Node) bool { return node.Name == "a" })
	if r, err := sim.PlaceMany(t.Context(), shapeOf(t, state, gpuPods("one", 4)), 4, only, simulate.FirstFit); err != nil || !r.All() {
		t.Fatalf("placed %d, %v", r.Placed, err)
	}
	if err := sim.Expect("a", template); err != nil {
		t.Fatal(err)
	}
	shape := shapeOf(t, state, gpuPods("two", 1))
	if found := fit(t, sim.State(), shape, only); found.Pods != 0 {
		t.Errorf("%d pods fit, want none", found.Pods)
	}
	sets, _, err := sim.State().Victims(t.Context(), shape, only, func(*corev1.Pod) float64 { return 1 }, 1)
	if err != nil || len(sets) != 1 || len(sets[0].Pods) != 2 {
		t.Errorf("victims are %v, %v; want one set of two pods", sets, err)
	}
	// A taint is put on the device of that name, wherever it is among the devices of the node.
	if err := sim.Taint(resourceapi.DeviceTaint{Key: "k", Effect: resourceapi.DeviceTaintEffectNoSchedule}, slices.Values([]pools.DeviceID{
		{Driver: "front.example.com", Pool: "front-a", Device: "gpu-0"}, {Driver: "gpu.example.com", Pool: "a", Device: "gpu-0"},
	})); err != nil {
		t.Fatal(err)
	}
	sets, _, err = sim.State().Victims(t.Context(), shapeOf(t, state, gpuPods("three", 1)), only, func(*corev1.Pod) float64 { return 1 }, 1)
	if err != nil || len(sets) != 1 || len(sets[0].Pods) != 3 {
		t.Errorf("with a tainted device the victims are %v, %v; want one set of three pods", sets, err)
	}
}
