// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate"
)

// drawEqualPods is a cluster with pods in place, and a gang of equal pods: with whole GPUs, with a NIC too, with parts of
// GPUs, or without devices.
func drawEqualPods(r *rand.Rand) (c simulate.Cluster, like *corev1.Pod) {
	if r.IntN(3) == 0 {
		l := drawLevels(r, false, true)
		c = l.cluster()
		for n, name := range l.rack {
			if name != "" {
				c.Nodes[n].Labels["rack"] = name
			}
		}
		template := c.Templates[0]
		if r.IntN(2) == 0 { // any part: the first are whole GPUs, of which fewer fit than of quarters
			template.Spec.Spec.Devices.Requests[0] = resourceapi.DeviceRequest{Name: "part", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: "part", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
			}}
		}
		like = gpuPods(template.Name, 1)[0]
	} else {
		w := newGangWorld(r, allocator.FirstFit{})
		c, like = w.cluster, w.shapes[r.IntN(len(w.shapes))].DeepCopy()
		for _, node := range c.Nodes {
			node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(r.IntN(8)), resource.DecimalSI)}
		}
	}
	like.Namespace, like.Name = "default", "like"
	if r.IntN(4) == 0 {
		like.Spec.ResourceClaims = nil
	}
	if r.IntN(2) == 0 {
		like.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewQuantity(int64(1+r.IntN(2)), resource.DecimalSI),
		}}}}
	}
	return c, like
}

// gangText is all that a result says.
func gangText(t *testing.T, r *simulate.Result) string {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "placed %d, unfit %d, undecided %d, no proof %t, error %v\n", r.Placed, r.Unfit, r.Undecided, r.NoProof, r.Err)
	for _, in := range r.Domain {
		fmt.Fprintln(&text, "in", in)
	}
	if r.Closest != nil {
		fmt.Fprintln(&text, "closest", *r.Closest)
	}
	for p := range r.Placements() {
		claims, err := p.Claims(t.Context())
		must(t, err)
		for _, claim := range claims {
			fmt.Fprintln(&text, p.Pod.Name, p.Node.Name(), claim.Status.Allocation.Devices.Results)
		}
	}
	refusals, err := r.Why(t.Context())
	must(t, err)
	for i := range refusals {
		fmt.Fprintln(&text, refusals[i].String())
	}
	return text.String()
}

// Pods of a gang that are counted have the answers, and the explanations, of pods that are placed and asked about together.
func TestCountedGangsAreLikePlacedOnes(t *testing.T) {
	refused, more := 0, 0
	for seed := range uint64(700) {
		r := rand.New(rand.NewPCG(seed, 77))
		c, like := drawEqualPods(r)
		before, count, perNode := r.IntN(3), 1+r.IntN(9), max(0, r.IntN(5)-2)
		topologies := [][]simulate.Topology{nil, {rack}, {{NodeLabel: "rack", Preferred: true}}, {{DeviceAttribute: fabric}}, {rack, {DeviceAttribute: fabric, Preferred: true}}}[r.IntN(5)]
		var texts []string
		for _, state := range []*simulate.State{open(t, c, simulate.Options{}), simulate.PlacesGangs(open(t, c, simulate.Options{}))} {
			shape := shapeOf(t, state, []*corev1.Pod{like})
			on, sim := simulate.Real(nil), state.Sim()
			_, err := sim.PlaceMany(t.Context(), shape, before, on, simulate.FirstFit)
			must(t, err)
			if seed%3 == 0 {
				template, err := state.TemplateOf(c.Nodes[0].Name, nil)
				must(t, err)
				must(t, sim.Add(template, int(seed%2)+1))
				on = simulate.Union(on, simulate.Added(template))
			}
			result, err := sim.Gang(t.Context(), []simulate.Demand{{Shape: shape, Count: count, PerNode: perNode}}, topologies, on, simulate.FirstFit)
			must(t, err)
			if texts = append(texts, gangText(t, &result)); len(texts) == 1 && !result.All() {
				refused++
				if result.Closest != nil && result.Closest.Placed > 0 {
					more++
				}
			}
		}
		if texts[0] != texts[1] {
			t.Errorf("seed %d: counted\n%s\nplaced\n%s", seed, texts[0], texts[1])
		}
	}
	if refused < 200 || more < 100 {
		t.Errorf("%d gangs were refused, and of %d some pods fit: too few", refused, more)
	}
}
