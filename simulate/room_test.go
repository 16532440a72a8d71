// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/simulate"
)

// roomy is a state with a node that has four GPUs and CPU, and a template like it.
func roomy(t *testing.T) (*simulate.State, *simulate.Template) {
	c := gpuCluster("a", "b")
	c.Nodes[0].Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2500m"), "example.com/fast": resource.MustParse("3")}
	c.Nodes[1].Labels = map[string]string{"zone": "b"}
	shared := &resourceapi.ResourceClaim{}
	shared.Namespace, shared.Name = "default", "shared"
	shared.Spec.Devices = gpuTemplate("one", 1).Spec.Spec.Devices
	c.Claims = append(c.Claims, shared)
	state := open(t, c, simulate.Options{})
	template, err := state.TemplateOf("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	return state, template
}

// Pods taken one after the other are those that Put places, on a real node and on one of a template.
func TestRoomTakesLikePut(t *testing.T) {
	simulate.RunUsual(t) // devices that are not remembered are never the same
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		state, template := roomy(t)
		sim := state.Sim()
		if err := sim.Add(template, 1); err != nil {
			t.Fatal(err)
		}
		node := template.At(0)
		if random.IntN(2) == 0 {
			var err error
			if node, err = state.Node("b"); err != nil {
				t.Fatal(err)
			}
		}
		room, err := sim.State().Room(node)
		if err != nil {
			t.Fatal(err)
		}
		for range 6 {
			pods := gpuPods([]string{"one", "two", "three"}[random.IntN(3)], 1)
			before := room.Devices()
			next, fit, err := room.Take(t.Context(), shapeOf(t, state, pods))
			if err != nil {
				t.Fatal(err)
			}
			result, err := sim.Put(t.Context(), pods[0], node)
			if err != nil || result.Placed != fit.Pods || fit.Undecided != 0 || room.Devices() != before {
				t.Fatalf("seed %d: %+v, Put placed %d, %v", seed, fit, result.Placed, err)
			}
			if room = next; (room.Devices() != before) != (fit.Pods == 1) {
				t.Fatalf("seed %d: the devices changed: %t, after %d pods", seed, room.Devices() != before, fit.Pods)
			}
			after, err := sim.State().Room(node)
			if err != nil || after.Devices() != room.Devices() {
				t.Fatalf("seed %d: the devices differ from those after Put, %v", seed, err)
			}
		}
	}
}

// Room returns the free resources of a node, and what pods need of these.
func TestRoomTellsResources(t *testing.T) {
	state, _ := roomy(t)
	pod := gpuPods("one", 1)[0]
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1200m")}}}}
	sim, shape := state.Sim(), shapeOf(t, state, []*corev1.Pod{pod})
	if _, err := sim.Place(t.Context(), pod, simulate.Real(nil), simulate.FirstFit); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "1300m", "b": ""} {
		node, err := state.Node(name)
		if err != nil {
			t.Fatal(err)
		}
		room, err := sim.State().Room(node)
		if err != nil {
			t.Fatal(err)
		}
		free := room.Free()
		if cpu, listed := free[corev1.ResourceCPU]; listed != (want != "") || listed && cpu.String() != want || (free == nil) != (want == "") {
			t.Errorf("node %s has %v left, want %q of CPU", name, free, want)
		}
		if fast := free["example.com/fast"]; want != "" && fast.String() != "3" {
			t.Errorf("node %s has %s left of another resource", name, fast.String())
		}
		needs, err := room.Needs(shape)
		if cpu := needs[corev1.ResourceCPU]; err != nil || cpu.String() != "1200m" {
			t.Errorf("on node %s the pod needs %v, %v", name, needs, err)
		}
	}
}

func TestRoomRefuses(t *testing.T) {
	state, template := roomy(t)
	if _, err := state.Room(template.At(0)); err == nil || !strings.Contains(err.Error(), "a-new-0 does not exist") {
		t.Errorf("a node that was not added: %v", err)
	}
	undecided, err := state.Any("any", template)
	if err != nil {
		t.Fatal(err)
	}
	sim := state.Sim()
	if err := sim.Add(undecided, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := sim.State().Room(undecided.At(0)); !errors.Is(err, simulate.ErrUndecidedNode) {
		t.Errorf("an undecided node: %v", err)
	}
	node, err := state.Node("b")
	if err != nil {
		t.Fatal(err)
	}
	room, err := state.Room(node)
	if err != nil {
		t.Fatal(err)
	}
	pods := gpuPods("one", 1)
	pods[0].Spec.ResourceClaims[0].ResourceClaimTemplateName, pods[0].Spec.ResourceClaims[0].ResourceClaimName = nil, new("shared")
	if _, _, err := room.Take(t.Context(), shapeOf(t, state, pods)); !errors.Is(err, simulate.ErrNotAlone) {
		t.Errorf("a claim that others may use: %v", err)
	}
	pods = gpuPods("one", 1)
	pods[0].Spec.NodeSelector = map[string]string{"zone": "a"}
	if _, fit, err := room.Take(t.Context(), shapeOf(t, state, pods)); err != nil || fit != (simulate.Fit{}) {
		t.Errorf("a pod that the node does not admit: %+v, %v", fit, err)
	}
	if _, _, err := room.Take(t.Context(), nil); err == nil {
		t.Error("no shape is no error")
	}
}

// A Room answers goroutines at once as it answers one.
func TestRoomAtOnce(t *testing.T) {
	state, _ := roomy(t)
	node, err := state.Node("b")
	if err != nil {
		t.Fatal(err)
	}
	room, err := state.Room(node)
	if err != nil {
		t.Fatal(err)
	}
	var shapes []*simulate.Shape
	for _, kind := range []string{"one", "two", "three"} {
		shapes = append(shapes, shapeOf(t, state, gpuPods(kind, 1)))
	}
	found := make([][]int, 8)
	var all sync.WaitGroup
	for i := range found {
		all.Go(func() {
			for _, first := range shapes {
				next, fit, err := room.Take(t.Context(), first)
				if err != nil {
					t.Error(err)
					return
				}
				found[i] = append(found[i], fit.Pods)
				for _, then := range shapes {
					_, fit, err := next.Take(t.Context(), then)
					if err != nil {
						t.Error(err)
						return
					}
					found[i] = append(found[i], fit.Pods)
				}
			}
		})
	}
	all.Wait()
	for _, one := range found {
		if len(one) != 12 || !slices.Equal(one, found[0]) || !slices.Contains(one, 0) || !slices.Contains(one, 1) {
			t.Errorf("%v, another goroutine has %v", one, found[0])
		}
	}
}
