// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/moves"
)

// packed is a cluster of nodes with eight GPUs each, in racks of twenty, of which pods of one, two and four have a part. Each node has one of
// them, but for one in ten with a pod of eight.
func packed(tb testing.TB, nodes int, part float64, seed uint64) (*simulate.State, []string) {
	gpus := slices.Repeat([]int{8}, nodes)
	c := gpuCluster(gpus...)
	for i, node := range c.Nodes {
		node.Labels = map[string]string{"rack": fmt.Sprint(i / 20)}
	}
	state, err := simulate.Open(c, simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		tb.Fatal(err)
	}
	random := rand.New(rand.NewPCG(seed, 11))
	sim := state.Sim()
	used := 0
	for i := 0; i < nodes || float64(used) < part*float64(8*nodes); i++ {
		to := i
		if i >= nodes {
			to = random.IntN(nodes)
		}
		on, err := state.Node(c.Nodes[to].Name)
		if err != nil {
			tb.Fatal(err)
		}
		size := []int{1, 2, 4}[random.IntN(3)]
		if i < nodes && i%10 == 9 {
			size = 8
		}
		result, err := sim.Put(tb.Context(), gpuPod(fmt.Sprintf("runs-%d", i), size), on)
		if err != nil {
			tb.Fatal(err)
		}
		used += size * result.Placed
	}
	return sim.State(), names(&c)
}

// baseline is what a simple way costs: for each node its cheapest victims, each of which goes to the fullest other node with room for it. The
// cheapest node is taken for one wanted pod after the other.
func baseline(t *testing.T, state *simulate.State, wanted []*corev1.Pod, nodes []string, cost func(*corev1.Pod) float64) (total float64) {
	moved := make(map[*corev1.Pod]bool)
	may := func(pod *corev1.Pod) float64 {
		if moved[pod] {
			return math.Inf(1)
		}
		return cost(pod)
	}
	for _, pod := range wanted {
		shapes, err := state.Shapes([]*corev1.Pod{pod})
		if err != nil {
			t.Fatal(err)
		}
		sets, _, err := state.Victims(t.Context(), shapes[0], simulate.Real(nil), may, len(nodes))
		if err != nil {
			t.Fatal(err)
		}
		done := false
		for i := range sets { // the cheapest first
			after, fits := elsewhere(t, state, pod, &sets[i], nodes)
			if fits {
				state, done = after, true
				total += sets[i].Cost
				moved[pod] = true
				for _, victim := range sets[i].Pods {
					moved[victim] = true
				}
				break
			}
		}
		if !done {
			return math.Inf(1)
		}
	}
	return total
}

// elsewhere puts a pod in the place of its victims, and these on other nodes.
func elsewhere(t *testing.T, state *simulate.State, pod *corev1.Pod, set *simulate.VictimSet, nodes []string) (*simulate.State, bool) {
	sim := state.Sim()
	if err := sim.Evict(set.Pods...); err != nil {
		t.Fatal(err)
	}
	put := func(pod *corev1.Pod, node simulate.Node) bool {
		result, err := sim.Put(t.Context(), pod, node)
		if err != nil {
			t.Fatal(err)
		}
		return result.All()
	}
	if !put(pod, set.Node) {
		return nil, false
	}
	for _, victim := range set.Pods {
		var to []simulate.Node
		for _, name := range nodes {
			node, err := state.Node(name)
			if err != nil {
				t.Fatal(err)
			}
			to = append(to, node)
		}
		now := sim.State()
		slices.SortStableFunc(to, func(a, b simulate.Node) int { return cmp.Compare(now.InUse(b), now.InUse(a)) })
		if !slices.ContainsFunc(to, func(node simulate.Node) bool { return node != set.Node && put(victim, node) }) {
			return nil, false
		}
	}
	return sim.State(), true
}

// check does what a plan says, and expects that pods which must stay do, and that limits hold at each step.
func check(t *testing.T, state *simulate.State, q *moves.Question, plan *moves.Plan) {
	t.Helper()
	sim := state.Sim()
	total, out := 0.0, make(map[*corev1.Pod]bool)
	for i := range plan.Steps {
		step := &plan.Steps[i]
		if !step.Returns() {
			if err := sim.Evict(step.Pod); err != nil {
				t.Fatal(err)
			}
			out[step.Pod] = true
			total += q.Cost(step.Pod)
		}
		for _, limit := range q.Limits {
			missing := 0
			for _, pod := range limit.Pods {
				if out[pod] {
					missing++
				}
			}
			if missing > limit.Out {
				t.Fatalf("step %d: %d pods have no place, want %d at most", i, missing, limit.Out)
			}
		}
		if step.Leaves() {
			continue
		}
		if result, err := sim.Put(t.Context(), step.Pod, step.To); err != nil || !result.All() {
			t.Fatalf("step %d: pod %s does not fit on %s: %v", i, step.Pod.Name, step.To.Name(), err)
		}
		delete(out, step.Pod)
	}
	if len(out) > 0 || math.Abs(total-plan.Cost) > 1e-9 {
		t.Fatalf("%d pods have no place in the end; the moves cost %v, said was %v", len(out), total, plan.Cost)
	}
	for _, place := range plan.Places {
		if result, err := sim.Put(t.Context(), place.Pod, place.Node); err != nil || !result.All() {
			t.Fatalf("pod %s does not fit on %s: %v", place.Pod.Name, place.Node.Name(), err)
		}
	}
	if len(plan.Places) != len(q.Wanted) {
		t.Fatalf("%d of %d pods have a place", len(plan.Places), len(q.Wanted))
	}
}

// On clusters too large for all sets, plans cost no more than those of a simple way. Pods that must not move do not.
func TestFindLikeBaseline(t *testing.T) {
	cheaper := 0
	for seed := range uint64(24) {
		random := rand.New(rand.NewPCG(seed, 5))
		state, nodes := packed(t, 30+random.IntN(20), []float64{0.6, 0.8, 0.9, 0.95}[seed%4], seed)
		costs := make(map[*corev1.Pod]float64)
		limits := make([]moves.Limit, 3)
		for i := range limits {
			limits[i].Out = i
		}
		for _, name := range nodes {
			node, err := state.Node(name)
			if err != nil {
				t.Fatal(err)
			}
			for pod := range state.Pods(node) {
				costs[pod] = 1
				if seed%3 == 1 {
					costs[pod] = 0.5 + random.Float64()
				}
				if random.IntN(20) == 0 {
					costs[pod] = math.Inf(1)
				}
				if seed%3 == 2 {
					limit := &limits[min(2, random.IntN(12))]
					limit.Pods = append(limit.Pods, pod)
				}
			}
		}
		q := moves.Question{Nodes: nodes, Limits: limits, Sets: 1, Cost: func(pod *corev1.Pod) float64 { return costs[pod] }}
		for i := range 1 + seed%2 {
			q.Wanted = append(q.Wanted, gpuPod(fmt.Sprintf("wanted-%d", i), 8))
		}
		plan, err := moves.Find(t.Context(), state, q)
		if err != nil {
			t.Fatal(err)
		}
		simple := baseline(t, state, q.Wanted, nodes, func(pod *corev1.Pod) float64 {
			if slices.Contains(limits[0].Pods, pod) {
				return math.Inf(1)
			}
			return costs[pod]
		})
		if plan.Possible {
			check(t, state, &q, plan)
		}
		if !plan.Possible && !math.IsInf(simple, 1) || plan.Cost > simple+1e-9 || plan.Bound > plan.Cost && plan.Possible {
			t.Errorf("seed %d: possible %t, costs %v, at least %v; a simple way costs %v", seed, plan.Possible, plan.Cost, plan.Bound, simple)
		}
		if plan.Possible && plan.Cost < simple-1e-9 {
			cheaper++
		}
	}
	if cheaper == 0 {
		t.Error("no plan costs less than that of a simple way")
	}
}

// On larger clusters, plans cost as much as the bound, though not all sets of pods can be looked at.
func TestFindOnManyNodes(t *testing.T) {
	for _, part := range []float64{0.7, 0.9, 0.95} {
		state, nodes := packed(t, 200, part, 1)
		for _, n := range []int{1, 2, 4} {
			q := moves.Question{Nodes: nodes, Cost: func(*corev1.Pod) float64 { return 1 }}
			for i := range n {
				q.Wanted = append(q.Wanted, gpuPod(fmt.Sprintf("wanted-%d", i), 8))
			}
			for _, topologies := range [][]simulate.Topology{nil, {{NodeLabel: "rack"}}} {
				q.Topologies = topologies
				plan, err := moves.Find(t.Context(), state, q)
				if err != nil || !plan.Possible || plan.Cost == 0 || !plan.Exact() {
					t.Fatalf("%v of the GPUs in use, %d wanted, topologies %v: possible %t, costs %v, at least %v, %v", part, n, topologies, plan.Possible, plan.Cost, plan.Bound, err)
				}
				t.Logf("%v of the GPUs in use, %d wanted, topologies %v: costs %v, at least %v", part, n, topologies, plan.Cost, plan.Bound)
				check(t, state, &q, plan)
			}
		}
	}
}

// Several wanted pods may share one node. The bound must not be above what the plan costs then.
func TestBoundOfPodsThatShareANode(t *testing.T) {
	c := gpuCluster(4, 4)
	for i, node := range c.Nodes {
		node.Labels = map[string]string{"number": fmt.Sprint(i)}
	}
	state, err := simulate.Open(c, simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	sim := state.Sim()
	first, err := state.Node(c.Nodes[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	if result, err := sim.Put(t.Context(), gpuPod("runs", 4), first); err != nil || !result.All() {
		t.Fatal(result, err)
	}
	q := moves.Question{Nodes: names(&c), Cost: func(*corev1.Pod) float64 { return 1 }}
	for i := range 2 {
		pod := gpuPod(fmt.Sprintf("wanted-%d", i), 2)
		pod.Spec.NodeSelector = map[string]string{"number": "0"}
		q.Wanted = append(q.Wanted, pod)
	}
	plan, err := moves.Find(t.Context(), sim.State(), q)
	if err != nil || !plan.Possible || plan.Cost != 1 || plan.Bound != 1 {
		t.Fatalf("possible %t, costs %v, at least %v, %v; want one move that costs 1", plan.Possible, plan.Cost, plan.Bound, err)
	}
	check(t, sim.State(), &q, plan)
}

// run puts pods on the nodes of a cluster.
func run(tb testing.TB, c simulate.Cluster, fill func(put func(pod *corev1.Pod, node int))) *simulate.State {
	state, err := simulate.Open(c, simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		tb.Fatal(err)
	}
	sim := state.Sim()
	fill(func(pod *corev1.Pod, node int) {
		on, err := state.Node(c.Nodes[node].Name)
		if err != nil {
			tb.Fatal(err)
		}
		if result, err := sim.Put(tb.Context(), pod, on); err != nil || !result.All() {
			tb.Fatalf("pod %s has no place: %v", pod.Name, err)
		}
	})
	return sim.State()
}
