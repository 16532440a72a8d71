// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate"
)

// evict takes a pod from its node, if it is told apart there.
func (g *game) evict() {
	if len(g.ref.pods) == 0 {
		return
	}
	isNew := func(p *placedPod) bool {
		return slices.ContainsFunc(g.ref.added, func(n *corev1.Node) bool { return n.Name == p.node })
	}
	placed := g.ref.pods[g.rand.IntN(len(g.ref.pods))]
	for _, p := range g.ref.pods {
		if isNew(p) && slices.Contains(p.claims, "shared") {
			placed = p
		}
	}
	onNew := isNew(placed)
	err := g.sim.Evict(placed.pod)
	switch shares := slices.Contains(placed.claims, "shared"); {
	case onNew && !shares:
		if err == nil {
			g.Fatalf("seed %d: %s is evicted from %s, of a template", g.seed, placed.pod.Name, placed.node)
		}
		return
	case err != nil:
		g.Fatalf("seed %d: %s on %s: %v", g.seed, placed.pod.Name, placed.node, err)
	}
	g.ref.evict(placed)
	g.seen["evicted"]++
	if err := g.sim.Evict(placed.pod); err == nil || !strings.Contains(err.Error(), "is on no node") {
		g.Fatalf("seed %d: %s is evicted twice: %v", g.seed, placed.pod.Name, err)
	}
}

// putOn puts a pod on a node, by itself or as the first one of its shape, in turn. It draws nothing: what sequences play is kept.
func (g *game) putOn(pod *corev1.Pod, on simulate.Node, given []resourceapi.AllocationResult) (simulate.Result, error) {
	if g.puts++; g.puts%2 == 0 {
		return g.sim.Put(g.Context(), pod, on, given...)
	}
	shapes, err := g.sim.State().Shapes([]*corev1.Pod{pod})
	if err != nil {
		return simulate.Result{}, err
	}
	g.seen["put by shape"]++
	return g.sim.PutShape(g.Context(), shapes[0], on, given...)
}

// put puts a pod on a node, at times with devices that it would not get by itself.
func (g *game) put() {
	if len(g.ref.nodes) == 0 {
		return
	}
	pod, node := g.newPods(1)[0], g.ref.nodes[g.rand.IntN(len(g.ref.nodes))]
	if g.ref.only != nil && !g.ref.only(node) {
		return
	}
	handle, err := g.sim.State().Node(node.Name)
	if err != nil {
		g.Fatalf("seed %d: %v", g.seed, err)
	}
	claims := g.ref.claimsOf(pod, g.templates)
	ref := g.ref
	decided := g.rand.IntN(3) > 0
	if decided {
		ref = g.ref.clone()
		ref.only = func(n *corev1.Node) bool { return n == node }
		ref.added = nil
		for range g.rand.IntN(3) {
			other := g.newPods(1)[0]
			if _, _, _, err := ref.place(g.Context(), other, ref.claimsOf(other, g.templates), nil); err != nil {
				g.Fatalf("seed %d: %v", g.seed, err)
			}
		}
		ref.added = g.ref.added
	}
	want, err := ref.on(g.Context(), node, nil, pod, claims)
	doubt := errors.Is(err, errDoubt)
	if err != nil && !doubt {
		g.Fatalf("seed %d: %v", g.seed, err)
	}
	if decided && len(want) == 0 {
		return
	}
	var given []resourceapi.AllocationResult
	if decided {
		given = want
		g.seen["put with devices"]++
	}
	got, err := g.putOn(pod, handle, given)
	if err != nil {
		g.Fatalf("seed %d: %s on %s: %v", g.seed, pod.Name, node.Name, err)
	}
	if want == nil {
		g.seen["not put"]++
		if got.Placed != 0 || doubt != (got.Undecided > 0) || got.Unfit+got.Undecided != 1 {
			g.Fatalf("seed %d: %s on %s: simulated, %d are placed, %d undecided; step by step none is, doubt %t", g.seed, pod.Name, node.Name, got.Placed, got.Undecided, doubt)
		}
		return
	}
	g.seen["put"]++
	placements := slices.Collect(got.Placements())
	if !got.All() || len(placements) != 1 || placements[0].Node != handle || placements[0].Pod != pod {
		g.Fatalf("seed %d: %s on %s: simulated, it is on %v (%v)", g.seed, pod.Name, node.Name, nodesOf(placements), got.Err)
	}
	g.ref.keep(pod, node, claims, want)
	if len(want) == 0 {
		return
	}
	objects, err := placements[0].Claims(g.Context())
	if err != nil {
		g.Fatalf("seed %d: %v", g.seed, err)
	}
	allocated := make([]resourceapi.AllocationResult, len(objects))
	for k, claim := range objects {
		allocated[k] = *claim.Status.Allocation
	}
	sameResults(g.T, fmt.Sprintf("seed %d: %s put on %s", g.seed, pod.Name, node.Name), allocated, want)
}

// gpuResults is an allocation of GPUs of the pool of a node.
func gpuResults(node string, devices ...string) resourceapi.AllocationResult {
	var r resourceapi.AllocationResult
	for _, device := range devices {
		r.Devices.Results = append(r.Devices.Results, resourceapi.DeviceRequestAllocationResult{Request: "gpus", Driver: "gpu.example.com", Pool: node, Device: device})
	}
	return r
}

// A pod on a node of a template is told apart if it shares a claim.
func TestEvictFromNodeOfTemplate(t *testing.T) {
	c := gpuCluster("a")
	shared := &resourceapi.ResourceClaim{Spec: c.Templates[0].Spec.Spec}
	shared.Namespace, shared.Name = "default", "shared"
	c.Claims = append(c.Claims, shared)
	state := open(t, c, simulate.Options{})
	template, err := state.TemplateOf("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	sim := state.Sim()
	pods := gpuPods("three", 2)
	for _, pod := range pods {
		pod.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "gpus", ResourceClaimName: &shared.Name}
		if r, err := sim.Place(t.Context(), pod, simulate.New(template, 1), simulate.FirstFit); err != nil || !r.All() {
			t.Fatal(r, err)
		}
	}
	one := shapeOf(t, state, gpuPods("one", 1))
	for i, want := range []int{3, 4} {
		if err := sim.Evict(pods[i]); err != nil {
			t.Fatal(err)
		}
		if n := fit(t, sim.State(), one, simulate.Added(template)).Pods; n != want {
			t.Errorf("after %d evictions %d fit, want %d", i+1, n, want)
		}
	}
}

// Wrong input of Evict and Put is an error that names it, and changes nothing.
func TestEvictAndPutWrongInput(t *testing.T) {
	state := open(t, gpuCluster("a", "b"), simulate.Options{})
	sim := state.Sim()
	a, err := state.Node("a")
	if err != nil {
		t.Fatal(err)
	}
	pods := gpuPods("one", 4)
	if _, err := sim.Put(t.Context(), pods[0], a, gpuResults("a", "gpu-2")); err != nil {
		t.Fatal(err)
	}
	template, err := state.TemplateOf("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := sim.Place(t.Context(), pods[3], simulate.New(template, 1), simulate.FirstFit); err != nil || !r.All() {
		t.Fatal(r, err)
	}
	waits := pods[1].Namespace + "/" + pods[1].Name
	pods[2].UID = "two"
	if _, err := sim.Put(t.Context(), pods[2], a); err != nil {
		t.Fatal(err)
	}
	stranger := pods[2].DeepCopy()
	stranger.UID = "another"
	for _, test := range []struct {
		err  error
		want string
	}{
		{sim.Evict(nil), "a pod is nil"},
		{sim.Evict(pods[0], pods[1]), "pod " + waits + " is on no node"},
		{sim.Evict(pods[0], pods[0]), "pod " + pods[0].Namespace + "/" + pods[0].Name + " is on no node"},
		{sim.Evict(stranger), "pod " + stranger.Namespace + "/" + stranger.Name + " is on no node"},
		{sim.Evict(pods[3]), "pod " + pods[3].Namespace + "/" + pods[3].Name + " is on no node"},
		{second(sim.Put(t.Context(), nil, a)), "a pod is nil"},
		{second(sim.PutShape(t.Context(), nil, a)), "the shape is not one of State.Shapes"},
		{second(sim.Put(t.Context(), pods[1], simulate.Node{})), "node  does not exist"},
		{second(sim.Put(t.Context(), pods[1], a, gpuResults("a", "gpu-2"))), "pod " + waits + " on node a: allocation 0: result 0: device gpu.example.com/a/gpu-2 is in use"},
		{second(sim.Put(t.Context(), pods[1], a, gpuResults("a", "gpu-1", "gpu-1"))), "pod " + waits + " on node a: allocation 0: result 1: device gpu.example.com/a/gpu-1 is in use"},
		{second(sim.Put(t.Context(), pods[1], a, gpuResults("b", "gpu-1"))), "pod " + waits + " on node a: allocation 0: result 0: the node has no device gpu.example.com/b/gpu-1"},
		{second(sim.Put(t.Context(), pods[1], a, gpuResults("a", "gpu-1"), gpuResults("a", "gpu-0"))), "pod " + waits + " on node a: there are 2 allocations for 1 claims that are not allocated"},
	} {
		if test.err == nil || test.err.Error() != test.want {
			t.Errorf("got %v, want %s", test.err, test.want)
		}
	}
	one := shapeOf(t, state, gpuPods("one", 1))
	if n := fit(t, sim.State(), one, simulate.Real(nil)).Pods; n != 6 {
		t.Errorf("%d more fit, want 6 as before the errors", n)
	}
	if err := sim.Remove("b"); err != nil {
		t.Fatal(err)
	}
	b, err := state.Node("b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sim.Put(t.Context(), pods[1], b); err == nil || err.Error() != "node b does not exist" {
		t.Errorf("a node that is gone: %v", err)
	}
}

// A running pod with an extended resource gives devices and CPU back, a pod that is put counts as one that was placed.
func TestEvictExtendedResources(t *testing.T) {
	c := gpuCluster("a")
	c.Classes[0].Spec.ExtendedResourceName = ptr.To(gpuResource)
	c.Nodes[0].Status.Allocatable = cpus("2")
	running := resourcePod("runs", "3")
	running.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = cpus("2")[corev1.ResourceCPU]
	sim := open(t, c, simulate.Options{}).Sim()
	result, err := sim.Place(t.Context(), running, simulate.Real(nil), simulate.FirstFit)
	if err != nil || !result.All() {
		t.Fatalf("placed: %t, %v", result.All(), err)
	}
	placement := slices.Collect(result.Placements())[0]
	claims, err := placement.Claims(t.Context())
	if err != nil || len(claims) != 1 {
		t.Fatalf("claims: %d, %v", len(claims), err)
	}
	claim := claims[0]
	claim.Name = "runs-extended-resources"
	claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(running, corev1.SchemeGroupVersion.WithKind("Pod"))}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: running.Name}}
	c.Pods, c.Claims = []*corev1.Pod{running.DeepCopy()}, []*resourceapi.ResourceClaim{claim}
	c.Pods[0].Spec.NodeName = "a"
	c.Pods[0].Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: claim.Name}

	state := open(t, c, simulate.Options{})
	sim = state.Sim()
	waits := shapeOf(t, state, []*corev1.Pod{resourcePod("waits", "2")})
	check := func(when string, want int) {
		t.Helper()
		if n := fit(t, sim.State(), waits, simulate.Real(nil)).Pods; n != want {
			t.Errorf("%s %d fit, want %d", when, n, want)
		}
	}
	check("at first", 0)
	if err := sim.Evict(running); err != nil { // another object of the same name
		t.Fatal(err)
	}
	check("without the pod", 2)
	node, err := state.Node("a")
	if err != nil {
		t.Fatal(err)
	}
	sim.Fork()
	// CPU is the decision of others.
	for _, allocation := range []resourceapi.AllocationResult{gpuResults("a", "gpu-3"), gpuResults("a", "gpu-1")} {
		pod := resourcePod("put", "1")
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = cpus("2")[corev1.ResourceCPU]
		if r, err := sim.Put(t.Context(), pod, node, allocation); err != nil || !r.All() {
			t.Fatal(r, err)
		}
	}
	check("with two others", 1)
	if r, err := sim.Put(t.Context(), running, node); err != nil || r.Unfit != 1 {
		t.Errorf("without room, %d are unfit (%v)", r.Unfit, err)
	}
	sim.Revert()
	if r, err := sim.Put(t.Context(), running, node); err != nil || !r.All() {
		t.Errorf("%d are unfit (%v)", r.Unfit, err)
	}
	check("with the pod again", 0)
}

// Once the pods of a set that Victims found are evicted, the pod fits on the node.
func TestEvictVictims(t *testing.T) {
	state := open(t, gpuCluster("a", "b"), simulate.Options{})
	sim := state.Sim()
	if r, err := sim.PlaceMany(t.Context(), shapeOf(t, state, gpuPods("one", 8)), 8, simulate.Real(nil), simulate.FirstFit); err != nil || !r.All() {
		t.Fatal(r, err)
	}
	three := shapeOf(t, state, gpuPods("three", 1))
	sets, _, err := sim.State().Victims(t.Context(), three, simulate.Real(nil), func(*corev1.Pod) float64 { return 1 }, 2)
	if err != nil || len(sets) != 2 {
		t.Fatal(sets, err)
	}
	for _, set := range sets {
		if err := sim.Evict(set.Pods...); err != nil {
			t.Fatal(err)
		}
		if r, err := sim.Put(t.Context(), three.Pods[0], set.Node); err != nil || !r.All() {
			t.Errorf("after %d pods left node %s: %d are unfit, %v", len(set.Pods), set.Node.Name(), r.Unfit, err)
		}
	}
	if n := fit(t, sim.State(), shapeOf(t, state, gpuPods("one", 1)), simulate.Real(nil)).Pods; n != 0 {
		t.Errorf("%d more fit, want none", n)
	}
}

// A claim that was put with devices of a node can be used there alone, whatever its allocation says.
func TestPutBindsSharedClaim(t *testing.T) {
	for _, admin := range []bool{false, true} {
		c := gpuCluster("a", "b")
		shared := &resourceapi.ResourceClaim{Spec: c.Templates[0].Spec.Spec}
		shared.Namespace, shared.Name = "default", "shared"
		if admin {
			shared.Spec.Devices.Requests[0].Exactly.AdminAccess = ptr.To(true)
		}
		c.Claims = append(c.Claims, shared)
		state := open(t, c, simulate.Options{})
		sim, pods := state.Sim(), gpuPods("one", 2)
		for _, pod := range pods {
			pod.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "gpus", ResourceClaimName: &shared.Name}
		}
		result := gpuResults("a", "gpu-0")
		result.Devices.Results[0].AdminAccess = shared.Spec.Devices.Requests[0].Exactly.AdminAccess
		if _, err := sim.Put(t.Context(), pods[0], nodeOf(t, state, "a"), result); err != nil {
			t.Fatal(err)
		}
		for node, want := range map[string]bool{"a": true, "b": false} {
			sim.Fork()
			if r, err := sim.Put(t.Context(), pods[1], nodeOf(t, state, node)); err != nil || r.All() != want {
				t.Errorf("admin access %v: the second pod on %s: %v (%v), want %v", admin, node, r.All(), err, want)
			}
			sim.Revert()
		}
	}
}

// With access for administration nothing is in use. Shares leave room for shares, and no more than whole devices do without
// the feature. What cannot be shared any more is had as a whole besides shares, as allocations have it.
func TestPutShares(t *testing.T) {
	const admin, share = "admin", "share"
	for _, test := range []struct {
		first, second string
		without       bool // the feature
		anyMore       bool // the devices cannot be shared any more
		want          bool
	}{
		{first: "", second: ""}, {first: admin, second: "", want: true}, {first: "", second: admin, want: true},
		{first: share, second: share, want: true}, {first: share, second: ""}, {first: "", second: share},
		{first: share, second: share, without: true}, {first: admin, second: share, without: true, want: true},
		{first: share, second: "", anyMore: true, want: true}, {first: "", second: share, anyMore: true}, {first: "", second: "", anyMore: true},
		{first: share, second: "", anyMore: true, without: true},
	} {
		for _, several := range []bool{false, true} { // nodes have the pool
			c := gpuCluster("a")
			for i := range c.Slices[0].Spec.Devices {
				c.Slices[0].Spec.Devices[i].AllowMultipleAllocations = ptr.To(!test.anyMore)
			}
			if several {
				c.Slices[0].Spec.NodeName, c.Slices[0].Spec.AllNodes = nil, ptr.To(true)
			}
			features := allocator.AllFeatures()
			features.ConsumableCapacity = !test.without
			state, err := simulate.Open(c, simulate.Options{Features: features})
			if err != nil {
				t.Fatal(err)
			}
			sim, pods := state.Sim(), gpuPods("one", 2)
			for i, kind := range []string{test.first, test.second} {
				result := gpuResults("a", "gpu-0")
				switch held := &result.Devices.Results[0]; kind {
				case admin:
					held.AdminAccess = ptr.To(true)
				case share:
					held.ShareID = ptr.To(types.UID(fmt.Sprintf("00000000-0000-4000-8000-00000000000%d", i)))
				}
				_, err = sim.Put(t.Context(), pods[i], nodeOf(t, state, "a"), result)
				if i == 0 && err != nil {
					t.Fatal(err)
				}
			}
			if (err == nil) != test.want {
				t.Errorf("%+v, pool of several nodes: %t: %v", test, several, err)
			}
		}
	}
}

// One allocation cannot have a device twice, nor can two allocations of a pod have it.
func TestPutDeviceTwice(t *testing.T) {
	for _, several := range []bool{false, true} { // nodes have the pool
		c := gpuCluster("a")
		if several {
			c.Slices[0].Spec.NodeName, c.Slices[0].Spec.AllNodes = nil, ptr.To(true)
		}
		state := open(t, c, simulate.Options{})
		pod := gpuPods("two", 1)[0]
		one := gpuResults("a", "gpu-0", "gpu-0")
		_, err := state.Sim().Put(t.Context(), pod, nodeOf(t, state, "a"), one)
		if err == nil || !strings.Contains(err.Error(), "allocation 0: result 1: device gpu.example.com/a/gpu-0 is in use") {
			t.Errorf("pool of several nodes: %t: one allocation: %v", several, err)
		}
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "more", ResourceClaimTemplateName: ptr.To("one")})
		_, err = state.Sim().Put(t.Context(), pod, nodeOf(t, state, "a"), gpuResults("a", "gpu-0", "gpu-1"), gpuResults("a", "gpu-1"))
		if err == nil || !strings.Contains(err.Error(), "allocation 1: result 0: device gpu.example.com/a/gpu-1 is in use") {
			t.Errorf("pool of several nodes: %t: two allocations: %v", several, err)
		}
	}
}

// After a merge a pod that the other Sim evicted is on no node. It is a conflict if both did.
func TestMergeEvictions(t *testing.T) {
	state := open(t, gpuCluster("a"), simulate.Options{})
	sim, pods := state.Sim(), gpuPods("one", 2)
	for _, pod := range pods {
		pod.Spec.ResourceClaims = nil // Sims that change one pool do not merge
		if _, err := sim.Put(t.Context(), pod, nodeOf(t, state, "a")); err != nil {
			t.Fatal(err)
		}
	}
	state = sim.State()
	mine, other, third := state.Sim(), state.Sim(), state.Sim()
	for sim, pod := range map[*simulate.Sim]*corev1.Pod{mine: pods[0], other: pods[1], third: pods[0]} {
		if err := sim.Evict(pod); err != nil {
			t.Fatal(err)
		}
	}
	var conflict *simulate.ConflictError
	if err := mine.Merge(third); !errors.As(err, &conflict) {
		t.Errorf("both evicted the same pod: %v", err)
	}
	if err := mine.Merge(other); err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		if err := mine.Evict(pod); err == nil {
			t.Errorf("pod %s is still there after the merge", pod.Name)
		}
	}
}

// NodeOf identifies pods by the same rules as Evict.
func TestNodeOf(t *testing.T) {
	sim := open(t, gpuCluster("a", "b"), simulate.Options{}).Sim()
	pods := gpuPods("three", 3)
	for i, pod := range pods[:2] {
		pod.UID = "first"
		if r, err := sim.Place(t.Context(), pod, simulate.Real(nil), simulate.FirstFit); err != nil || !r.All() {
			t.Fatal(r, err)
		}
		if node, found := sim.NodeOf(pod); !found || node.Name() != []string{"a", "b"}[i] {
			t.Errorf("pod %d is on %q (%t)", i, node.Name(), found)
		}
	}
	another := pods[0].DeepCopy()
	another.UID = "another"
	if err := sim.Evict(pods[1]); err != nil {
		t.Fatal(err)
	}
	for what, pod := range map[string]*corev1.Pod{"nil": nil, "of another UID": another, "evicted": pods[1], "never placed": pods[2]} {
		if node, found := sim.NodeOf(pod); found {
			t.Errorf("a pod that is %s is on %s", what, node.Name())
		}
	}
}

// A shape of an earlier State is resolved again. It stands for its first pod, and a cancelled call changes nothing.
func TestPutShapeOfAnotherState(t *testing.T) {
	c := gpuCluster("a")
	state := open(t, c, simulate.Options{})
	pods := gpuPods("one", 2)
	shapes, err := state.Shapes(pods)
	if err != nil {
		t.Fatal(err)
	}
	c.Templates = []*resourceapi.ResourceClaimTemplate{gpuTemplate("one", 2)}
	later := open(t, c, simulate.Options{})
	on, err := later.Node("a")
	if err != nil {
		t.Fatal(err)
	}
	sim := later.Sim()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sim.PutShape(ctx, shapes[0], on); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, found := sim.NodeOf(pods[0]); found {
		t.Error("a cancelled call put the pod somewhere")
	}
	result, err := sim.PutShape(t.Context(), shapes[0], on)
	if at, found := sim.NodeOf(pods[0]); err != nil || !result.All() || !found || at != on {
		t.Errorf("%+v, %v; the pod is on %v, %v", result, err, at, found)
	}
	free := 0
	for _, use := range sim.State().Devices(on) {
		if use.Free {
			free++
		}
	}
	if free != 2 {
		t.Errorf("%d of 4 devices are free; by the template of the later State, 2 are in use", free)
	}
	if _, found := sim.NodeOf(pods[1]); found {
		t.Error("the second pod of the shape is on a node, too")
	}
}
