// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/simulate"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/karpenter/pkg/scheduling/dynamicresources"
)

// crew is a cluster of nodes with eight GPUs, on which pods run with a claim each, for one GPU or for two.
type crew struct {
	*alloctest.Case
	template [2]*resourceapi.ResourceClaimTemplate
	pods     []*corev1.Pod
	claims   map[string][]*resourceapi.ResourceClaim // by node, in the order of the pods
}

const gpusPerNode = 8

// newCrew makes a cluster with so many GPUs in use on each node, by pods with one GPU, or with two as far as possible.
func newCrew(nodes int, inUse func(node int) int, pairs func(node int) bool) *crew {
	c := &crew{Case: &alloctest.Case{Features: allocator.AllFeatures(), Classes: mixed().Classes}, claims: make(map[string][]*resourceapi.ResourceClaim)}
	for i := range c.template {
		c.template[i] = &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: []string{"one", "two"}[i]}}
		c.template[i].Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(i) + 1,
		}}}
	}
	for n := range nodes {
		name := fmt.Sprintf("node-%04d", n)
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &name, Pool: resourceapi.ResourcePool{Name: name, ResourceSliceCount: 1},
		}}
		for gpu := range gpusPerNode {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", gpu), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"uuid": {StringValue: ptr.To(fmt.Sprintf("%s/%d", name, gpu))},
			}})
		}
		c.Nodes = append(c.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		c.Slices = append(c.Slices, slice)
		size := 1
		if pairs(n) {
			size = 2
		}
		for used, want := 0, inUse(n); used < want; {
			used += c.run(name, used, min(size, want-used))
		}
	}
	return c
}

// run adds a pod that has GPUs of a node.
func (c *crew) run(node string, first, count int) int {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pod-%d", len(c.pods)), UID: types.UID(fmt.Sprintf("pod-%d", len(c.pods)))}}
	template := c.template[count-1]
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: pod.Name + "-gpu", UID: pod.UID + "-gpu",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))},
	}, Spec: template.Spec.Spec}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	for gpu := range count {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "gpu", Driver: "gpu.example.com", Pool: node, Device: fmt.Sprintf("gpu-%d", first+gpu),
		})
	}
	pod.Spec.NodeName = node
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template.Name}}
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &claim.Name}}
	c.pods, c.Allocated = append(c.pods, pod), append(c.Allocated, claim)
	c.claims[node] = append(c.claims[node], claim)
	return count
}

// karpenterCrew is what Karpenter keeps from one simulation to the next: slices and nodes as its scheduler shows
// them to its allocator.
type karpenterCrew struct {
	*crew
	slices []dynamicresources.ResourceSlice
	nodes  []*existingNode
}

// without is what Karpenter's disruption.SimulateScheduling does about devices for one candidate: a new allocator
// without the slices of the node, to which the devices of its pods are free and their claims open, is asked node by
// node about one pod after the other, and told where it goes. It returns where the pods go, and whether all do.
func (k *karpenterCrew) without(ctx context.Context, candidate int) ([]string, bool, error) {
	name := k.nodes[candidate].name
	claims := k.claims[name]
	deleting, leaving := sets.New[types.UID](), sets.New[*resourceapi.ResourceClaim](claims...)
	for _, claim := range claims {
		deleting.Insert(claim.Status.ReservedFor[0].UID)
	}
	staying := *k.Case
	staying.Allocated = slices.DeleteFunc(slices.Clone(k.Allocated), leaving.Has)
	others := slices.Concat(k.slices[:candidate], k.slices[candidate+1:])
	a := dynamicresources.NewAllocator(others, inUse(&staying), nil, newClassReader(k.Classes), deleting)
	var places []string
	for _, claim := range claims {
		place, err := k.place(ctx, a, candidate, claim)
		if err != nil || place == "" {
			return places, false, err
		}
		places = append(places, place)
	}
	return places, true, nil
}

// place takes the first node on which there are devices for a claim. The name is empty if there is none.
func (k *karpenterCrew) place(ctx context.Context, a *dynamicresources.Allocator, candidate int, claim *resourceapi.ResourceClaim) (string, error) {
	for i, node := range k.nodes {
		if i == candidate {
			continue
		}
		result, err := a.Allocate(ctx, node, []*resourceapi.ResourceClaim{claim})
		switch {
		case err == nil && result.Allocation == nil:
			return "", fmt.Errorf("the claim %s of a pod that leaves is not open", claim.Name)
		case err == nil:
			result.Allocation.Commit(ctx)
			return node.name, nil
		case err.Error() != noInstanceType:
			return "", err
		}
	}
	return "", nil
}

func (c *crew) karpenter() *karpenterCrew {
	return &karpenterCrew{crew: c, slices: published(c.Slices), nodes: existingNodes(c.Nodes)}
}

func (c *crew) dray(tb testing.TB) *simulate.State {
	tb.Helper()
	state, err := simulate.Open(simulate.Cluster{Nodes: c.Nodes, Slices: c.Slices, Classes: c.Classes, Claims: c.Allocated, Templates: c.template[:], Pods: c.pods}, simulate.Options{Features: c.Features})
	if err != nil {
		tb.Fatal(err)
	}
	if faults := state.Faults(); len(faults) > 0 {
		tb.Fatal(faults[0])
	}
	return state
}

// drainable asks Dray which nodes can go.
func drainable(tb testing.TB, state *simulate.State) []simulate.Departure {
	tb.Helper()
	found, err := state.Drainable(tb.Context(), simulate.Real(nil), simulate.Real(nil), simulate.FirstFit)
	if err != nil {
		tb.Fatal(err)
	}
	return found
}

// agree wants Karpenter and Dray to say the same of each node, and to put the pods of those that can go on the same
// nodes. It returns how many can go.
func (c *crew) agree(tb testing.TB) int {
	tb.Helper()
	state, k := c.dray(tb), c.karpenter()
	possible := 0
	for i, departure := range drainable(tb, state) {
		if departure.Err != nil || departure.Undecided {
			tb.Fatalf("%s: %+v", departure.Node.Name(), departure)
		}
		want, can, err := k.without(tb.Context(), i)
		if err != nil {
			tb.Fatal(err)
		}
		if departure.Possible != can {
			tb.Fatalf("%s can go: %t, Karpenter: %t", departure.Node.Name(), departure.Possible, can)
		}
		if !can {
			continue
		}
		possible++
		result, err := state.Sim().Drain(tb.Context(), simulate.Real(nil), simulate.FirstFit, departure.Node.Name())
		if err != nil {
			tb.Fatal(err)
		}
		var got []string
		for p := range result.Placements() {
			got = append(got, p.Node.Name())
		}
		if !slices.Equal(got, want) {
			tb.Fatalf("the pods of %s go to %v, Karpenter's to %v", departure.Node.Name(), got, want)
		}
	}
	return possible
}

// TestConsolidation wants both to find the same nodes that can go, where there is room for some of them only: most
// nodes that have a GPU left have one, which is of no use for pods with two.
func TestConsolidation(t *testing.T) {
	const nodes = 24
	for roomy := range 3 { // nodes with two GPUs left
		c := newCrew(nodes, func(node int) int {
			switch {
			case node < roomy:
				return gpusPerNode - 2
			case node%2 == 0:
				return gpusPerNode - 1
			}
			return gpusPerNode
		}, func(node int) bool { return node%3 == 0 })
		possible := c.agree(t)
		if possible == 0 || possible == nodes {
			t.Errorf("%d of %d nodes can go", possible, nodes)
		}
	}
}

// BenchmarkConsolidation finds out which of 1,000 nodes can go, with nine of ten GPUs in use. Karpenter, which makes
// an allocator for each candidate, has its part about devices timed: its own simulation looks at pods, taints and other
// resources of all nodes besides. Dray is measured on a State that was asked nothing yet, and on one after a pod was
// placed.
func BenchmarkConsolidation(b *testing.B) {
	const nodes = 1000
	c := newCrew(nodes, func(node int) int { return gpusPerNode - node*7%5%3 }, func(node int) bool { return node%2 == 0 }) // 8, 6, 7, 7, 8 in use
	b.Run("impl=karpenter", func(b *testing.B) {
		k := c.karpenter()
		m := newMeter(b)
		for m.loop() {
			for i := range k.nodes {
				if _, can, err := k.without(b.Context(), i); err != nil || !can {
					b.Fatal(can, err)
				}
			}
		}
		m.report("node", nodes)
	})
	all := func(b *testing.B, state *simulate.State) {
		for _, departure := range drainable(b, state) {
			if !departure.Possible {
				b.Fatalf("%s cannot go", departure.Node.Name())
			}
		}
	}
	b.Run("impl=dray/state=new", func(b *testing.B) {
		m := newMeter(b)
		for m.loop() {
			var state *simulate.State
			m.aside(func() { state = c.dray(b) })
			all(b, state)
		}
		m.report("node", nodes)
	})
	b.Run("impl=dray/state=changed", func(b *testing.B) {
		state := c.dray(b)
		all(b, state)
		pod := c.pods[0].DeepCopy()
		pod.Name, pod.Spec.NodeName, pod.Status = "new", "", corev1.PodStatus{}
		m := newMeter(b)
		for m.loop() {
			var after *simulate.State
			m.aside(func() {
				sim := state.Sim()
				if result, err := sim.Place(b.Context(), pod, simulate.Real(nil), simulate.FirstFit); err != nil || !result.All() {
					b.Fatal(err)
				}
				after = sim.State()
			})
			all(b, after)
		}
		m.report("node", nodes)
	})
}
