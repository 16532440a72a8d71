// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/dev/peer"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate"
)

// Two Sims of a State that played sequences of their own merge unless both touched the same, and what
// comes out is what a step by step allocator says of a cluster with the objects of both.
func TestMergeLikeStepByStep(t *testing.T) {
	seen := make(map[string]int)
	for seed := range sequences(t, 60) {
		g := &game{T: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 40)), seen: seen}
		if !g.begin(peer.Dray()) {
			continue
		}
		for range 3 {
			g.move()
		}
		g.state, g.forks = g.sim.State(), nil
		a, b := g.fork(0), g.fork(1)
		for range 4 {
			a.move()
			b.move()
		}
		a.merge(b, g.ref)
	}
	allSeen(t, seen, "merged", "pool", "node", "template", "pod", "evicted", "put with devices")
}

// move makes a move that one of two players may make.
func (g *game) move() {
	switch n := g.rand.IntN(14); {
	case n < 8:
		g.place(1 + g.rand.IntN(2))
	case n < 9:
		g.taint()
	case n < 11:
		g.evict()
	case n < 13:
		g.put()
	default:
		g.drain()
	}
}

// fork is a player with a Sim of its own. Mostly it has nodes of its own, too.
func (g *game) fork(number int) *game {
	f := *g
	f.rand, f.sim, f.ref, f.forks = rand.New(rand.NewPCG(g.rand.Uint64(), 1)), g.state.Sim(), g.ref.clone(), nil
	f.pods, f.taints = g.pods+1000*(number+1), g.taints+number
	if g.rand.IntN(4) > 0 {
		f.ref.only = func(node *corev1.Node) bool {
			at := slices.IndexFunc(g.ref.nodes, func(n *corev1.Node) bool { return n.Name == node.Name })
			return at%2 == number
		}
	}
	return &f
}

// inUse describes what claims hold of each pool, whoever they are.
func (r *reference) inUse() map[string]string {
	holders := make(map[pools.DeviceID]int)
	consumed := make(map[pools.DeviceID]map[resourceapi.QualifiedName]resource.Quantity)
	for _, claim := range r.allocated() {
		for _, result := range claim.Status.Allocation.Devices.Results {
			if ptr.Deref(result.AdminAccess, false) {
				continue
			}
			id := pools.DeviceID{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
			if holders[id]++; consumed[id] == nil {
				consumed[id] = make(map[resourceapi.QualifiedName]resource.Quantity)
			}
			for name, amount := range result.ConsumedCapacity {
				amount.Add(consumed[id][name])
				consumed[id][name] = amount
			}
		}
	}
	lines := make(map[string][]string)
	for id, n := range holders {
		line := fmt.Sprint(id.Device, n)
		for _, name := range slices.Sorted(maps.Keys(consumed[id])) {
			amount := consumed[id][name]
			line += fmt.Sprint(" ", name, amount.AsDec())
		}
		lines["pool "+id.PoolID().String()] = append(lines["pool "+id.PoolID().String()], line)
	}
	all := make(map[string]string)
	for name := range lines {
		slices.Sort(lines[name])
		all[name] = strings.Join(lines[name], "\n")
	}
	return all
}

func onPool(s *resourceapi.ResourceSlice) string { return s.Spec.Driver + "/" + s.Spec.Pool.Name }

// maybe is before what was changed and may be as it was, which two Sims may know or not.
const maybe = "maybe "

// sameStatus reports whether a claim has the same devices and users.
func sameStatus(a, b *resourceapi.ResourceClaim) bool {
	users := func(claim *resourceapi.ResourceClaim) []string {
		var names []string
		for _, consumer := range claim.Status.ReservedFor {
			names = append(names, consumer.Name)
		}
		slices.Sort(names)
		return names
	}
	return slices.Equal(users(a), users(b)) && equality.Semantic.DeepEqual(a.Status.Allocation, b.Status.Allocation)
}

// touched lists what differs between two references: what is in use of pools, claims, nodes that are gone,
// nodes with more pods, and whether something was taken of nodes of the template.
func (r *reference) touched(from *reference) map[string]bool {
	all := make(map[string]bool)
	for _, side := range [][2]*reference{{r, from}, {from, r}} {
		other := side[1].inUse()
		for name, inUse := range side[0].inUse() {
			if other[name] != inUse {
				all[name] = true
			}
		}
		for name, claim := range side[0].claims {
			before := side[1].claims[name]
			if before == nil || before == claim {
				continue
			}
			all[maybe+"claim default/"+name] = true
			if !sameStatus(before, claim) {
				all["claim default/"+name] = true
			}
		}
		for _, slice := range side[0].slices {
			if !slices.Contains(side[1].slices, slice) {
				all["pool "+onPool(slice)] = true
			}
		}
	}
	for _, node := range from.nodes {
		if !slices.Contains(r.nodes, node) {
			all["node "+node.Name] = true
		}
	}
	for _, placed := range r.pods {
		if slices.Contains(from.pods, placed) {
			continue
		}
		all["on "+placed.node] = true
	}
	for _, placed := range from.pods {
		if slices.Contains(r.pods, placed) {
			continue
		}
		if all["on "+placed.node] = true; !all["node "+placed.node] {
			all["pod default/"+placed.pod.Name] = true
		}
	}
	if slices.ContainsFunc(r.added, func(n *corev1.Node) bool { return r.filled(n, from, all) }) {
		all["template"] = true
	}
	return all
}

// filled reports whether a node of the template has less left than before, given what was touched so far. Pods
// that take nothing of it make no difference.
func (r *reference) filled(node *corev1.Node, from *reference, touched map[string]bool) bool {
	return !slices.Contains(from.added, node) || len(node.Status.Allocatable) > 0 && r.cpuUsed(node) != from.cpuUsed(node) ||
		slices.ContainsFunc(r.own(node.Name), func(s *resourceapi.ResourceSlice) bool { return touched["pool "+onPool(s)] })
}

// union is the reference with what another one did, too. What both touched was looked at before.
func (r *reference) union(other, from *reference) *reference {
	u := r.clone()
	u.only = nil
	gone := func(n *corev1.Node) bool {
		return slices.Contains(from.nodes, n) && !(slices.Contains(r.nodes, n) && slices.Contains(other.nodes, n))
	}
	u.nodes = slices.DeleteFunc(slices.Clone(from.nodes), gone)
	if len(other.added) > len(u.added) {
		u.added = slices.Clone(other.added)
	}
	u.slices = nil
	for _, slice := range from.slices {
		at := func(list []*resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
			for _, s := range list {
				if s.Name == slice.Name {
					return s
				}
			}
			return nil
		}
		mine, theirs := at(r.slices), at(other.slices)
		switch {
		case mine == nil || theirs == nil:
		case mine != slice:
			u.slices = append(u.slices, mine)
		default:
			u.slices = append(u.slices, theirs)
		}
	}
	for _, list := range [][]*resourceapi.ResourceSlice{r.slices, other.slices} {
		for _, slice := range list {
			if !slices.ContainsFunc(slices.Concat(from.slices, u.slices), func(s *resourceapi.ResourceSlice) bool { return s.Name == slice.Name }) {
				u.slices = append(u.slices, slice)
			}
		}
	}
	for name, claim := range other.claims {
		if before := from.claims[name]; before == nil || !sameStatus(before, claim) {
			u.claims[name] = claim
		}
	}
	for name := range from.claims {
		if other.claims[name] == nil {
			delete(u.claims, name)
		}
	}
	u.pods = slices.DeleteFunc(slices.Clone(r.pods), func(p *placedPod) bool { return slices.Contains(from.pods, p) && !slices.Contains(other.pods, p) })
	for _, placed := range other.pods {
		if !slices.Contains(from.pods, placed) {
			u.pods = append(u.pods, placed)
		}
	}
	return u
}

// tooMuch is a node of which the CPU does not suffice for all pods.
func (r *reference) tooMuch() string {
	for _, node := range slices.Concat(r.nodes, r.added) {
		if !r.hasCPU(node, &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}}) {
			return node.Name
		}
	}
	return ""
}

// onAdded reports whether pods came to nodes of the template, or left them.
func onAdded(touched map[string]bool, r *reference) bool {
	return slices.ContainsFunc(r.added, func(n *corev1.Node) bool { return touched["on "+n.Name] })
}

func (g *game) merge(other *game, from *reference) {
	a, b := g.ref.touched(from), other.ref.touched(from)
	u := g.ref.union(other.ref, from)
	want, possible := make(map[string]bool), make(map[string]bool)
	for key := range a {
		if !b[key] {
			continue
		}
		if name, is := strings.CutPrefix(key, maybe); is {
			possible[name] = true
			continue
		}
		if name, on := strings.CutPrefix(key, "on "); on {
			if u.tooMuch() == name {
				want["node "+name] = true
			}
			continue
		}
		if key == "template" {
			key += " " + g.template.Node().Name
		}
		want[key] = true
	}
	if onAdded(a, g.ref) && onAdded(b, other.ref) {
		possible["template "+g.template.Node().Name] = true // whatever the pods take: here only what takes something counts
	}
	for _, side := range [][2]map[string]bool{{a, b}, {b, a}} {
		for key := range side[0] {
			if name, is := strings.CutPrefix(key, "node "); is && (side[1]["on "+name] || side[1][key]) {
				want[key] = true
			}
		}
	}
	before := g.sim.State()
	err := g.sim.Merge(other.sim)
	var conflict *simulate.ConflictError
	switch {
	case err == nil && len(want) > 0:
		g.Fatalf("seed %d: merged, though both touched %v", g.seed, slices.Sorted(maps.Keys(want)))
	case err == nil:
		g.seen["merged"]++
		g.ref = u
	case !errors.As(err, &conflict):
		g.Fatalf("seed %d: %v", g.seed, err)
	default:
		kind, _, _ := strings.Cut(conflict.Object, " ")
		if !want[conflict.Object] && !possible[conflict.Object] && !(kind == "node" && len(want) > 0) {
			g.Fatalf("seed %d: %v; both touched %v", g.seed, err, slices.Sorted(maps.Keys(want)))
		}
		g.seen[kind]++
		g.ref.only = nil
	}
	for range 3 {
		g.place(1 + g.rand.IntN(2))
		g.fits()
	}
	if err != nil {
		return
	}
	// What was given to Merge and what was there before it are as they were.
	other.ref.only, g.ref.only = nil, nil
	other.fits()
	other.place(1)
	sim := before.Sim()
	if err := sim.Merge(before.Sim()); err != nil {
		g.Fatalf("seed %d: two Sims that did nothing: %v", g.seed, err)
	}
}

// Goroutines with a Sim each, on nodes of their own, come to what one of them would alone.
func TestMergeOfGoroutines(t *testing.T) {
	const workers = 8
	var names []string
	for i := range 4 * workers {
		names = append(names, fmt.Sprintf("node-%02d", i))
	}
	state := open(t, gpuCluster(names...), simulate.Options{})
	shape := shapeOf(t, state, gpuPods("two", 1))
	sims := make([]*simulate.Sim, workers)
	var group sync.WaitGroup
	for w := range workers {
		sims[w] = state.Sim()
		group.Go(func() {
			mine := simulate.Real(func(node *corev1.Node) bool { return slices.Index(names, node.Name)%workers == w })
			if r, err := sims[w].PlaceMany(context.Background(), shape, w+1, mine, simulate.FirstFit); err != nil || r.Placed != min(w+1, 8) {
				t.Errorf("worker %d placed %d, %v", w, r.Placed, err)
			}
		})
	}
	group.Wait()
	for _, sim := range sims[1:] {
		if err := sims[0].Merge(sim); err != nil {
			t.Fatal(err)
		}
	}
	if left := fit(t, sims[0].State(), shape, simulate.Real(nil)); left.Pods != 8*workers-36 {
		t.Errorf("%d more pods fit, want %d", left.Pods, 8*workers-36)
	}
	var conflict *simulate.ConflictError
	if err := sims[0].Merge(sims[1]); !errors.As(err, &conflict) || conflict.Object != "pool gpu.example.com/node-01" {
		t.Errorf("merged twice: %v", err)
	}
	if err := sims[0].Merge(sims[0].State().Sim()); err == nil || errors.As(err, &conflict) {
		t.Errorf("a Sim of another State: %v", err)
	}
}

// Pools of one node are apart from each other, and so are taints. What the node has of other
// resources is not.
func TestMergeOnOneNode(t *testing.T) {
	c := gpuCluster("a")
	c.Nodes[0].Status.Allocatable = cpus("3")
	nics := gpuSlice("a", 2)
	nics.Name, nics.Spec.Driver, nics.Spec.Pool.Name = "nics", "nic.example.com", "nics"
	c.Slices = append(c.Slices, nics)
	class := c.Classes[0].DeepCopy()
	class.Name, class.Spec.Selectors[0].CEL.Expression = "nic", `device.driver == "nic.example.com"`
	c.Classes = append(c.Classes, class)
	template := gpuTemplate("nic", 1)
	template.Spec.Spec.Devices.Requests[0].Exactly.DeviceClassName = "nic"
	c.Templates = append(c.Templates, template)
	state := open(t, c, simulate.Options{})
	place := func(sim *simulate.Sim, kind, cpu string) {
		t.Helper()
		pod := gpuPods(kind, 1)[0]
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: cpus(cpu)}}}
		if r, err := sim.Place(t.Context(), pod, simulate.Real(nil), simulate.FirstFit); err != nil || !r.All() {
			t.Fatalf("placed %d, %v", r.Placed, err)
		}
	}
	taint := func(sim *simulate.Sim, driver, pool, device string) {
		t.Helper()
		if err := sim.Taint(resourceapi.DeviceTaint{Key: "k", Effect: resourceapi.DeviceTaintEffectNoSchedule},
			slices.Values([]pools.DeviceID{{Driver: driver, Pool: pool, Device: device}})); err != nil {
			t.Fatal(err)
		}
	}
	gpus, nic := state.Sim(), state.Sim()
	place(gpus, "one", "1")
	taint(gpus, "gpu.example.com", "a", "gpu-3")
	place(nic, "nic", "1")
	taint(nic, "nic.example.com", "nics", "gpu-1")
	if err := gpus.Merge(nic); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]int{"one": 2, "nic": 0} {
		if found := fit(t, gpus.State(), shapeOf(t, state, gpuPods(kind, 1)), simulate.Real(nil)); found.Pods != want {
			t.Errorf("after the merge, %d pods like %s fit, want %d", found.Pods, kind, want)
		}
	}
	if n := len(slices.Collect(gpus.State().Pods(nodeOf(t, state, "a")))); n != 2 {
		t.Errorf("%d pods are on the node, want 2", n)
	}
	greedy, tainted := state.Sim(), state.Sim()
	place(greedy, "nic", "3")
	taint(tainted, "nic.example.com", "nics", "gpu-1")
	first := state.Sim()
	place(first, "one", "1")
	var conflict *simulate.ConflictError
	if err := first.Merge(greedy); !errors.As(err, &conflict) || conflict.Object != "node a" {
		t.Errorf("too much CPU: %v", err)
	}
	if err := greedy.Merge(tainted); !errors.As(err, &conflict) || conflict.Object != "pool nic.example.com/nics" {
		t.Errorf("a taint on a pool in use: %v", err)
	}
}

// Two Sims may fill a node together, up to the last pod.
func TestMergeFillsANode(t *testing.T) {
	c := gpuCluster("a")
	c.Nodes[0].Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")}
	state := open(t, c, simulate.Options{})
	with := func(pods ...string) *simulate.Sim {
		sim := state.Sim()
		for _, name := range pods {
			pod := &corev1.Pod{}
			pod.Namespace, pod.Name = "default", name
			if r, err := sim.Place(t.Context(), pod, simulate.Real(nil), simulate.FirstFit); err != nil || !r.All() {
				t.Fatalf("placed %d, %v", r.Placed, err)
			}
		}
		return sim
	}
	full := with("first")
	if err := full.Merge(with("second")); err != nil {
		t.Error(err)
	}
	var conflict *simulate.ConflictError
	if err := with("first", "second").Merge(with("third")); !errors.As(err, &conflict) || conflict.Object != "node a" {
		t.Errorf("three pods on a node for two: %v", err)
	}
}

// What one of the Sims expects of a node is expected after the merge, and after an update of the cluster.
func TestMergeOfExpectations(t *testing.T) {
	c := gpuCluster("a", "b")
	c.Slices = c.Slices[:1]
	state := open(t, c, simulate.Options{})
	template, err := state.TemplateOf("a", nil)
	must(t, err)
	sim, other := state.Sim(), state.Sim()
	must(t, sim.Expect("b", template))
	place(t, other, shapeOf(t, state, gpuPods("three", 1)), 1, simulate.Real(nil))
	must(t, other.Merge(sim))
	onlyB := simulate.Real(func(n *corev1.Node) bool { return n.Name == "b" })
	shape := shapeOf(t, state, gpuPods("two", 1))
	if found := fit(t, other.State(), shape, onlyB); found.Pods != 2 {
		t.Errorf("after the merge %d pods fit on b, want 2", found.Pods)
	}
	updated, err := other.State().Update(c)
	must(t, err)
	if found := fit(t, updated, shape, onlyB); found.Pods != 2 {
		t.Errorf("after the update %d pods fit on b, want 2", found.Pods)
	}
}

// A pool of several nodes of which a device was allocated and given back again is as it was.
func TestMergeAfterGivingBack(t *testing.T) {
	c := gpuCluster("a", "b", "c", "d")
	everywhere := gpuSlice("everywhere", 3)
	everywhere.Spec.NodeName, everywhere.Spec.AllNodes = nil, ptr.To(true)
	c.Slices = []*resourceapi.ResourceSlice{gpuSlice("b", 1), everywhere}
	state := open(t, c, simulate.Options{})
	place := func(node string) *simulate.Sim {
		t.Helper()
		sim := state.Sim()
		on := simulate.Real(func(n *corev1.Node) bool { return n.Name == node })
		if r, err := sim.Place(t.Context(), gpuPods("one", 1)[0], on, simulate.FirstFit); err != nil || !r.All() {
			t.Fatalf("placed %d, %v", r.Placed, err)
		}
		return sim
	}
	state = place("d").State()      // which holds the first device
	moved := func() *simulate.Sim { // its pod has the device of node b
		t.Helper()
		sim := place("a")
		if r, err := sim.Drain(t.Context(), simulate.Real(nil), simulate.FirstFit, "a"); err != nil || !r.All() {
			t.Fatalf("moved %d, %v", r.Placed, err)
		}
		return sim
	}
	for name, sides := range map[string][2]*simulate.Sim{"into": {moved(), place("c")}, "from": {place("c"), moved()}} {
		if err := sides[0].Merge(sides[1]); err != nil {
			t.Errorf("merge %s what gave a device back: %v", name, err)
			continue
		}
		if left := fit(t, sides[0].State(), shapeOf(t, state, gpuPods("one", 1)), simulate.Real(nil)); left.Pods != 1 {
			t.Errorf("merge %s what gave a device back: %d more pods fit, want 1", name, left.Pods)
		}
	}
	var conflict *simulate.ConflictError
	if err := place("c").Merge(place("d")); !errors.As(err, &conflict) || conflict.Object != "pool gpu.example.com/everywhere" {
		t.Errorf("both hold a device of the pool: %v", err)
	}
}

func nodeOf(t *testing.T, state *simulate.State, name string) simulate.Node {
	t.Helper()
	node, err := state.Node(name)
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// A claim that pods share is touched by each Sim that lets a pod use it.
func TestMergeClaim(t *testing.T) {
	c := gpuCluster("a", "b")
	claim := &resourceapi.ResourceClaim{Spec: c.Templates[0].Spec.Spec}
	claim.Namespace, claim.Name = "default", "shared"
	c.Claims = append(c.Claims, claim)
	state := open(t, c, simulate.Options{})
	place := func(sim *simulate.Sim, name string) {
		t.Helper()
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name = "default", name
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: &claim.Name}}
		if r, err := sim.Place(t.Context(), pod, simulate.Real(nil), simulate.FirstFit); err != nil || !r.All() {
			t.Fatalf("placed %d, %v", r.Placed, err)
		}
	}
	first := state.Sim()
	place(first, "first")
	state = first.State()
	one, two, none := state.Sim(), state.Sim(), state.Sim()
	place(one, "one")
	place(two, "two")
	var conflict *simulate.ConflictError
	if err := one.Merge(two); !errors.As(err, &conflict) || conflict.Object != "claim default/shared" {
		t.Errorf("both use the claim: %v", err)
	}
	if err := none.Merge(one); err != nil {
		t.Errorf("one uses the claim: %v", err)
	}
	// The claim is free once both pods are gone, and not before.
	if r, err := none.Drain(t.Context(), simulate.Real(nil), simulate.FirstFit, "a"); err != nil || r.Placed != 2 {
		t.Errorf("%d pods found another node, %v; want 2", r.Placed, err)
	}
}

// A claim that the other Sim gave another device of a pool of several nodes has that one after the merge.
func TestMergeClaimWithAnotherSharedDevice(t *testing.T) {
	c, pods := sharing(1, false)
	c.Slices[0].Spec.NodeName, c.Slices[0].Spec.AllNodes = nil, ptr.To(true)
	state := open(t, c, simulate.Options{})
	put := func(sim *simulate.Sim, pod *corev1.Pod, device string) {
		t.Helper()
		if r, err := sim.Put(t.Context(), pod, nodeOf(t, state, "a"), gpuResults("a", device)); err != nil || !r.All() {
			t.Fatalf("%s: %v, %v", device, r.Err, err)
		}
	}
	sim := state.Sim()
	put(sim, pods[0], "gpu-0")
	state = sim.State()
	mine, other := state.Sim(), state.Sim()
	must(t, other.Evict(pods[0]))
	put(other, pods[0], "gpu-1")
	must(t, mine.Merge(other))
	put(mine, gpuPods("one", 1)[0], "gpu-0")
	must(t, mine.Evict(pods[0]))
	put(mine, gpuPods("two", 1)[0], "gpu-1")
}
