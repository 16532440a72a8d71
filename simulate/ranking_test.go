// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
)

// The node that is chosen by what is remembered of nodes is the one that looking at all nodes gives.
func TestRankedNodesAreThoseOfAllNodes(t *testing.T) {
	RunUsual(t)
	policies := []NodePolicy{Pack, Spread}
	each := []NodePolicy{Score(func(c NodeClass) float64 { return c.InUse }), Score(func(c NodeClass) float64 { return -c.InUse })}
	sets := []Nodes{Real(nil), Real(func(node *corev1.Node) bool { return node.Name != "node-1" })}
	seen := make(map[string]int)
	for seed := range uint64(60) {
		c := newCrowd(t, seed)
		for i, node := range c.cluster.Nodes {
			node.Labels = map[string]string{"half": fmt.Sprint(i % 2)}
		}
		sim := c.open().Sim()
		pods := []*corev1.Pod{c.pod("one"), c.pod("two"), c.pod("large"), c.pod("broken"), c.pod("cpu"), c.pod("network"), c.pod("shared")}
		for half := range 2 {
			pod := c.pod("one")
			pod.Spec.NodeSelector = map[string]string{"half": fmt.Sprint(half)}
			pods = append(pods, pod)
		}
		for step := range 40 {
			c.change(sim)
			if step%9 == 8 {
				sim.admitted = nil // as if there had been too many kinds
			}
			pod, n, on := pods[c.rand.IntN(len(pods))], c.rand.IntN(2), sets[c.rand.IntN(2)]
			other := sim.State().Sim()
			var got Result
			for range 1 + c.rand.IntN(3) {
				want, err := other.Place(t.Context(), pod, on, each[n])
				if err != nil {
					t.Fatal(err)
				}
				if got, err = sim.Place(t.Context(), pod, on, policies[n]); err != nil {
					t.Fatal(err)
				}
				if chosen(&got) != chosen(&want) || got.Undecided != want.Undecided {
					t.Fatalf("seed %d: %s is on %q (%d undecided), looking at all nodes on %q (%d)", seed, pod.Name, chosen(&got), got.Undecided, chosen(&want), want.Undecided)
				}
			}
			seen[chosen(&got)]++
			for _, r := range sim.ranked {
				if _, found := r.order.First(&r.of.alike); found && !r.doubtful {
					seen["ranked"]++
				}
				if r.doubtful {
					seen["doubtful"]++
				}
			}
		}
	}
	for _, kind := range []string{"", "node-0", "node-3", "ranked", "doubtful"} {
		if seen[kind] == 0 {
			t.Errorf("never: %q; seen: %v", kind, seen)
		}
	}
}

// Nodes in one state are apart where devices provide an extended resource on some of them only.
func TestRankedNodesByVariant(t *testing.T) {
	RunUsual(t)
	c, _ := large(3, 1)
	c.Classes[0].Spec.ExtendedResourceName = ptr.To("example.com/gpu")
	c.Nodes[1].Status.Allocatable = corev1.ResourceList{"example.com/gpu": resource.MustParse("8")} // of a device plugin
	sim, err := Open(c, Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	m := sim.Sim()
	all := &corev1.Pod{}
	all.Namespace, all.Name = "default", "all"
	all.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: &c.Templates[0].Name}}
	only := Real(func(node *corev1.Node) bool { return node.Name != c.Nodes[2].Name })
	if r, err := m.PlaceMany(t.Context(), shapeOf(t, m, all), 16, only, FirstFit); err != nil || !r.All() {
		t.Fatal(r, err)
	}
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "default", "extended"
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}}}}
	r, err := m.Place(t.Context(), pod, Real(nil), Pack)
	if err != nil || chosen(&r) != c.Nodes[1].Name {
		t.Errorf("the pod is on %q, want %q, where a device plugin has the resource and all devices are in use: %v", chosen(&r), c.Nodes[1].Name, err)
	}
	if len(m.ranked) == 0 {
		t.Error("no nodes were ranked")
	}
}

func shapeOf(t *testing.T, m *Sim, pod *corev1.Pod) *Shape {
	t.Helper()
	shapes, err := m.State().Shapes([]*corev1.Pod{pod})
	if err != nil {
		t.Fatal(err)
	}
	return shapes[0]
}

// Kinds of pods that ask for the same of nodes share what is known of nodes, and score one of each class.
func TestRankedNodesAreShared(t *testing.T) {
	RunUsual(t)
	const nodes, kinds = 1000, 10
	c, pods := large(nodes, kinds)
	state, err := Open(c, Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	m := state.Sim()
	scored := 0
	policy := NodePolicy{lasting: 1, score: func(c NodeClass) float64 { scored++; return c.InUse }}
	for _, pod := range pods[:kinds] {
		if r, err := m.Place(t.Context(), pod, Real(nil), policy); err != nil || !r.All() {
			t.Fatal(r, err)
		}
	}
	if len(m.admitted) != 1 || len(m.ranked) != kinds {
		t.Errorf("%d sets of nodes are kept for %d kinds of pods, want 1 for %d", len(m.admitted), len(m.ranked), kinds)
	}
	if scored == 0 || scored > 2*kinds*kinds {
		t.Errorf("%d nodes were scored for %d kinds of pods", scored, kinds)
	}
}

func chosen(r *Result) string {
	for p := range r.Placements() {
		return p.Node.Name()
	}
	return ""
}
