// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package mix_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/internal/dev/ending"
	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/mix"
)

// lab makes clusters, types of nodes and pods.
type lab struct {
	testing.TB
	simulate.Cluster
	specs []simulate.TemplateSpec
}

func newLab(t testing.TB) *lab {
	l := &lab{TB: t}
	for _, name := range []string{"gpu", "nic"} {
		class := &resourceapi.DeviceClass{}
		class.Name = name
		class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == '%s.example.com'", name)}}}
		l.Classes = append(l.Classes, class)
	}
	return l
}

// node is one with devices of each class, and CPU if it is not 0.
func (l *lab) node(name string, gpus, nics, cpu int, labels map[string]string) (*corev1.Node, []*resourceapi.ResourceSlice) {
	node := &corev1.Node{}
	node.Name, node.Labels = name, labels
	if cpu > 0 {
		node.Status.Allocatable = corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewQuantity(int64(cpu), resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(int64(cpu)<<32, resource.BinarySI),
		}
	}
	var published []*resourceapi.ResourceSlice
	for driver, count := range map[string]int{"gpu": gpus, "nic": nics} {
		if count == 0 {
			continue
		}
		slice := &resourceapi.ResourceSlice{}
		slice.Name = name + "-" + driver
		slice.Spec = resourceapi.ResourceSliceSpec{
			Driver: driver + ".example.com", NodeName: ptr.To(name), Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
		}
		for i := range count {
			device := resourceapi.Device{Name: fmt.Sprintf("%s-%d", driver, i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"example.com/root": {IntValue: ptr.To(int64(i / 2))},
			}}
			slice.Spec.Devices = append(slice.Spec.Devices, device)
		}
		published = append(published, slice)
	}
	slices.SortFunc(published, func(a, b *resourceapi.ResourceSlice) int { return len(a.Name) - len(b.Name) })
	return node, published
}

func (l *lab) addNode(name string, gpus, nics, cpu int, labels map[string]string) {
	node, published := l.node(name, gpus, nics, cpu, labels)
	l.Nodes, l.Slices = append(l.Nodes, node), append(l.Slices, published...)
}

func (l *lab) addType(name string, price float64, gpus, nics, cpu int, labels map[string]string) {
	node, published := l.node(name, gpus, nics, cpu, labels)
	l.specs = append(l.specs, simulate.TemplateSpec{Node: node, Slices: published, Price: price})
}

// pod wants devices of each class, and CPU. If aligned is set, all its devices have one root.
func (l *lab) pod(name string, gpus, nics, cpu int, aligned bool) *corev1.Pod {
	template := fmt.Sprintf("gpu%d-nic%d-%t", gpus, nics, aligned)
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "default", name
	pod.Spec.Containers = []corev1.Container{{Name: "main"}}
	if cpu > 0 {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewQuantity(int64(cpu), resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(int64(cpu)<<31, resource.BinarySI),
		}
	}
	if gpus+nics == 0 {
		return pod
	}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimTemplateName: &template}}
	if slices.ContainsFunc(l.Templates, func(t *resourceapi.ResourceClaimTemplate) bool { return t.Name == template }) {
		return pod
	}
	made := &resourceapi.ResourceClaimTemplate{}
	made.Namespace, made.Name = "default", template
	for class, count := range map[string]int{"gpu": gpus, "nic": nics} {
		if count > 0 {
			made.Spec.Spec.Devices.Requests = append(made.Spec.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: class, Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(count),
			}})
		}
	}
	slices.SortFunc(made.Spec.Spec.Devices.Requests, func(a, b resourceapi.DeviceRequest) int { return int(a.Name[0]) - int(b.Name[0]) })
	if aligned {
		made.Spec.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("example.com/root"))}}
	}
	l.Templates = append(l.Templates, made)
	return pod
}

func (l *lab) open() (*simulate.State, []*simulate.Template) {
	l.Helper()
	state, err := simulate.Open(l.Cluster, simulate.Options{Features: allocator.AllFeatures(), Strict: true})
	if err != nil {
		l.Fatal(err)
	}
	var types []*simulate.Template
	for _, spec := range l.specs {
		t, err := state.Template(spec)
		if err != nil {
			l.Fatal(err)
		}
		types = append(types, t)
	}
	return state, types
}

func (l *lab) names() (names []string) {
	for _, node := range l.Nodes {
		names = append(names, node.Name)
	}
	return names
}

// enumeration tries all nodes for all pods.
type enumeration struct {
	*testing.T
	mix.Question
	sim   *simulate.Sim
	nodes []simulate.Node
	left  int
	cost  float64
	// fewest and least are those of the best choice.
	fewest int
	least  float64
}

func (e *enumeration) run(pods []*corev1.Pod) {
	if e.left > e.fewest || e.left == e.fewest && e.cost >= e.least {
		return
	}
	if len(pods) == 0 {
		e.fewest, e.least = e.left, e.cost
		return
	}
	for _, node := range e.nodes {
		e.put(pods, node)
	}
	for _, t := range e.Types {
		if !e.permitted(t) {
			continue
		}
		all, _ := e.sim.Added(t)
		e.sim.Fork()
		if err := e.sim.Add(t, 1); err != nil {
			e.Fatal(err)
		}
		e.nodes, e.cost = append(e.nodes, t.At(all)), e.cost+t.Price()
		e.put(pods, t.At(all))
		e.nodes, e.cost = e.nodes[:len(e.nodes)-1], e.cost-t.Price()
		e.sim.Revert()
	}
	e.left++
	e.run(pods[1:])
	e.left--
}

func (e *enumeration) put(pods []*corev1.Pod, node simulate.Node) {
	e.sim.Fork()
	result, err := e.sim.Put(e.Context(), pods[0], node)
	if err != nil {
		e.Fatal(err)
	}
	if result.All() {
		e.run(pods[1:])
	}
	e.sim.Revert()
}

func (e *enumeration) permitted(t *simulate.Template) bool {
	return !slices.ContainsFunc(e.Limits, func(l mix.Limit) bool {
		if !slices.Contains(l.Types, t) {
			return false
		}
		total := 0
		for _, other := range l.Types {
			all, _ := e.sim.Added(other)
			total += all
		}
		return total >= l.Nodes
	})
}

// check compares a plan with the best of all choices, and with its own cluster.
func check(t *testing.T, state *simulate.State, q mix.Question, f features) *mix.Plan {
	t.Helper()
	plan, err := mix.Find(t.Context(), state, q)
	if err != nil {
		t.Fatal(err)
	}
	e := &enumeration{T: t, Question: q, sim: state.Sim(), fewest: len(q.Pods) + 1}
	for _, name := range q.Nodes {
		node, err := state.Node(name)
		if err != nil {
			t.Fatal(err)
		}
		e.nodes = append(e.nodes, node)
	}
	shapes, err := state.Shapes(q.Pods)
	if err != nil {
		t.Fatal(err)
	}
	var pods []*corev1.Pod
	for _, shape := range shapes {
		pods = append(pods, shape.Pods...)
	}
	e.run(pods)
	left := 0
	for _, l := range plan.Left {
		left += len(l.Pods)
	}
	// A pod may have a place because it comes after all others.
	better := left < e.fewest && (f.aligned || f.lists)
	if (left != e.fewest || math.Abs(plan.Cost-e.least) > 1e-9) && !better || !plan.Exact() || plan.Bound != plan.Cost || plan.Gap() != 0 {
		t.Fatalf("%d pods left, at %v; bound %v, %d left, exact %t; by enumeration %d left, at %v", left, plan.Cost, plan.Bound, plan.LeftBound, plan.Exact(), e.fewest, e.least)
	}
	replay(t, state, &q, plan)
	return plan
}

// replay puts the pods of a plan on their nodes, and counts what these cost.
func replay(t testing.TB, state *simulate.State, q *mix.Question, plan *mix.Plan) {
	t.Helper()
	sim, cost, seen := state.Sim(), 0.0, make(map[*corev1.Pod]bool)
	put := func(placement *simulate.Placement) {
		result, err := sim.Put(t.Context(), placement.Pod, placement.Node)
		if err != nil || !result.All() || seen[placement.Pod] {
			t.Fatalf("pod %s on node %s: placed %d, seen %t, %v", placement.Pod.Name, placement.Node.Name(), result.Placed, seen[placement.Pod], err)
		}
		seen[placement.Pod] = true
		if claims, err := placement.Claims(t.Context()); err != nil || len(claims) != len(placement.Pod.Spec.ResourceClaims) {
			t.Fatalf("pod %s: %d claims, %v", placement.Pod.Name, len(claims), err)
		}
	}
	for i := range plan.Existing {
		if put(&plan.Existing[i]); !slices.Contains(q.Nodes, plan.Existing[i].Node.Name()) {
			t.Fatalf("a pod is on node %s, which is not in question", plan.Existing[i].Node.Name())
		}
	}
	for _, node := range plan.Nodes {
		cost += node.Template().Price()
		if err := sim.Add(node.Template(), 1); err != nil || len(node.Pods) == 0 {
			t.Fatalf("node %s has %d pods: %v", node.Name(), len(node.Pods), err)
		}
		for i := range node.Pods {
			if put(&node.Pods[i]); node.Pods[i].Node != node.Node {
				t.Fatalf("a pod of node %s is on %s", node.Name(), node.Pods[i].Node.Name())
			}
		}
	}
	for _, limit := range q.Limits {
		total := 0
		for _, node := range plan.Nodes {
			if slices.Contains(limit.Types, node.Template()) {
				total++
			}
		}
		if total > limit.Nodes {
			t.Fatalf("%d nodes, where %d are permitted", total, limit.Nodes)
		}
	}
	for _, left := range plan.Left {
		for _, pod := range left.Pods {
			if seen[pod] {
				t.Fatalf("pod %s has a place and is left", pod.Name)
			}
			seen[pod] = true
		}
	}
	if len(seen) != len(q.Pods) || math.Abs(cost-plan.Cost) > 1e-9 {
		t.Fatalf("%d pods of %d, nodes at %v, plan at %v", len(seen), len(q.Pods), cost, plan.Cost)
	}
}

// features of generated questions.
type features struct {
	nics, cpu, aligned, limits, existing, selectors, fractions bool
	// With lists, some pods have a prioritized list. With halves, each GPU is also published as two halves, and some pods want one.
	lists, halves bool
}

func (l *lab) generate(random *rand.Rand, f features) (*simulate.State, mix.Question) {
	pick := func(on bool, n int) int {
		if !on {
			return 0
		}
		return random.IntN(n)
	}
	zone := func() map[string]string {
		if !f.selectors {
			return nil
		}
		return map[string]string{"zone": []string{"a", "b"}[random.IntN(2)]}
	}
	cpu := func(least int) int {
		if !f.cpu {
			return 0
		}
		return least + random.IntN(6)
	}
	price := func(size int) float64 {
		cost := float64(1 + size + random.IntN(4))
		if f.fractions {
			cost += random.Float64()
		}
		return cost
	}
	for i := range 1 + random.IntN(3) {
		gpus := random.IntN(5)
		l.addType(fmt.Sprint("type-", i), price(gpus), gpus, pick(f.nics, 4), cpu(3), zone())
	}
	if f.existing {
		for i := range 1 + random.IntN(2) {
			l.addNode(fmt.Sprint("node-", i), random.IntN(3), pick(f.nics, 3), cpu(1), zone())
		}
	}
	var pods []*corev1.Pod
	for i := range 1 + random.IntN(6) {
		gpus, nics := random.IntN(4), pick(f.nics, 3)
		if gpus+nics == 0 && !f.cpu {
			gpus = 1
		}
		pod := l.pod(fmt.Sprint("pod-", i), gpus, nics, pick(f.cpu, 5), f.aligned && random.IntN(2) == 0)
		if pick(f.lists, 2) == 1 {
			l.list(pod, gpus)
		} else if pick(f.halves, 2) == 1 {
			l.half(pod)
		}
		if f.selectors && random.IntN(3) == 0 {
			pod.Spec.NodeSelector = zone()
		}
		pods = append(pods, pod)
	}
	if f.halves {
		l.divide()
	}
	state, types := l.open()
	q := mix.Question{Pods: pods, Types: types, Nodes: l.names()}
	if f.limits {
		for range 1 + random.IntN(2) {
			q.Limits = append(q.Limits, mix.Limit{Types: types[:1+random.IntN(len(types))], Nodes: random.IntN(3)})
		}
	}
	return state, q
}

// A plan leaves out as few pods, and costs as little, as the best of all choices of nodes.
func TestFindLikeEnumeration(t *testing.T) {
	for name, f := range map[string]features{
		"plain": {}, "nics": {nics: true}, "cpu": {cpu: true}, "aligned": {nics: true, aligned: true}, "limits": {limits: true}, "existing": {existing: true},
		"selectors": {selectors: true}, "fractions": {fractions: true}, "halves": {halves: true, cpu: true, existing: true}, "lists": {lists: true, existing: true},
		"all":                       {nics: true, cpu: true, aligned: true, limits: true, existing: true, selectors: true, fractions: true},
		"all with halves and lists": {nics: true, cpu: true, aligned: true, limits: true, existing: true, selectors: true, fractions: true, halves: true, lists: true},
	} {
		t.Run(name, func(t *testing.T) {
			bought, none := 0, 0
			for seed := range uint64(40) {
				l := newLab(t)
				state, q := l.generate(rand.New(rand.NewPCG(seed, 29)), f)
				t.Logf("seed %d", seed)
				plan := check(t, state, q, f)
				if bought += len(plan.Nodes); !plan.All() {
					none++
				}
			}
			if bought == 0 || none == 0 {
				t.Errorf("%d nodes bought, %d questions with pods without a place", bought, none)
			}
		})
	}
}

// The cheapest node for each pod by itself is not the one on which all of them fit.
func TestFindTakesSmallNodes(t *testing.T) {
	l := newLab(t)
	l.addType("one", 10, 1, 0, 0, nil)
	l.addType("eight", 60, 8, 0, 0, nil)
	for count, want := range map[int]float64{1: 10, 4: 40, 6: 60, 7: 60, 8: 60, 9: 70, 15: 120} {
		var pods []*corev1.Pod
		for i := range count {
			pods = append(pods, l.pod(fmt.Sprint("pod-", i), 1, 0, 0, false))
		}
		state, types := l.open()
		plan, err := mix.Find(t.Context(), state, mix.Question{Pods: pods, Types: types})
		if err != nil || plan.Cost != want || !plan.Exact() || !plan.All() {
			t.Errorf("%d pods cost %v, exact %t, %v; want %v", count, plan.Cost, plan.Exact(), err, want)
		}
	}
}

// A plan for 500 pods and 20 types costs at most 2 % more than the bound, and is the same each time.
func TestFindIsNearTheBound(t *testing.T) {
	for seed, kinds := range []int{10, 40, 500} {
		l, pods := fleet(t, 20, kinds, 500, uint64(seed))
		state, types := l.open()
		q := mix.Question{Pods: pods, Types: types}
		plan, err := mix.Find(t.Context(), state, q)
		if err != nil || !plan.All() || plan.Gap() > 0.02 {
			t.Fatalf("%d kinds: cost %v, bound %v, %d kinds left, %v", kinds, plan.Cost, plan.Bound, len(plan.Left), err)
		}
		replay(t, state, &q, plan)
		if kinds > 40 {
			continue
		}
		again, err := mix.Find(t.Context(), state, q)
		if err != nil || again.Cost != plan.Cost || again.Bound != plan.Bound || len(again.Nodes) != len(plan.Nodes) {
			t.Errorf("%d kinds: cost %v, bound %v, %d nodes; the second time cost %v, bound %v, %d nodes, %v",
				kinds, plan.Cost, plan.Bound, len(plan.Nodes), again.Cost, again.Bound, len(again.Nodes), err)
		}
	}
}

// A search that is given up has a bound that holds, and a plan.
func TestFindGivesUp(t *testing.T) {
	l, pods := fleet(t, 10, 20, 60, 3)
	for i := range 6 {
		l.addNode(fmt.Sprint("node-", i), 2+i/2, 1, 8*(1+i%2), nil)
	}
	state, types := l.open()
	q := mix.Question{Pods: pods, Types: types, Nodes: l.names()}
	best, err := mix.Find(t.Context(), state, q)
	if err != nil {
		t.Fatal(err)
	}
	for steps := int64(1); steps < 3_000_000; steps *= 3 {
		q.Steps = steps
		plan, err := mix.Find(t.Context(), state, q)
		if err != nil || plan.Bound > best.Cost || plan.Cost < best.Bound || plan.Exact() && plan.Cost != best.Cost {
			t.Errorf("%d steps: cost %v, bound %v, exact %t, %v; best cost %v, bound %v", steps, plan.Cost, plan.Bound, plan.Exact(), err, best.Cost, best.Bound)
		}
		replay(t, state, &q, plan)
	}
}

// The room on real nodes is used first, even if new nodes cost nothing. Nodes that admit other pods are not alike.
func TestFindUsesRealNodesFirst(t *testing.T) {
	l := newLab(t)
	l.addType("free", 0, 4, 0, 0, nil)
	l.addNode("a", 1, 0, 0, map[string]string{"zone": "a"})
	l.addNode("b", 1, 0, 0, map[string]string{"zone": "b"})
	pods := []*corev1.Pod{l.pod("pod-0", 1, 0, 0, false), l.pod("pod-1", 1, 0, 0, false)}
	for i, zone := range []string{"a", "b"} {
		pods[i].Spec.NodeSelector = map[string]string{"zone": zone}
	}
	pods = append(pods, l.pod("pod-2", 1, 0, 0, false))
	state, types := l.open()
	plan, err := mix.Find(t.Context(), state, mix.Question{Pods: pods, Types: types, Nodes: l.names()})
	if err != nil || !plan.All() || len(plan.Existing) != 2 || len(plan.Nodes) != 1 || !plan.Exact() {
		t.Fatalf("%d pods on real nodes, %d new nodes, %d kinds left, %v", len(plan.Existing), len(plan.Nodes), len(plan.Left), err)
	}
	plan, err = mix.Find(t.Context(), state, mix.Question{Pods: pods[2:], Types: types, Nodes: l.names()})
	if err != nil || len(plan.Existing) != 1 || len(plan.Nodes) != 0 {
		t.Errorf("%d pods on real nodes, %d new nodes, %v", len(plan.Existing), len(plan.Nodes), err)
	}
}

// If it is undecided whether a second pod fits, it gets a node of its own, and the bound does not rely on that.
func TestFindDoubtsABound(t *testing.T) {
	l := newLab(t)
	l.addType("type", 1, 2, 0, 0, nil)
	delete(l.specs[0].Slices[0].Spec.Devices[1].Attributes, "example.com/root")
	pods := []*corev1.Pod{l.pod("pod-0", 1, 0, 0, false), l.pod("pod-1", 1, 0, 0, false)}
	l.Templates[0].Spec.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: `device.attributes["example.com"].root == 0`,
	}}}
	state, types := l.open()
	plan, err := mix.Find(t.Context(), state, mix.Question{Pods: pods, Types: types})
	if err != nil || !plan.All() || plan.Cost != 2 || plan.Bound > 1 || plan.Exact() {
		t.Errorf("cost %v, bound %v, exact %t, %d kinds left, %v", plan.Cost, plan.Bound, plan.Exact(), len(plan.Left), err)
	}
}

// A pod that may fit on a cheaper node of which that is undecided gets another one, and the bound does not rely on that.
func TestFindDoubtsATypeOfNodes(t *testing.T) {
	l := newLab(t)
	l.addType("doubtful", 1, 2, 0, 0, nil)
	l.addType("sure", 5, 2, 0, 0, nil)
	for i := range l.specs[0].Slices[0].Spec.Devices {
		delete(l.specs[0].Slices[0].Spec.Devices[i].Attributes, "example.com/root")
	}
	pod := l.pod("pod", 1, 0, 0, false)
	l.Templates[0].Spec.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: `device.attributes["example.com"].root == 0`,
	}}}
	state, types := l.open()
	plan, err := mix.Find(t.Context(), state, mix.Question{Pods: []*corev1.Pod{pod}, Types: types})
	if err != nil || !plan.All() || plan.Cost != 5 || plan.Bound > 1 || plan.Exact() {
		t.Errorf("cost %v, bound %v, exact %t, %d kinds left, %v", plan.Cost, plan.Bound, plan.Exact(), len(plan.Left), err)
	}

	// The third pod is not left because of the limit: it may fit on a doubtful node.
	pods := []*corev1.Pod{pod, l.pod("pod-1", 1, 0, 0, false), l.pod("pod-2", 1, 0, 0, false)}
	plan, err = mix.Find(t.Context(), state, mix.Question{Pods: pods, Types: types, Limits: []mix.Limit{{Types: types[1:], Nodes: 1}}})
	if err != nil || len(plan.Left) != 1 || len(plan.Left[0].Pods) != 1 || plan.Left[0].Reason != mix.Undecided || plan.Cost != 5 || plan.LeftBound != 0 {
		t.Errorf("cost %v, %d kinds left, %d left at least, %v; want a pod undecided", plan.Cost, len(plan.Left), plan.LeftBound, err)
	}
}

// Pods without a place are named with the reason.
func TestFindSaysWhatIsLeft(t *testing.T) {
	l := newLab(t)
	l.addType("small", 1, 1, 0, 4, nil)
	l.addType("large", 3, 4, 0, 8, nil)
	l.addNode("full", 0, 0, 1, nil)
	shared := &resourceapi.ResourceClaim{}
	shared.Namespace, shared.Name = "default", "shared"
	shared.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
	}}}
	l.Claims = append(l.Claims, shared)
	pods := []*corev1.Pod{l.pod("devices", 5, 0, 1, false), l.pod("cpu", 1, 0, 9, false), l.pod("fits-0", 4, 0, 1, false), l.pod("fits-1", 4, 0, 1, false), l.pod("shares", 1, 0, 1, false)}
	pods[4].Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "devices", ResourceClaimName: &shared.Name}
	state, types := l.open()
	plan, err := mix.Find(t.Context(), state, mix.Question{Pods: pods, Types: types, Nodes: l.names(), Limits: []mix.Limit{{Types: types[1:], Nodes: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		pod, text string
		reason    mix.Reason
	}{
		{"devices", "pods? like default/devices not placed: .*needs 5 devices; 4 of 4", mix.FitsNowhere},
		{"cpu", "too little cpu", mix.FitsNowhere},
		{"fits-1", "1 pod like default/fits-1 not placed", mix.Limited},
		{"shares", "", mix.DependsOnOthers},
	} {
		at := slices.IndexFunc(plan.Left, func(l mix.Left) bool { return l.Pods[0].Name == want.pod })
		if at < 0 {
			t.Errorf("pod %s is not left", want.pod)
			continue
		}
		left := &plan.Left[at]
		text := ""
		if left.Why != nil {
			text = left.Why.String()
		}
		if matched, err := regexp.MatchString(want.text, text); left.Reason != want.reason || !matched || err != nil || len(left.Pods) != 1 {
			t.Errorf("pod %s is left because %s: %q, want %s: %q", want.pod, left.Reason, text, want.reason, want.text)
		}
	}
	if len(plan.Left) != 4 || plan.Cost != 3 || !plan.Exact() || plan.LeftBound != 1 || plan.All() {
		t.Errorf("%d kinds left, cost %v, exact %t, %d left at least", len(plan.Left), plan.Cost, plan.Exact(), plan.LeftBound)
	}
}

// A search for devices that fails is no no.
func TestFindIsUndecided(t *testing.T) {
	l := newLab(t)
	l.addType("type", 1, 4, 4, 0, nil)
	pods := []*corev1.Pod{l.pod("faulty", 3, 0, 0, false), l.pod("other", 1, 0, 0, false)}
	l.Templates[0].Spec.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: `device.attributes["example.com"].missing == 1`,
	}}}
	state, types := l.open()
	plan, err := mix.Find(t.Context(), state, mix.Question{Pods: pods, Types: types})
	if err != nil || len(plan.Left) != 1 || plan.Left[0].Pods[0] != pods[0] || plan.Left[0].Reason != mix.Undecided || plan.Left[0].Why == nil || plan.Exact() {
		t.Fatalf("%d kinds left, exact %t, %v; want one pod undecided", len(plan.Left), plan.Exact(), err)
	}
	if len(plan.Left[0].Why.Undecided) != 1 || plan.Cost != 1 || len(plan.Nodes) != 1 {
		t.Errorf("%v, cost %v, %d nodes", plan.Left[0].Why, plan.Cost, len(plan.Nodes))
	}
}

// Whatever a question is at when its context ends, it ends, too.
func TestFindEndsAnywhere(t *testing.T) {
	all := features{nics: true, cpu: true, aligned: true, limits: true, existing: true, selectors: true, halves: true, lists: true}
	ended := 0
	for seed := range uint64(12) {
		ended += ending.Anywhere(t, func(ctx context.Context) (string, error) {
			state, q := newLab(t).generate(rand.New(rand.NewPCG(seed, 31)), all)
			plan, err := mix.Find(ctx, state, q)
			if err != nil {
				return "", err
			}
			var left []string
			for i := range plan.Left {
				left = append(left, string(plan.Left[i].Reason), plan.Left[i].Why.String())
			}
			return fmt.Sprint(plan.Cost, plan.Bound, plan.LeftBound, len(plan.Nodes), len(plan.Existing), left), nil
		})
	}
	if ended < 200 {
		t.Errorf("only %d questions ended early", ended)
	}
}

func TestFindRefuses(t *testing.T) {
	l := newLab(t)
	l.addType("type", 1, 1, 0, 0, nil)
	l.addType("negative", -1, 1, 0, 0, nil)
	l.addType("infinite", math.Inf(1), 1, 0, 0, nil)
	pods := []*corev1.Pod{l.pod("pod", 1, 0, 0, false)}
	state, types := l.open()
	_, others := l.open()
	faulty := l.pod("faulty", 1, 0, 0, false)
	faulty.Spec.ResourceClaims[0].ResourceClaimTemplateName = ptr.To("missing")
	undecided, err := state.Any("any", types[0])
	if err != nil {
		t.Fatal(err)
	}
	for want, q := range map[string]mix.Question{
		"a pod is nil":                {Pods: []*corev1.Pod{nil}},
		"faulty":                      {Pods: []*corev1.Pod{faulty}},
		"type 0 is nil":               {Pods: pods, Types: []*simulate.Template{nil}},
		"type type is there twice":    {Pods: pods, Types: []*simulate.Template{types[0], types[0]}},
		"negative: price -1: want 0":  {Pods: pods, Types: types[1:2]},
		"infinite: price +Inf: want":  {Pods: pods, Types: types[2:]},
		"is one of another Open":      {Pods: pods, Types: others[:1]},
		"node any-new-0":              {Pods: pods, Types: []*simulate.Template{undecided}},
		"limit 0: a type is none":     {Pods: pods, Types: types[:1], Limits: []mix.Limit{{Types: types[1:2]}}},
		"limit 0: -1 nodes":           {Pods: pods, Types: types[:1], Limits: []mix.Limit{{Types: types[:1], Nodes: -1}}},
		"node nowhere does not exist": {Pods: pods, Types: types[:1], Nodes: []string{"nowhere"}},
	} {
		if _, err := mix.Find(t.Context(), state, q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := mix.Find(ctx, state, mix.Question{Pods: pods, Types: types[:1]}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if plan, err := mix.Find(t.Context(), state, mix.Question{}); err != nil || !plan.All() || !plan.Exact() {
		t.Errorf("nothing asked: %+v, %v", plan, err)
	}
	if plan, err := mix.Find(t.Context(), state, mix.Question{Pods: pods}); err != nil || len(plan.Left) != 1 || plan.Left[0].Why.String() == "" {
		t.Errorf("no types: %+v, %v", plan, err)
	}
}
