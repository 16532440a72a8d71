// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/moves"
)

// zoned puts the nodes of a cluster into two zones, and says whether the wanted pods are in one that is permitted.
func (l *lab) zoned(permitted []string) func(*lab) bool {
	zone := make(map[string]string)
	for i, node := range l.Nodes {
		zone[node.Name] = fmt.Sprint(i % 2)
		node.Labels = map[string]string{"zone": zone[node.Name]}
	}
	return func(at *lab) bool {
		seen := make(map[string]bool)
		for _, pod := range at.Pods {
			if strings.HasPrefix(pod.Name, "wanted") {
				seen[zone[pod.Spec.NodeName]] = true
			}
		}
		for name := range seen {
			if !slices.Contains(permitted, name) {
				return false
			}
		}
		return len(seen) == 1
	}
}

// Pods that must have the label of their nodes in common have it after the cheapest moves, as by enumeration.
func TestFindWithTopologies(t *testing.T) {
	seen := make(map[string]int)
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 3))
		l := &lab{T: t, Cluster: gpuCluster(1+random.IntN(3), 1+random.IntN(3), 1+random.IntN(3))}
		topology := simulate.Topology{NodeLabel: "zone"}
		if l.end = l.zoned([]string{"0", "1"}); seed >= 25 { // a pod of the group runs in a zone
			topology.Values = []string{fmt.Sprint(seed % 2)}
			l.end = l.zoned(topology.Values)
		}
		for i := range 3 {
			l.place(gpuPod(fmt.Sprintf("runs-%d", i), 1+random.IntN(2)), fmt.Sprintf("node-%d", random.IntN(3)))
		}
		wanted := []*corev1.Pod{gpuPod("wanted-0", 1), gpuPod("wanted-1", 1+random.IntN(2))}
		cost := func(*corev1.Pod) float64 { return 1 }
		q := moves.Question{Wanted: wanted, Nodes: names(&l.Cluster), Topologies: []simulate.Topology{topology}}
		plan, err := moves.Find(t.Context(), l.open(), q)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		least, room := l.cheapest(wanted, cost, len(l.Pods))
		if !plan.Exact() || plan.Possible != !math.IsInf(least, 1) || plan.Possible && (plan.Cost != least || plan.Room != room) {
			t.Fatalf("seed %d: possible %t, costs %v, at least %v, room for %d; by enumeration it costs %v with room for %d", seed, plan.Possible, plan.Cost, plan.Bound, plan.Room, least, room)
		}
		q.Sets = 1
		if bounded, err := moves.Find(t.Context(), l.open(), q); err != nil || bounded.Bound > least || bounded.Possible && bounded.Cost < least {
			t.Fatalf("seed %d: bounded, possible %t, it costs %v, at least %v, %v; by enumeration it is %v", seed, bounded.Possible, bounded.Cost, bounded.Bound, err, least)
		}
		if !plan.Possible {
			seen["impossible"]++
			continue
		}
		var order []*corev1.Pod
		for _, place := range plan.Places {
			order = append(order, place.Pod)
		}
		if l.replay(seed, plan, order, seen); !l.end(l) {
			t.Fatalf("seed %d: the wanted pods are in several zones, or in one that is not permitted", seed)
		}
	}
	for _, kind := range []string{"impossible", "nothing to do", "one move"} {
		if seen[kind] == 0 {
			t.Errorf("no question had: %s; seen: %v", kind, seen)
		}
	}
}

// Nodes with a value that is not permitted give no hope: one bound is a proof that the pods fit nowhere.
func TestBoundOfPermittedZone(t *testing.T) {
	l := &lab{T: t, Cluster: gpuCluster(1, 4, 1)}
	l.zoned(nil)
	l.place(gpuPod("stays-0", 1), "node-0")
	l.place(gpuPod("stays-2", 1), "node-2")
	for i := range 3 {
		l.place(gpuPod(fmt.Sprintf("goes-%d", i), 1), "node-1")
	}
	cost := func(pod *corev1.Pod) float64 {
		if strings.HasPrefix(pod.Name, "stays") {
			return math.Inf(1)
		}
		return 1
	}
	q := moves.Question{Wanted: []*corev1.Pod{gpuPod("wanted-0", 1)}, Nodes: names(&l.Cluster), Cost: cost, Sets: 1}
	for _, test := range []struct {
		values   []string
		possible bool
	}{{nil, true}, {[]string{"1"}, true}, {[]string{"0"}, false}, {[]string{}, false}} {
		q.Topologies = []simulate.Topology{{NodeLabel: "zone", Values: test.values}}
		if plan, err := moves.Find(t.Context(), l.open(), q); err != nil || plan.Possible != test.possible || !plan.Exact() {
			t.Errorf("zones %q: possible %t, exact %t, %v", test.values, plan.Possible, plan.Exact(), err)
		}
	}
}

// Where it is not known whether the wanted pods fit together, it is not said that no moves help.
func TestFindDoubtsTopologies(t *testing.T) {
	l := &lab{T: t, Cluster: gpuCluster(4)}
	l.Nodes[0].Labels = map[string]string{"zone": "a"}
	l.Templates[0].Spec.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: `device.attributes["gpu.example.com"].size == 1`, // which no device has, so that this is an error
	}}}
	for _, topologies := range [][]simulate.Topology{nil, {{NodeLabel: "zone"}}} {
		plan, err := moves.Find(t.Context(), l.open(), moves.Question{Nodes: names(&l.Cluster), Wanted: []*corev1.Pod{gpuPod("wanted", 1)}, Topologies: topologies})
		if err != nil || plan.Possible || plan.Exact() {
			t.Errorf("topologies %v: %+v, %v; want no plan, and no proof that there is none", topologies, plan, err)
		}
	}
}
