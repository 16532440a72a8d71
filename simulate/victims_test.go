// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/internal/dev/peer"
	"github.com/dray-project/dray/simulate"
)

// The cheapest sets are those that trying all sets finds.
func TestVictimsByBruteForce(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 7))
		state := open(t, gpuCluster("a", "b", "c"), simulate.Options{})
		sim := state.Sim()
		sizes, costs := make(map[string][]int), make(map[string][]float64)
		costOf := make(map[string]float64)
		for i := range random.IntN(9) {
			size := 1 + random.IntN(2)
			pod := gpuPods([]string{"one", "two"}[size-1], 1)[0]
			pod.Name = fmt.Sprintf("pod-%d", i)
			r, err := sim.Place(t.Context(), pod, simulate.Real(nil), simulate.Spread)
			if err != nil {
				t.Fatal(err)
			}
			for placement := range r.Placements() {
				node, cost := placement.Node.Name(), float64(random.IntN(5))
				if random.IntN(6) == 0 {
					cost = math.Inf(1)
				}
				sizes[node], costs[node] = append(sizes[node], size), append(costs[node], cost)
				costOf[pod.Name] = cost
			}
		}
		shape := shapeOf(t, state, gpuPods("three", 1))
		sets, _, err := sim.State().Victims(t.Context(), shape, simulate.Real(nil), func(pod *corev1.Pod) float64 { return costOf[pod.Name] }, 3)
		if err != nil {
			t.Fatal(err)
		}
		var want, got []float64
		for _, node := range []string{"a", "b", "c"} {
			if least, possible := cheapest(sizes[node], costs[node], 4, 3); possible {
				want = append(want, least)
			}
		}
		for _, set := range sets {
			if !set.Least {
				t.Errorf("seed %d: the set on %s is not proven to be the least", seed, set.Node.Name())
			}
			got = append(got, set.Cost)
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("seed %d: sets cost %v, want %v; sizes %v, costs %v", seed, got, want, sizes, costs)
		}
	}
}

// The cheapest sets are those that evicting each set of pods finds, in States after sequences: with claims that pods share, devices
// of several nodes, and extended claims.
func TestVictimsLikeEvictions(t *testing.T) {
	seen := make(map[string]int)
	for seed := range sequences(t, 60) {
		g := newGame(t, seed, allocator.Options{}, seen)
		if !g.begin(peer.Dray()) {
			continue
		}
		g.steps()
		for _, kind := range g.kinds {
			g.victims(g.sim.State(), kind)
		}
	}
	t.Logf("seen: %v", seen)
	allSeen(t, seen, "no set", "set of 0", "set of 1", "set of 2", "victims that share", "in doubt")
}

// victims compares the sets of all real nodes for a kind of pod.
func (g *game) victims(state *simulate.State, kind *corev1.Pod) {
	shapes, err := state.Shapes([]*corev1.Pod{kind})
	if err != nil {
		return // the class of an extended resource may have changed
	}
	sets, undecided, err := state.Victims(g.Context(), shapes[0], simulate.Real(nil), costOfName, math.MaxInt)
	if err != nil {
		g.Fatalf("seed %d: %v", g.seed, err)
	}
	open := 0
	for _, node := range g.ref.nodes {
		handle, err := state.Node(node.Name)
		if err != nil {
			g.Fatalf("seed %d: %v", g.seed, err)
		}
		least, doubt := g.leastByEvicting(state, shapes[0], handle)
		at := slices.IndexFunc(sets, func(set simulate.VictimSet) bool { return set.Node.Name() == node.Name })
		switch {
		case doubt:
			g.seen["in doubt"]++
			if at < 0 {
				open++
			}
		case at < 0 && math.IsInf(least, 1):
			g.seen["no set"]++
		case at < 0 || sets[at].Cost != least || !sets[at].Least:
			g.Fatalf("seed %d: victims on %s for %v: %v (position %d), evicting says the least cost is %v", g.seed, node.Name, kind.Spec.ResourceClaims, sets, at, least)
		default:
			g.seen[fmt.Sprintf("set of %d", len(sets[at].Pods))]++
			for _, pod := range sets[at].Pods {
				if slices.ContainsFunc(pod.Spec.ResourceClaims, func(c corev1.PodResourceClaim) bool { return c.ResourceClaimName != nil }) {
					g.seen["victims that share"]++
				}
			}
		}
	}
	if undecided > open {
		g.Fatalf("seed %d: %d nodes are undecided for %v, evicting leaves %d of those without a set in doubt", g.seed, undecided, kind.Spec.ResourceClaims, open)
	}
}

// costOfName is what it costs to evict a pod: 1 to 3, or without limit.
func costOfName(pod *corev1.Pod) float64 {
	sum := 0
	for _, c := range pod.Name {
		sum += int(c)
	}
	if sum%5 == 4 {
		return math.Inf(1)
	}
	return float64(1 + sum%3)
}

// leastByEvicting evicts each set of pods of a node. doubt is set if an answer was undecided, or if there are too many sets.
func (g *game) leastByEvicting(state *simulate.State, shape *simulate.Shape, node simulate.Node) (least float64, doubt bool) {
	pods := slices.Collect(state.Pods(node))
	least = math.Inf(1)
	for set := range uint(1) << min(len(pods), 7) {
		sim, cost := state.Sim(), 0.0
		for i, pod := range pods {
			if set>>i&1 == 0 {
				continue
			}
			if err := sim.Evict(pod); err != nil {
				g.Fatalf("seed %d: %v", g.seed, err)
			}
			cost += costOfName(pod)
		}
		result, err := sim.PutShape(g.Context(), shape, node)
		if err != nil {
			g.Fatalf("seed %d: %v", g.seed, err)
		}
		if result.Undecided > 0 {
			return 0, true
		}
		if result.All() {
			least = min(least, cost)
		}
	}
	return least, len(pods) > 7
}

// cheapest tries all sets of pods on a node with so many devices for one pod that needs some.
func cheapest(sizes []int, costs []float64, devices, needed int) (least float64, possible bool) {
	least = math.Inf(1)
	free := devices
	for _, size := range sizes {
		free -= size
	}
	for set := range uint(1) << len(sizes) {
		room, cost := free, 0.0
		for rest := set; rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros(rest)
			room, cost = room+sizes[i], cost+costs[i]
		}
		if room >= needed {
			least = min(least, cost)
		}
	}
	return least, !math.IsInf(least, 1)
}

// If the only user of a claim leaves, the claim is deallocated. A wanted pod that names it needs a device again then, and gets none if
// all are tainted: the other pod has to leave, though it costs more, and both leaving does not help.
func TestVictimsOfNamedClaim(t *testing.T) {
	c := gpuCluster("a")
	c.Nodes[0].Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	shared := &resourceapi.ResourceClaim{Spec: c.Templates[0].Spec.Spec}
	shared.Namespace, shared.Name = "default", "shared"
	c.Claims = append(c.Claims, shared)
	user, other, wanted := gpuPods("user", 1)[0], gpuPods("other", 1)[0], gpuPods("wanted", 1)[0]
	for _, pod := range []*corev1.Pod{user, other, wanted} {
		pod.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "gpus", ResourceClaimName: &shared.Name}
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}
	}
	other.Spec.ResourceClaims = nil
	costs := map[*corev1.Pod]float64{user: 1, other: 2}
	for _, test := range []struct {
		tainted bool
		cost    float64
	}{{false, 1}, {true, 2}} {
		sim := open(t, c, simulate.Options{}).Sim()
		for _, pod := range []*corev1.Pod{user, other} {
			if r, err := sim.Place(t.Context(), pod, simulate.Real(nil), simulate.FirstFit); err != nil || !r.All() {
				t.Fatal(r, err)
			}
		}
		if test.tainted {
			taint := resourceapi.DeviceTaint{Key: "k", Effect: resourceapi.DeviceTaintEffectNoSchedule}
			if err := sim.Taint(taint, maps.Keys(maps.Collect(sim.State().Devices(nodeOf(t, sim.State(), "a"))))); err != nil {
				t.Fatal(err)
			}
		}
		state := sim.State()
		sets, _, err := state.Victims(t.Context(), shapeOf(t, state, []*corev1.Pod{wanted}), simulate.Real(nil), func(pod *corev1.Pod) float64 { return costs[pod] }, 1)
		if err != nil || len(sets) != 1 || sets[0].Cost != test.cost || !sets[0].Least {
			t.Errorf("tainted %t: sets %v, want one that costs %v; %v", test.tainted, sets, test.cost, err)
		}
	}
}

// More users of a claim than there are parts to try: a set is found, and not said to be the cheapest.
func TestVictimsOfNamedClaimWithManyUsers(t *testing.T) {
	const users = 100
	c := gpuCluster("a")
	c.Nodes[0].Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(users, resource.DecimalSI)}
	shared := &resourceapi.ResourceClaim{Spec: c.Templates[0].Spec.Spec}
	shared.Namespace, shared.Name = "default", "shared"
	c.Claims = append(c.Claims, shared)
	sim := open(t, c, simulate.Options{}).Sim()
	pods := gpuPods("one", users+1)
	for _, pod := range pods {
		pod.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "gpus", ResourceClaimName: &shared.Name}
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}
	}
	for _, pod := range pods[:users] {
		if r, err := sim.Place(t.Context(), pod, simulate.Real(nil), simulate.FirstFit); err != nil || !r.All() {
			t.Fatal(r, err)
		}
	}
	taint := resourceapi.DeviceTaint{Key: "k", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	if err := sim.Taint(taint, maps.Keys(maps.Collect(sim.State().Devices(nodeOf(t, sim.State(), "a"))))); err != nil {
		t.Fatal(err)
	}
	state := sim.State()
	sets, _, err := state.Victims(t.Context(), shapeOf(t, state, pods[users:]), simulate.Real(nil), func(*corev1.Pod) float64 { return 1 }, 1)
	if err != nil || len(sets) != 1 || sets[0].Cost != 1 || sets[0].Least {
		t.Errorf("sets %v, %v; want one pod, and that it is not known to be the cheapest", sets, err)
	}
}

// A node is undecided if the search ended there, and not if no evictions help.
func TestVictimsUndecided(t *testing.T) {
	simulate.RunUsual(t)
	c := gpuCluster("a", "b")
	c.Slices[1].Spec.Devices = c.Slices[1].Spec.Devices[:2] // another content
	for _, test := range []struct {
		budget          int64
		template        string
		sets, undecided int
	}{{0, "one", 2, 0}, {0, "three", 1, 0}, {1, "one", 1, 1}} {
		state := open(t, c, simulate.Options{Budget: test.budget})
		sets, undecided, err := state.Victims(t.Context(), shapeOf(t, state, gpuPods(test.template, 1)), simulate.Real(nil), func(*corev1.Pod) float64 { return 1 }, 3)
		if err != nil || len(sets) != test.sets || undecided != test.undecided {
			t.Errorf("budget %d, %s: sets on %d nodes, %d undecided, %v; want %d and %d", test.budget, test.template, len(sets), undecided, err, test.sets, test.undecided)
		}
	}
}

// A call ends with its context, also where all answers are remembered.
func TestVictimsEndWithContext(t *testing.T) {
	state := open(t, gpuCluster("a", "b"), simulate.Options{})
	sim := state.Sim()
	if r, err := sim.PlaceMany(t.Context(), shapeOf(t, state, gpuPods("one", 8)), 8, simulate.Real(nil), simulate.FirstFit); err != nil || !r.All() {
		t.Fatal(r, err)
	}
	state = sim.State()
	shape, why := shapeOf(t, state, gpuPods("three", 1)), errors.New("no longer wanted")
	for range 2 { // all is remembered the second time
		ctx, cancel := context.WithCancelCause(t.Context())
		asked := 0
		_, _, err := state.Victims(ctx, shape, simulate.Real(nil), func(*corev1.Pod) float64 {
			if asked++; asked == 8 {
				cancel(why)
			}
			return 1
		}, 1)
		if !errors.Is(err, why) {
			t.Errorf("got %v, want %v", err, why)
		}
		if _, _, err := state.Victims(t.Context(), shape, simulate.Real(nil), func(*corev1.Pod) float64 { return 1 }, 1); err != nil {
			t.Error(err)
		}
	}
}
