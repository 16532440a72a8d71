// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/moves"
)

// divide makes the GPUs of a cluster ones with two halves each, and "half" a template for one of these.
func divide(c *simulate.Cluster) {
	amount := func(n int64) map[string]resourceapi.Counter {
		return map[string]resourceapi.Counter{"halves": {Value: *resource.NewQuantity(n, resource.DecimalSI)}}
	}
	for _, slice := range slices.Clone(c.Slices) {
		counters := slice.DeepCopy()
		counters.Name, counters.Spec.Devices = slice.Name+"-counters", nil
		var devices []resourceapi.Device
		for i, gpu := range slice.Spec.Devices {
			set := fmt.Sprintf("set-%d", i)
			counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourceapi.CounterSet{Name: set, Counters: amount(2)})
			draw := func(n int64) []resourceapi.DeviceCounterConsumption {
				return []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: amount(n)}}
			}
			devices = append(devices, resourceapi.Device{Name: gpu.Name, ConsumesCounters: draw(2)})
			for k := range 2 {
				devices = append(devices, resourceapi.Device{
					Name: fmt.Sprintf("%s-half-%d", gpu.Name, k), ConsumesCounters: draw(1),
					Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"half": {BoolValue: ptr.To(true)}},
				})
			}
		}
		slice.Spec.Devices = devices
		slice.Spec.Pool.ResourceSliceCount, counters.Spec.Pool.ResourceSliceCount = 2, 2
		c.Slices = append(c.Slices, counters)
	}
	half := c.Templates[0].DeepCopy()
	half.Name = "half"
	half.Spec.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: `has(device.attributes["gpu.example.com"].half)`,
	}}}
	c.Templates = append(c.Templates, half)
}

// halfPod wants half a GPU.
func halfPod(name string) *corev1.Pod {
	pod := gpuPod(name, 1)
	pod.Spec.ResourceClaims[0].ResourceClaimTemplateName = ptr.To("half")
	return pod
}

// free counts the nodes without pods, or the GPUs of which nothing is in use, from the objects.
func (l *lab) free(goal moves.Goal) int {
	n := 0
	if goal == moves.Nodes {
		for _, node := range l.Nodes {
			if !slices.ContainsFunc(l.Pods, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == node.Name }) {
				n++
			}
		}
		return n
	}
	inUse := make(map[string]bool)
	for _, claim := range l.Claims {
		for _, result := range claim.Status.Allocation.Devices.Results {
			gpu, _, _ := strings.Cut(result.Device, "-half")
			inUse[result.Pool+"/"+gpu] = true
		}
	}
	for _, slice := range l.Slices {
		for _, device := range slice.Spec.Devices {
			if !strings.Contains(device.Name, "half") && !inUse[slice.Spec.Pool.Name+"/"+device.Name] {
				n++
			}
		}
	}
	return n
}

// best enumerates all sets of pods, all orders and all nodes: what can be free, then what that costs, then with how much room.
func (l *lab) best(goal moves.Goal, cost func(*corev1.Pod) float64, allowed int) (most int, least float64, room int) {
	most = l.free(goal)
	for members := range 1 << len(l.Pods) {
		var set []*corev1.Pod
		total := 0.0
		for i, pod := range l.Pods {
			if members>>i&1 == 1 {
				set, total = append(set, pod), total+cost(pod)
			}
		}
		if math.IsInf(total, 1) {
			continue
		}
		for reached := true; reached; {
			reached = false
			for k := range bits.OnesCount(uint(members)) + 1 {
				want := most + 1
				if total < least || total == least && k < room {
					want = most
				}
				got := 0
				l.fails = make(map[string]bool)
				l.end = func(at *lab) bool { got = at.free(goal); return got >= want }
				if l.reaches(set, nil, nil, k, allowed) {
					most, least, room, reached = got, total, k, true
					break
				}
			}
		}
	}
	return most, least, room
}

// A plan leaves as much free, for as little and with as little room, as the best of all sets of pods, all orders and all nodes.
func TestFreeLikeEnumeration(t *testing.T) {
	seen := make(map[string]int)
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 7))
		goal := moves.Goal(seed % 2)
		gpus := []int{1 + random.IntN(3), 1 + random.IntN(3), random.IntN(3)}
		l := &lab{T: t, Cluster: gpuCluster(gpus...)}
		if goal == moves.WholeDevices {
			divide(&l.Cluster)
		}
		for i := range 3 + random.IntN(4)/3 {
			pod := gpuPod(fmt.Sprintf("runs-%d", i), 1+random.IntN(2))
			if goal == moves.WholeDevices && random.IntN(4) > 0 {
				pod = halfPod(pod.Name)
			}
			l.place(pod, fmt.Sprintf("node-%d", random.IntN(3)))
		}
		if goal == moves.WholeDevices && len(l.Pods) > 1 { // halves are free where nobody would choose them
			l.evict(l.Pods[0].Name)
		}
		costs := make(map[string]float64)
		for i, pod := range l.Pods {
			if costs[pod.Name] = float64(1 + random.IntN(2)); i == 0 && random.IntN(5) == 0 {
				costs[pod.Name] = math.Inf(1)
			}
		}
		cost := func(pod *corev1.Pod) float64 { return costs[pod.Name] }
		q := moves.Question{Nodes: names(&l.Cluster), Cost: cost, Attempts: 1 << 21}
		allowed := len(l.Pods)
		if random.IntN(3) == 0 {
			allowed = random.IntN(3)
			q.Limits = []moves.Limit{{Pods: l.Pods, Out: allowed}}
		}
		plan, err := moves.Free(t.Context(), l.open(), goal, q)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		before := l.free(goal)
		most, least, room := l.best(goal, cost, allowed)
		if !plan.Exact() || plan.Before != before || plan.After != most || plan.Cost != least || plan.Room != room {
			t.Fatalf("seed %d: %d of at most %d are free after moves, %d before, for %v, at least %v, with room for %d; by enumeration it is %d, %d before, for %v with room for %d",
				seed, plan.After, plan.Most, plan.Before, plan.Cost, plan.Bound, plan.Room, most, before, least, room)
		}
		for _, few := range []moves.Question{{Sets: 1 + int(seed%5), Attempts: q.Attempts}, {Attempts: 1 + int(seed%5)}} {
			few.Nodes, few.Cost, few.Limits = q.Nodes, q.Cost, q.Limits
			bounded, err := moves.Free(t.Context(), l.open(), goal, few)
			if err != nil || bounded.After > most || bounded.Most < most || bounded.After == most && (bounded.Cost < least || bounded.Bound > least) {
				t.Fatalf("seed %d: bounded, %d of at most %d are free after moves for %v, at least %v, %v; want at most %d, for %v", seed, bounded.After, bounded.Most, bounded.Cost, bounded.Bound, err, most, least)
			}
			if !bounded.Exact() {
				seen["bounded"]++
			} else if bounded.After != most || bounded.Cost != least {
				t.Fatalf("seed %d: bounded, %d are free after moves for %v, as a proof; want %d for %v", seed, bounded.After, bounded.Cost, most, least)
			}
		}
		if l.replay(seed, &plan.Plan, nil, seen); l.free(goal) != plan.After || len(plan.Freed) < plan.After-plan.Before {
			t.Fatalf("seed %d: %d are free after the steps, want %d; freed: %v", seed, l.free(goal), plan.After, plan.Freed)
		}
		seen[fmt.Sprintf("goal %d, %d more", goal, min(2, plan.After-plan.Before))]++
	}
	t.Log(seen)
	for _, kind := range []string{"goal 0, 0 more", "goal 0, 1 more", "goal 0, 2 more", "goal 1, 0 more", "goal 1, 1 more", "one move", "several moves", "bounded"} {
		if seen[kind] == 0 {
			t.Errorf("no question had: %s; seen: %v", kind, seen)
		}
	}
}

// A pod leaves its node by one of two ways of the same cost. On one of them two pods have to change places.
func TestFreeTakesTheLeastRoom(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		l := &lab{T: t, Cluster: gpuCluster(1, 3, 2, 2, 2, 2)}
		label := func(name string, nodes ...int) func(*corev1.Pod) {
			for _, n := range nodes {
				if l.Nodes[n].Labels == nil {
					l.Nodes[n].Labels = make(map[string]string)
				}
				l.Nodes[n].Labels[name] = "yes"
			}
			return func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{name: "yes"} }
		}
		run := func(name string, gpus, node int, may func(*corev1.Pod)) {
			pod := gpuPod(name, gpus)
			if may(pod); !l.place(pod, l.Nodes[node].Name) {
				t.Fatalf("pod %s has no place", name)
			}
		}
		anywhere := func(*corev1.Pod) {}
		run("last", 1, 0, label("last", 0, 1, 3))
		run("large", 2, 1, label("swap", 1, 2))
		run("stay-1", 1, 1, anywhere)
		run("small", 1, 2, label("swap", 1, 2))
		run("first", 1, 3, label("first", 3, 4))
		run("stay-3", 1, 3, anywhere)
		run("second", 1, 4, label("second", 4, 5))
		run("stay-4", 1, 4, anywhere)
		run("stay-5", 1, 5, anywhere)
		nodes := names(&l.Cluster)
		if reverse {
			slices.Reverse(nodes)
		}
		cost := func(stays ...string) func(*corev1.Pod) float64 {
			return func(pod *corev1.Pod) float64 {
				if slices.Contains(append(stays, "stay"), strings.Split(pod.Name, "-")[0]) {
					return math.Inf(1)
				}
				return 1
			}
		}
		for room, q := range []moves.Question{{Nodes: nodes, Cost: cost()}, {Nodes: nodes, Cost: cost("first")}} {
			freeing, err := moves.Free(t.Context(), l.open(), moves.Nodes, q)
			if err != nil || len(freeing.Freed) != 1 || freeing.Cost != 3 || freeing.Room != room || !freeing.Exact() {
				t.Errorf("reverse %v: %v for %v, with room for %d, %v; want a node for 3, with room for %d", reverse, freeing.Freed, freeing.Cost, freeing.Room, err, room)
			}
		}
	}
}

// A bound on how many nodes can be empty counts the room on nodes that keep pods anyway.
func TestFreeMovesToNodesThatStay(t *testing.T) {
	l := &lab{T: t, Cluster: gpuCluster(4, 4, 4)}
	for i, gpus := range []int{1, 1, 2} {
		l.place(gpuPod(fmt.Sprintf("runs-%d", i), gpus), fmt.Sprintf("node-%d", i))
	}
	for stays, after := range map[string]int{"runs-0": 2, "none": 2} {
		cost := func(pod *corev1.Pod) float64 {
			if pod.Name == stays {
				return math.Inf(1)
			}
			return 1
		}
		plan, err := moves.Free(t.Context(), l.open(), moves.Nodes, moves.Question{Nodes: names(&l.Cluster), Cost: cost})
		if err != nil || plan.After != after || !plan.Exact() {
			t.Errorf("%s stays: %v; want %d nodes empty", stays, err, after)
		}
	}
}

// Where devices have parts, a node may take more pods than it takes one after the other: the first would get a whole device.
func TestFreeWithPartsOfDevices(t *testing.T) {
	l := &lab{T: t, Cluster: gpuCluster(1, 1)}
	divide(&l.Cluster)
	for i, node := range names(&l.Cluster) {
		l.place(halfPod(fmt.Sprintf("goes-%d", i)), node)
		l.place(gpuPod(fmt.Sprintf("runs-%d", i), 1), node)
		l.evict(fmt.Sprintf("goes-%d", i))
	}
	plan, err := moves.Free(t.Context(), l.open(), moves.Nodes, moves.Question{Nodes: names(&l.Cluster)})
	if err != nil || plan.After != 1 || !plan.Exact() || plan.Cost != 1 {
		t.Errorf("%d of at most %d nodes are empty for %v, %v; want one after one move", plan.After, plan.Most, plan.Cost, err)
	}
}

// Pods that cannot be understood stay, and so do their nodes; so does a node of which a pod goes with it, unless it has others.
func TestFreeLeavesStrangePods(t *testing.T) {
	l := &lab{T: t, Cluster: gpuCluster(4, 4)}
	l.place(gpuPod("runs-0", 1), "node-0")
	l.place(gpuPod("runs-1", 1), "node-1")
	strange := gpuPod("strange", 9)
	strange.Spec.NodeName = "node-0"
	daemon := &corev1.Pod{}
	daemon.Name, daemon.Namespace, daemon.Spec.NodeName = "daemon", "default", "node-1"
	l.Pods = append(l.Pods, strange, daemon)
	q := moves.Question{Nodes: names(&l.Cluster), GoesWithNode: func(pod *corev1.Pod) bool { return pod == daemon }, Cost: func(pod *corev1.Pod) float64 {
		if pod == daemon {
			return math.Inf(1)
		}
		return 1
	}}
	plan, err := moves.Free(t.Context(), l.open(), moves.Nodes, q)
	if err != nil || !plan.Exact() || plan.After != 1 || len(plan.Freed) != 1 || plan.Freed[0].String() != "node-1" {
		t.Errorf("empty are %v, %v; want node-1", plan.Freed, err)
	}
	if _, err := moves.Free(t.Context(), l.open(), moves.Nodes, moves.Question{Nodes: []string{"x"}}); err == nil || err.Error() != "node x does not exist" {
		t.Errorf("got %v", err)
	}
}
