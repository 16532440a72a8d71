// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/kueue/pkg/cache/scheduler"
	kueueworkload "sigs.k8s.io/kueue/pkg/workload"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate"
)

// hosts is nodes of a topology, with pods of others.
type hosts struct {
	nodes  []*corev1.Node
	pods   []*corev1.Pod
	labels map[string]map[string]string
}

// newHosts makes blocks of racks of nodes, each with so many GPUs of which some are in use.
func newHosts(blocks, racks, perRack int, has, inUse func() int) *hosts {
	h := &hosts{labels: make(map[string]map[string]string)}
	for i := range blocks * racks * perRack {
		name, rack := fmt.Sprintf("node-%04d", i), i/perRack
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			levels[0]: fmt.Sprintf("block-%d", rack/racks), levels[1]: fmt.Sprintf("rack-%d", rack%racks), levels[2]: name,
		}}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		count := has()
		node.Status.Allocatable = corev1.ResourceList{gpus: *resource.NewQuantity(int64(count), resource.DecimalSI), corev1.ResourcePods: resource.MustParse("12")}
		h.nodes, h.labels[name] = append(h.nodes, node), node.Labels
		if used := min(inUse(), count); used > 0 {
			pod := gpuPod(fmt.Sprint("other-", i), used)
			pod.Spec.NodeName, pod.Status.Phase = name, corev1.PodRunning
			h.pods = append(h.pods, pod)
		}
	}
	return h
}

func gpuPod(name string, count int) *corev1.Pod {
	quantity := *resource.NewQuantity(int64(count), resource.DecimalSI)
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{gpus: quantity}, Limits: corev1.ResourceList{gpus: quantity}},
	}}}}
}

func (h *hosts) open(tb testing.TB) *simulate.State {
	tb.Helper()
	state, err := simulate.Open(simulate.Cluster{Nodes: h.nodes, Pods: h.pods}, simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		tb.Fatal(err)
	}
	return state
}

// demands are the pods of a gang.
func (g gang) demands(tb testing.TB, state *simulate.State) []simulate.Demand {
	tb.Helper()
	shape := func(name string, count int) *simulate.Shape {
		shapes, err := state.Shapes([]*corev1.Pod{gpuPod(name, count)})
		if err != nil {
			tb.Fatal(err)
		}
		return shapes[0]
	}
	list := []simulate.Demand{{Shape: shape("worker", g.gpus), Count: g.pods}}
	if g.leader > 0 {
		list = append([]simulate.Demand{{Shape: shape("leader", g.leader), Count: 1}}, list...)
	}
	return list
}

func (g gang) topologies() (list []simulate.Topology) {
	for _, label := range levels[:g.level+1] {
		list = append(list, simulate.Topology{NodeLabel: label, Preferred: g.preferred})
	}
	return list
}

// placeByDray asks Dray for places of a gang.
func placeByDray(tb testing.TB, state *simulate.State, g gang, demands []simulate.Demand) placed {
	tb.Helper()
	result, err := state.Sim().Gang(tb.Context(), demands, g.topologies(), simulate.Real(nil), simulate.FirstFit)
	switch {
	case err != nil:
		tb.Fatal(err)
	case result.Undecided > 0:
		tb.Fatalf("%+v is undecided", g)
	case !result.All():
		return nil
	}
	places := placed{}
	for p := range result.Placements() {
		places[p.Node.Name()]++
	}
	return places
}

// drawn is a small topology with little room, made by chance.
func drawn(r *rand.Rand) *hosts {
	return newHosts(1+r.IntN(3), 1+r.IntN(3), 1+r.IntN(4), func() int { return 4 + 4*r.IntN(2) }, func() int { return r.IntN(9) })
}

func drawnGang(r *rand.Rand) gang {
	g := gang{pods: 1 + r.IntN(12), gpus: 1 + r.IntN(4), level: r.IntN(len(levels)), preferred: r.IntN(2) == 0}
	if r.IntN(2) == 0 {
		g.leader = 1 + r.IntN(8)
	}
	return g
}

func (h *hosts) snapshot(tb testing.TB) *scheduler.TASFlavorSnapshot {
	tb.Helper()
	q, err := newQueues(tb.Context(), h.nodes, h.pods)
	if err != nil {
		tb.Fatal(err)
	}
	nodes, err := q.nodes(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return nodes
}

// within says at which level a gang is in one domain, if not all of it is asked for: -1 for several of the widest. It is -2 without places.
func (h *hosts) within(g gang, p placed) int {
	if p == nil {
		return -2
	}
	return min(g.level, p.level(h.labels))
}

// TestTopology asks both whether gangs fit, and whether they fit in one domain of the level or of which wider one. Each also has to hold the
// places of the other one for possible.
func TestTopology(t *testing.T) {
	const topologies, gangs = 400, 10
	counts := make(map[string]int)
	for seed := range uint64(topologies) {
		r := rand.New(rand.NewPCG(seed, 1))
		h := drawn(r)
		nodes, state := h.snapshot(t), h.open(t)
		for range gangs {
			g := drawnGang(r)
			byKueue, err := place(t.Context(), nodes, g)
			if err != nil {
				t.Fatal(err)
			}
			demands := g.demands(t, state)
			byDray := placeByDray(t, state, g, demands)
			level := h.within(g, byKueue)
			if level != h.within(g, byDray) {
				t.Errorf("topology %d: %+v: kueue: %v, Dray: %v", seed, g, byKueue, byDray)
			}
			switch {
			case level == -2:
				counts["no place"]++
				continue
			case level < g.level:
				counts["wider than preferred"]++
			default:
				counts["within the level"]++
			}
			if g.leader > 0 {
				counts["with a leader"]++
			} else {
				possible(t, g, nodes, byDray, state, byKueue)
			}
			if !maps.Equal(byKueue, byDray) {
				counts["on other nodes"]++
			}
		}
	}
	t.Log(counts)
	for _, what := range []string{"no place", "wider than preferred", "within the level", "with a leader", "on other nodes"} {
		if counts[what] < topologies*gangs/40 {
			t.Errorf("too few gangs: %s: %d", what, counts[what])
		}
	}
}

// possible wants kueue to hold Dray's places of a gang for possible, and the other way round.
func possible(t *testing.T, g gang, nodes *scheduler.TASFlavorSnapshot, byDray placed, state *simulate.State, byKueue placed) {
	t.Helper()
	var usage kueueworkload.TASFlavorUsage
	for node, count := range byDray {
		usage = append(usage, kueueworkload.TopologyDomainRequests{Values: []string{node}, SinglePodRequests: g.requests()[0].SinglePodRequests, Count: int32(count)})
	}
	if !nodes.Fits(usage) {
		t.Errorf("%+v: kueue does not hold %v for possible", g, byDray)
	}
	sim := state.Sim()
	for node, count := range byKueue {
		for range count {
			on, err := state.Node(node)
			if err != nil {
				t.Fatal(err)
			}
			result, err := sim.Put(t.Context(), gpuPod(fmt.Sprint(node, "-", count), g.gpus), on)
			if err != nil || !result.All() {
				t.Fatalf("%+v: Dray does not hold %v for possible: %v", g, byKueue, err)
			}
			count--
		}
	}
}

// TestTopologyComparisonSeesChanges asks kueue about a gang that is a bit different, and wants the comparison to see it.
func TestTopologyComparisonSeesChanges(t *testing.T) {
	plants := []struct {
		name   string
		change func(g *gang)
	}{
		{"one pod more", func(g *gang) { g.pods++ }},
		{"one GPU more", func(g *gang) { g.gpus++ }},
		{"a larger leader", func(g *gang) { g.leader = min(8, g.leader+2) }},
		{"a wider level", func(g *gang) { g.level = max(0, g.level-1) }},
		{"required", func(g *gang) { g.preferred = false }},
	}
	seen := make([]int, len(plants))
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		h := drawn(r)
		nodes, state := h.snapshot(t), h.open(t)
		g := drawnGang(r)
		want := h.within(g, placeByDray(t, state, g, g.demands(t, state)))
		for i, plant := range plants {
			other := g
			plant.change(&other)
			places, err := place(t.Context(), nodes, other)
			if err != nil {
				t.Fatal(err)
			}
			if h.within(g, places) != want {
				seen[i]++
			}
		}
	}
	for i, plant := range plants {
		if t.Logf("%s: seen %d times", plant.name, seen[i]); seen[i] < 10 {
			t.Errorf("%s: seen only %d times", plant.name, seen[i])
		}
	}
}

// A node without the label of a level is no part of kueue's topology. Dray leaves it out only of gangs that ask for the level.
func TestTopologyNodeWithoutLabel(t *testing.T) {
	h := newHosts(1, 1, 2, func() int { return 8 }, func() int { return 0 })
	delete(h.nodes[1].Labels, levels[1])
	nodes, state := h.snapshot(t), h.open(t)
	for level, want := range []bool{true, false} {
		g := gang{pods: 2, gpus: 8, level: level}
		byKueue, err := place(t.Context(), nodes, g)
		if byDray := placeByDray(t, state, g, g.demands(t, state)); err != nil || byKueue != nil || (byDray != nil) != want {
			t.Errorf("%s: kueue: %v, error %v, Dray: %v", levels[level], byKueue, err, byDray)
		}
	}
}
