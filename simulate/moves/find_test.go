// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/internal/dev/ending"
	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/moves"
)

// gpuCluster has nodes with some GPUs each, and templates "1" to "4", and "8", for as many of them.
func gpuCluster(gpus ...int) simulate.Cluster {
	class := &resourceapi.DeviceClass{}
	class.Name = "gpu"
	c := simulate.Cluster{Classes: []*resourceapi.DeviceClass{class}}
	for i, count := range gpus {
		node := &corev1.Node{}
		node.Name = fmt.Sprintf("node-%d", i)
		slice := &resourceapi.ResourceSlice{}
		slice.Name = node.Name
		slice.Spec = resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &node.Name, Pool: resourceapi.ResourcePool{Name: node.Name, Generation: 1, ResourceSliceCount: 1},
		}
		for g := range count {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", g)})
		}
		c.Nodes, c.Slices = append(c.Nodes, node), append(c.Slices, slice)
	}
	for _, count := range []int64{1, 2, 3, 4, 8} {
		template := &resourceapi.ResourceClaimTemplate{}
		template.Namespace, template.Name = "default", fmt.Sprint(count)
		template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpus", Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
		}}}
		c.Templates = append(c.Templates, template)
	}
	return c
}

// gpuPod wants a number of GPUs.
func gpuPod(name string, gpus int) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "default", name
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: ptr.To(fmt.Sprint(gpus))}}
	return pod
}

func names(c *simulate.Cluster) (list []string) {
	for _, node := range c.Nodes {
		list = append(list, node.Name)
	}
	return list
}

// lab is a cluster of objects, which is read anew for each question.
type lab struct {
	*testing.T
	simulate.Cluster
	// fails are positions from which it is known that there is no way.
	fails map[string]bool
	// end is what has to hold once all pods have moved, if it is not nil.
	end    func(*lab) bool
	limits []moves.Limit
}

func (l *lab) clone() *lab {
	again := *l
	again.Pods, again.Claims = slices.Clone(l.Pods), slices.Clone(l.Claims)
	return &again
}

func (l *lab) open() *simulate.State {
	l.Helper()
	state, err := simulate.Open(l.Cluster, simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		l.Fatal(err)
	}
	return state
}

// place lets a pod run on a node, and reports whether it fits there.
func (l *lab) place(pod *corev1.Pod, node string) bool {
	l.Helper()
	on := simulate.Real(func(n *corev1.Node) bool { return n.Name == node })
	pod = pod.DeepCopy()
	pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{}
	result, err := l.open().Sim().Place(l.Context(), pod, on, simulate.FirstFit)
	if err != nil {
		l.Fatal(err)
	}
	for placement := range result.Placements() {
		claims, err := placement.Claims(l.Context())
		if err != nil || len(claims) != 1 {
			l.Fatalf("%d claims, %v", len(claims), err)
		}
		claim := claims[0]
		pod.Spec.NodeName, claim.Namespace, claim.Name = node, pod.Namespace, pod.Name+"-gpus"
		pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpus", ResourceClaimName: &claim.Name}}
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
		l.Pods, l.Claims = append(l.Pods, pod), append(l.Claims, claim)
	}
	return result.All()
}

// evict takes a pod away, with its claim.
func (l *lab) evict(name string) {
	l.Pods = slices.DeleteFunc(l.Pods, func(pod *corev1.Pod) bool { return pod.Name == name })
	l.Claims = slices.DeleteFunc(l.Claims, func(claim *resourceapi.ResourceClaim) bool { return claim.Name == name+"-gpus" })
}

// nodeOf is the node of a pod, or empty if it has none.
func (l *lab) nodeOf(name string) string {
	i := slices.IndexFunc(l.Pods, func(pod *corev1.Pod) bool { return pod.Name == name })
	if i < 0 {
		return ""
	}
	return l.Pods[i].Spec.NodeName
}

// position is where all pods are, with which devices.
func (l *lab) position() string {
	var list []string
	for i, pod := range l.Pods {
		list = append(list, pod.Name+" "+pod.Spec.NodeName)
		for _, result := range l.Claims[i].Status.Allocation.Devices.Results {
			list[i] += " " + result.Device
		}
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

// reaches reports whether all pods get a place, in any order and on any nodes, with so much room.
func (l *lab) reaches(old, out, wanted []*corev1.Pod, room, allowed int) bool {
	key := fmt.Sprint(l.position(), len(wanted), room)
	for _, pod := range old {
		key += " " + pod.Name
	}
	if l.fails[key] {
		return false
	}
	if l.reachesAnew(old, out, wanted, room, allowed) {
		return true
	}
	l.fails[key] = true
	return false
}

func (l *lab) reachesAnew(old, out, wanted []*corev1.Pod, room, allowed int) bool {
	if len(old)+len(out) == 0 {
		if len(wanted) == 0 {
			return l.end == nil || l.end(l)
		}
		for _, node := range names(&l.Cluster) {
			if next := l.clone(); next.place(wanted[0], node) && next.reaches(nil, nil, wanted[1:], room, allowed) {
				return true
			}
		}
		return false
	}
	without := func(list []*corev1.Pod, i int) []*corev1.Pod { return slices.Concat(list[:i], list[i+1:]) }
	for i, pod := range out {
		for _, node := range names(&l.Cluster) {
			if next := l.clone(); next.place(pod, node) && next.reaches(old, without(out, i), wanted, room, allowed) {
				return true
			}
		}
	}
	for i, pod := range old {
		if len(out)+1 > allowed {
			continue
		}
		gone := l.clone()
		gone.evict(pod.Name)
		for _, node := range names(&l.Cluster) {
			if next := gone.clone(); next.place(pod, node) && next.reaches(without(old, i), out, wanted, room, allowed) {
				return true
			}
		}
		if len(out) < room && gone.reaches(without(old, i), append(slices.Clone(out), pod), wanted, room, allowed) {
			return true
		}
	}
	return false
}

// cheapest enumerates all sets of pods.
func (l *lab) cheapest(wanted []*corev1.Pod, cost func(*corev1.Pod) float64, allowed int) (least float64, room int) {
	least = math.Inf(1)
	for members := range 1 << len(l.Pods) {
		var set []*corev1.Pod
		total := 0.0
		for i, pod := range l.Pods {
			if members>>i&1 == 1 {
				set, total = append(set, pod), total+cost(pod)
			}
		}
		if total > least {
			continue
		}
		for k := range bits.OnesCount(uint(members)) + 1 {
			l.fails = make(map[string]bool)
			if (total < least || k < room) && l.reaches(set, nil, wanted, k, allowed) {
				least, room = total, k
				break
			}
		}
	}
	return least, room
}

// A plan costs as little, and needs as little room, as that of all sets of pods, all orders and all nodes that needs least.
func TestFindLikeEnumeration(t *testing.T) {
	seen := make(map[string]int)
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 2))
		gpus := []int{2 + random.IntN(3), 2 + random.IntN(3), random.IntN(3)}
		l := &lab{T: t, Cluster: gpuCluster(gpus...)}
		free := gpus[0] + gpus[1] + gpus[2]
		for i := range 3 + random.IntN(4)/3 {
			if size := 1 + random.IntN(3); l.place(gpuPod(fmt.Sprintf("runs-%d", i), size), fmt.Sprintf("node-%d", random.IntN(3))) {
				free -= size
			}
		}
		costs := make(map[string]float64)
		for i, pod := range l.Pods {
			if costs[pod.Name] = float64(1 + random.IntN(3)); i == 0 && random.IntN(4) == 0 {
				costs[pod.Name] = math.Inf(1)
			}
		}
		cost := func(pod *corev1.Pod) float64 { return costs[pod.Name] }
		wanted := []*corev1.Pod{gpuPod("wanted-0", min(max(1, free), 4)), gpuPod("wanted-1", 1)}[:1+random.IntN(4)/3]
		q := moves.Question{Wanted: wanted, Nodes: names(&l.Cluster), Cost: cost, Attempts: 1 << 21}
		allowed := len(l.Pods)
		if random.IntN(3) == 0 {
			allowed = random.IntN(3)
			q.Limits = []moves.Limit{{Pods: l.Pods, Out: allowed}}
		}
		plan, err := moves.Find(t.Context(), l.open(), q)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		least, room := l.cheapest(wanted, cost, allowed)
		if !plan.Exact() || plan.Possible != !math.IsInf(least, 1) || plan.Possible && (plan.Cost != least || plan.Bound != least || plan.Room != room) {
			t.Fatalf("seed %d: possible %t, costs %v, at least %v, room for %d; by enumeration it costs %v with room for %d", seed, plan.Possible, plan.Cost, plan.Bound, plan.Room, least, room)
		}
		for _, few := range []moves.Question{{Sets: 1, Attempts: q.Attempts}, {Attempts: 1 + int(seed%5)}} {
			few.Wanted, few.Nodes, few.Cost, few.Limits = q.Wanted, q.Nodes, q.Cost, q.Limits
			bounded, err := moves.Find(t.Context(), l.open(), few)
			if err != nil || bounded.Bound > least || bounded.Possible && bounded.Cost < least {
				t.Fatalf("seed %d: bounded, possible %t, it costs %v, at least %v, %v; by enumeration it is %v", seed, bounded.Possible, bounded.Cost, bounded.Bound, err, least)
			}
			if !bounded.Exact() {
				seen["bounded"]++
			}
		}
		if plan.Possible {
			l.replay(seed, plan, wanted, seen)
		} else {
			seen["impossible"]++
		}
	}
	for _, kind := range []string{"impossible", "nothing to do", "one move", "several moves", "bounded"} {
		if seen[kind] == 0 {
			t.Errorf("no question had: %s; seen: %v", kind, seen)
		}
	}
}

// replay does what a plan says, step by step, and expects the devices of each pod.
func (l *lab) replay(seed uint64, plan *moves.Plan, wanted []*corev1.Pod, seen map[string]int) {
	if !plan.Possible {
		return
	}
	out := 0
	for i := range plan.Steps {
		step := &plan.Steps[i]
		if on := l.nodeOf(step.Pod.Name); on != step.From.Name() {
			l.Fatalf("seed %d: step %d: pod %s is on node %q, want %q", seed, i, step.Pod.Name, on, step.From.Name())
		}
		if out--; !step.Returns() {
			l.evict(step.Pod.Name)
			out++
		}
		if step.Leaves() {
			out++
			seen["room"]++
			continue
		}
		if !l.place(step.Pod, step.To.Name()) {
			l.Fatalf("seed %d: step %d: pod %s does not fit on %s", seed, i, step.Pod.Name, step.To.Name())
		}
		got, want := step.Claims[0].Status.Allocation.Devices.Results, l.Claims[len(l.Claims)-1].Status.Allocation.Devices.Results
		if len(got) != len(want) || got[0].Device != want[0].Device {
			l.Fatalf("seed %d: step %d: devices %v, want %v", seed, i, got, want)
		}
		if out > plan.Room {
			l.Fatalf("seed %d: step %d: %d pods have no place, the plan needs room for %d", seed, i, out, plan.Room)
		}
	}
	for i, pod := range wanted {
		if node := plan.Places[i].Node.Name(); !l.place(pod, node) {
			l.Fatalf("seed %d: pod %s does not fit on %s", seed, pod.Name, node)
		}
	}
	switch len(plan.Pods) {
	case 0:
		seen["nothing to do"]++
	case 1:
		seen["one move"]++
	default:
		seen["several moves"]++
	}
}

// Two pods that have to change places need room for one of them, and a limit that lets both have no place at the same time.
func TestFindNeedsRoom(t *testing.T) {
	for out, possible := range map[int]bool{0: false, 1: false, 2: true} {
		l := &lab{T: t, Cluster: gpuCluster(4, 3)}
		l.place(gpuPod("three", 3), "node-0")
		l.place(gpuPod("two", 2), "node-1")
		wanted := []*corev1.Pod{gpuPod("wanted", 2)}
		plan, err := moves.Find(t.Context(), l.open(), moves.Question{Wanted: wanted, Nodes: names(&l.Cluster), Limits: []moves.Limit{{Pods: l.Pods, Out: out}}})
		if err != nil || plan.Possible != possible || !plan.Exact() || possible && (plan.Room != 1 || len(plan.Steps) != 3) {
			t.Fatalf("with %d out: %+v, %v; want a plan: %t, with room for one, in three steps", out, plan, err, possible)
		}
		seen := make(map[string]int)
		if l.replay(0, plan, wanted, seen); possible && seen["room"] != 1 {
			t.Errorf("seen: %v", seen)
		}
	}
}

// Nor is room forgotten where one set of pods may be looked at only: what a pod's move causes is followed then.
func TestChainsNeedRoom(t *testing.T) {
	for out, possible := range map[int]bool{0: false, 1: false, 2: true} {
		l := &lab{T: t, Cluster: gpuCluster(4, 3)}
		l.place(gpuPod("three", 3), "node-0")
		l.place(gpuPod("two", 2), "node-1")
		wanted := []*corev1.Pod{gpuPod("wanted", 2)}
		plan, err := moves.Find(t.Context(), l.open(), moves.Question{Wanted: wanted, Nodes: names(&l.Cluster), Limits: []moves.Limit{{Pods: l.Pods, Out: out}}, Sets: 1})
		if err != nil || plan.Possible != possible || possible && (plan.Cost != 2 || plan.Room != 1 || len(plan.Steps) != 3) {
			t.Fatalf("with %d out: %+v, %v; want a plan: %t, with room for one, in three steps", out, plan, err, possible)
		}
		l.replay(0, plan, wanted, make(map[string]int))
	}
}

// Of plans that cost the same, the one that needs the least room is taken, whichever is found first.
func TestFindTakesTheLeastRoom(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		// The two large pods can change places, or the two small ones can go where one GPU is free.
		l := &lab{T: t, Cluster: gpuCluster(5, 4, 3)}
		l.place(gpuPod("four", 4), "node-0")
		l.place(gpuPod("two", 2), "node-1")
		l.place(gpuPod("small-0", 1), "node-2")
		l.place(gpuPod("small-1", 1), "node-2")
		nodes := names(&l.Cluster)
		if reverse {
			slices.Reverse(nodes)
		}
		wanted := []*corev1.Pod{gpuPod("wanted", 3)}
		plan, err := moves.Find(t.Context(), l.open(), moves.Question{Wanted: wanted, Nodes: nodes})
		if err != nil || !plan.Exact() || plan.Cost != 2 || plan.Room != 0 || !strings.HasPrefix(plan.Pods[0].Name, "small") {
			t.Errorf("reverse %v: %+v, %v; want the small pods to move", reverse, plan, err)
		}
		stay := func(pod *corev1.Pod) float64 {
			if strings.HasPrefix(pod.Name, "small") {
				return math.Inf(1)
			}
			return 1
		}
		plan, err = moves.Find(t.Context(), l.open(), moves.Question{Wanted: wanted, Nodes: nodes, Cost: stay})
		if err != nil || !plan.Exact() || plan.Cost != 2 || plan.Room != 1 {
			t.Errorf("reverse %v: %+v, %v; want the large pods to change places", reverse, plan, err)
		}
	}
}

// scattered has one GPU free on each of two nodes, and two on a third one.
func scattered(t *testing.T) *lab {
	l := &lab{T: t, Cluster: gpuCluster(4, 4, 4)}
	for i, gpus := range []int{3, 2, 3} {
		for k := range gpus {
			l.place(gpuPod(fmt.Sprintf("runs-%d-%d", i, k), 1), fmt.Sprintf("node-%d", i))
		}
	}
	return l
}

// A node is undecided for the wanted pod, because of an error. A pod can move there from the other node, and make room. If no pod may
// move, there is no plan, and no proof that there is none.
func TestFindWithAnUndecidedNode(t *testing.T) {
	for _, cost := range []float64{1, math.Inf(1)} {
		l := &lab{T: t, Cluster: gpuCluster(1, 1)}
		l.Slices[0].Spec.Devices[0].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"size": {IntValue: ptr.To(int64(1))}}
		sized := l.Templates[0].DeepCopy()
		sized.Name = "sized"
		// It is an error on node-1, whose device has no size.
		sized.Spec.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].size == 1`}}}
		l.Templates = append(l.Templates, sized)
		l.place(gpuPod("any", 1), "node-0")
		wanted := gpuPod("wanted", 1)
		wanted.Spec.ResourceClaims[0].ResourceClaimTemplateName = ptr.To("sized")
		q := moves.Question{Wanted: []*corev1.Pod{wanted}, Nodes: names(&l.Cluster), Cost: func(*corev1.Pod) float64 { return cost }}
		plan, err := moves.Find(t.Context(), l.open(), q)
		if possible := cost == 1; err != nil || plan.Possible != possible || possible && plan.Cost != 1 || !possible && plan.Exact() {
			t.Errorf("to move a pod costs %v: %+v, %v", cost, plan, err)
		}
	}
}

// A search that is bounded says what a cheaper plan would cost at least.
func TestFindWithinBounds(t *testing.T) {
	l := scattered(t)
	for name, test := range map[string]struct {
		q     moves.Question
		bound float64
		exact bool
	}{
		"enough":        {moves.Question{}, 2, true},
		"one set":       {moves.Question{Sets: 1}, 2, true}, // the prices say so
		"some attempts": {moves.Question{Attempts: 6}, 2, true},
	} {
		test.q.Wanted, test.q.Nodes = []*corev1.Pod{gpuPod("wanted", 4)}, names(&l.Cluster)
		plan, err := moves.Find(t.Context(), l.open(), test.q)
		if err != nil || !plan.Possible || plan.Cost != 2 || plan.Bound != test.bound || plan.Exact() != test.exact {
			t.Errorf("%s: %+v, %v; want one that costs 2, at least %v, exact: %t", name, plan, err, test.bound, test.exact)
		}
	}
	plan, err := moves.Find(t.Context(), l.open(), moves.Question{Wanted: []*corev1.Pod{gpuPod("wanted", 4)}, Nodes: names(&l.Cluster), Attempts: 1})
	if err != nil || plan.Possible || plan.Exact() || plan.Bound > 2 {
		t.Errorf("with one attempt: %+v, %v; want no plan, and no proof that there is none below 2", plan, err)
	}
}

// A search that may look at few sets tries other victims than the cheapest, if these have no place to go, for the first wanted
// pod that has no place; the others have their cheapest.
func TestFindTriesOtherVictims(t *testing.T) {
	l := &lab{T: t, Cluster: gpuCluster(4, 4, 4, 4)}
	in := func(pod *corev1.Pod, pool string) *corev1.Pod {
		pod.Spec.NodeSelector = map[string]string{"pool": pool}
		return pod
	}
	for i, pool := range []string{"a", "a", "b", "spare"} {
		l.Nodes[i].Labels = map[string]string{"pool": pool}
	}
	l.place(in(gpuPod("stays", 3), "a"), "node-0")
	l.place(gpuPod("moves-0", 1), "node-1")
	l.place(gpuPod("moves-1", 1), "node-1")
	l.place(gpuPod("moves-2", 1), "node-2")
	wanted := []*corev1.Pod{in(gpuPod("fits", 1), "spare"), in(gpuPod("wanted-0", 4), "a"), in(gpuPod("wanted-1", 4), "b")}
	plan, err := moves.Find(t.Context(), l.open(), moves.Question{Wanted: wanted, Nodes: names(&l.Cluster), Sets: 1})
	if err != nil || !plan.Possible || plan.Cost != 3 || plan.Exact() {
		t.Fatalf("%+v, %v; want one that costs 3, and may not be the cheapest", plan, err)
	}
	l.replay(0, plan, wanted, make(map[string]int))
}

// Pods with a prioritized list of requests move, and have room made for them, like others.
func TestFindWithPrioritizedLists(t *testing.T) {
	l := &lab{T: t, Cluster: gpuCluster(4, 4)}
	list := l.Templates[0].DeepCopy()
	list.Name = "list"
	list.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpus", FirstAvailable: []resourceapi.DeviceSubRequest{
		{Name: "two", DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 2},
		{Name: "one", DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
	}}}
	l.Templates = append(l.Templates, list)
	pod := func(name string) *corev1.Pod {
		pod := gpuPod(name, 1)
		pod.Spec.ResourceClaims[0].ResourceClaimTemplateName = &list.Name
		return pod
	}
	l.place(pod("runs-0"), "node-0")
	l.place(pod("runs-1"), "node-1")
	plan, err := moves.Find(t.Context(), l.open(), moves.Question{Nodes: names(&l.Cluster), Wanted: []*corev1.Pod{gpuPod("four", 4)}})
	if err != nil || !plan.Possible || plan.Cost != 1 {
		t.Errorf("room for four GPUs: %t, for %v, %v; want it after one move", plan.Possible, plan.Cost, err)
	}
	plan, err = moves.Find(t.Context(), l.open(), moves.Question{Nodes: names(&l.Cluster), Wanted: []*corev1.Pod{gpuPod("three", 3), pod("wanted")}})
	if err != nil || !plan.Possible || plan.Cost != 1 {
		t.Errorf("room for three GPUs and one or two: %t, for %v, %v; want it after one move", plan.Possible, plan.Cost, err)
	}
	freeing, err := moves.Free(t.Context(), l.open(), moves.Nodes, moves.Question{Nodes: names(&l.Cluster)})
	if err != nil || freeing.After != 1 || freeing.Cost != 1 {
		t.Errorf("%d nodes are empty, for %v, %v; want one after one move", freeing.After, freeing.Cost, err)
	}
}

// What cannot be asked is an error.
func TestFindRefuses(t *testing.T) {
	l := scattered(t)
	strange := gpuPod("strange", 9)
	for text, q := range map[string]moves.Question{
		"a wanted pod is nil":   {Wanted: []*corev1.Pod{nil}},
		"node x does not exist": {Nodes: []string{"x"}},
		"wanted: ":              {Wanted: []*corev1.Pod{strange}},
	} {
		if _, err := moves.Find(t.Context(), l.open(), q); err == nil || !strings.HasPrefix(err.Error(), text) {
			t.Errorf("got %v, want %s", err, text)
		}
	}
}

// Both questions end with the context, and say why.
func TestCancelled(t *testing.T) {
	l := scattered(t)
	why := errors.New("no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	q := moves.Question{Wanted: []*corev1.Pod{gpuPod("wanted", 4)}, Nodes: names(&l.Cluster)}
	if _, err := moves.Find(ctx, l.open(), q); !errors.Is(err, why) {
		t.Errorf("Find: %v", err)
	}
	for _, goal := range []moves.Goal{moves.Nodes, moves.WholeDevices} {
		if _, err := moves.Free(ctx, l.open(), goal, moves.Question{Nodes: q.Nodes}); !errors.Is(err, why) {
			t.Errorf("Free %v: %v", goal, err)
		}
	}
}

// Whatever a question is at when its context ends, it ends, too.
func TestEndsAnywhere(t *testing.T) {
	ended := 0
	for seed := range uint64(24) {
		ended += ending.Anywhere(t, func(ctx context.Context) (string, error) {
			m := newMixed(seed + 5000)
			empty, sim, pods := m.filled(t)
			state, q := m.question(t, empty, sim, pods)
			if goal := seed % 4; goal < 2 {
				plan, err := moves.Free(ctx, state, []moves.Goal{moves.Nodes, moves.WholeDevices}[goal], q)
				if err != nil {
					return "", err
				}
				return fmt.Sprint(plan.Before, plan.After, plan.Most, plan.Cost, len(plan.Steps)), nil
			}
			q.Gang = seed%8 == 2
			plan, err := moves.Find(ctx, state, q)
			if err != nil {
				return "", err
			}
			return fmt.Sprint(plan.Possible, plan.Exact(), plan.Cost, plan.Room, len(plan.Steps)), nil
		})
	}
	if ended < 500 {
		t.Errorf("only %d questions ended early", ended)
	}
}

// shares is a pod with CPU that uses a claim by name.
func shares(name string, claim *resourceapi.ResourceClaim, cpu string) *corev1.Pod {
	pod := gpuPod(name, 1)
	pod.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "gpus", ResourceClaimName: &claim.Name}
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
	return pod
}

// addShared adds a claim that pods share, and gives CPU to nodes.
func (l *lab) addShared(cpu ...string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{Spec: l.Templates[0].Spec.Spec}
	claim.Namespace, claim.Name = "default", "shared"
	l.Claims = append(l.Claims, claim)
	for i, cpu := range cpu {
		l.Nodes[i].Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	return claim
}

// findOne wants a plan that costs 1.
func (l *lab) findOne(state *simulate.State, wanted ...*corev1.Pod) {
	l.Helper()
	plan, err := moves.Find(l.Context(), state, moves.Question{Wanted: wanted, Nodes: names(&l.Cluster)})
	if err != nil || !plan.Possible || plan.Cost != 1 || plan.Bound > 1 {
		l.Errorf("possible %t, costs %v, at least %v, %v; want one that costs 1", plan.Possible, plan.Cost, plan.Bound, err)
	}
}

// Wanted pods that share a claim need its devices once: a bound does not count them for each pod.
func TestWantedPodsShareClaim(t *testing.T) {
	l := &lab{T: t, Cluster: gpuCluster(2, 1)}
	l.mustPlace(gpuPod("a", 1), 0)
	l.mustPlace(gpuPod("b", 1), 0)
	claim := l.addShared("2", "1") // only the first node has CPU for both
	l.findOne(l.open(), shares("c", claim, "1"), shares("d", claim, "1"))
}

// So they do if the claim is made from a template of their PodGroup.
func TestWantedPodsShareClaimOfGroup(t *testing.T) {
	l := &lab{T: t, Cluster: gpuCluster(2, 1)}
	l.mustPlace(gpuPod("a", 1), 0)
	l.mustPlace(gpuPod("b", 1), 0)
	l.addShared("2", "1") // only the first node has CPU for both
	group := &schedulingapi.PodGroup{}
	group.Namespace, group.Name = "default", "group"
	var wanted []*corev1.Pod
	for _, name := range []string{"c", "d"} {
		pod := shares(name, l.Claims[0], "1")
		pod.Spec.ResourceClaims = gpuPod(name, 1).Spec.ResourceClaims
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group.Name}
		wanted = append(wanted, pod)
	}
	of := wanted[0].Spec.ResourceClaims[0]
	group.Spec.ResourceClaims = []schedulingapi.PodGroupResourceClaim{{Name: of.Name, ResourceClaimTemplateName: of.ResourceClaimTemplateName}}
	l.PodGroups = append(l.PodGroups, group)
	l.findOne(l.open(), wanted...)
}

// The claim of the wanted pods goes with the pod that moves, to a node where there is CPU for all of them. The first node has CPU for one.
func TestClaimMovesWithItsPod(t *testing.T) {
	l := &lab{T: t, Cluster: gpuCluster(2, 2)}
	claim := l.addShared("3", "7")
	sim := l.open().Sim()
	node, err := sim.State().Node("node-0")
	if err != nil {
		t.Fatal(err)
	}
	if r, err := sim.Put(t.Context(), shares("a", claim, "0"), node); err != nil || !r.All() {
		t.Fatal(r, err)
	}
	l.findOne(sim.State(), shares("b", claim, "2"), shares("c", claim, "2"))
}
