// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

// large is a cluster of nodes with GPUs, and as many kinds of pods.
func large(nodes, kinds int) (Cluster, []*corev1.Pod) {
	class := &resourceapi.DeviceClass{}
	class.Name = "gpu"
	c := Cluster{Classes: []*resourceapi.DeviceClass{class}}
	for i := range nodes {
		node, slice := &corev1.Node{}, &resourceapi.ResourceSlice{}
		node.Name = fmt.Sprintf("node-%03d", i)
		slice.Name = node.Name
		slice.Spec = resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: ptr.To(node.Name), Pool: resourceapi.ResourcePool{Name: node.Name, Generation: 1, ResourceSliceCount: 1},
		}
		for d := range 8 {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", d)})
		}
		c.Nodes, c.Slices = append(c.Nodes, node), append(c.Slices, slice)
	}
	var pods []*corev1.Pod
	for i := range kinds {
		template, pod := &resourceapi.ResourceClaimTemplate{}, &corev1.Pod{}
		template.Namespace, template.Name = "default", fmt.Sprint("kind-", i)
		template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: fmt.Sprint("r", i), Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
		}}}
		pod.Namespace, pod.Name = "default", template.Name
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template.Name}}
		c.Templates, pods = append(c.Templates, template), append(pods, pod)
	}
	return c, pods
}

// Results that were derived from unchanged objects are kept: slices that were read, compiled claims, results
// of Options.NodeFit, and searches.
func TestUpdateKeeps(t *testing.T) {
	RunUsual(t)
	const nodes, kinds = 40, 3
	c, pods := large(nodes, kinds)
	asked := 0
	state, err := Open(c, Options{Features: allocator.AllFeatures(), NodeFit: NodeFit{Fits: func(*corev1.Pod, *corev1.Node) (bool, error) {
		asked++
		return true, nil
	}}})
	if err != nil {
		t.Fatal(err)
	}
	count := func(s *State) (questions, answers int) {
		shapes, err := s.Shapes(pods)
		if err != nil {
			t.Fatal(err)
		}
		for _, shape := range shapes {
			if found, err := s.FitsMany(t.Context(), shape, Real(nil)); err != nil || found.Pods != 8*len(s.world.nodes) {
				t.Fatalf("%d pods fit, %v", found.Pods, err)
			}
		}
		kept := s.world.Sizes()
		return kept.Questions, kept.Answers
	}
	questions, answers := count(state)
	perWorld := kinds * nodes
	if questions != kinds || answers != kinds || asked != perWorld+kinds {
		t.Fatalf("%d questions, %d answers about free nodes, asked %d times; want %d, %d, %d", questions, answers, asked, kinds, kinds, perWorld+kinds)
	}

	// One node has other slices, one is another object, one is gone, one is new and one has moved.
	c.Slices, c.Nodes = slices.Clone(c.Slices), slices.Clone(c.Nodes)
	c.Slices[3] = c.Slices[3].DeepCopy()
	c.Nodes[5] = c.Nodes[5].DeepCopy()
	more, _ := large(nodes+1, kinds)
	c.Nodes, c.Slices = append(c.Nodes[1:], more.Nodes[nodes]), append(c.Slices, more.Slices[nodes])
	next, err := state.Update(c)
	if err != nil {
		t.Fatal(err)
	}
	var again []string
	for _, inv := range next.world.nodes {
		before, known := state.world.byName[inv.Node.Name]
		if !known || state.world.nodes[before].Pools[0].PoolFacts != inv.Pools[0].PoolFacts {
			again = append(again, inv.Node.Name)
		}
	}
	if want := []string{"node-003", "node-005", "node-040"}; !slices.Equal(again, want) {
		t.Errorf("read again: %v, want %v", again, want)
	}
	before := asked
	questions, answers = count(next)
	if questions != kinds || answers != kinds {
		t.Errorf("after the update: %d questions, %d answers about free nodes; want %d, %d as before", questions, answers, kinds, kinds)
	}
	// Each kind is checked once, and asked about the new object and the new node.
	if n := asked - before; n != kinds+2*kinds {
		t.Errorf("NodeFit was asked %d times after the update, want %d", n, 3*kinds)
	}
}

// Nothing is read again if the lists have the same objects in another order, as those of an informer have each time.
func TestUpdateKeepsInAnyOrder(t *testing.T) {
	RunUsual(t)
	c, _ := large(4, 0)
	for _, first := range slices.Clone(c.Slices) {
		first.Spec.Pool.ResourceSliceCount = 2
		second := first.DeepCopy()
		second.Name, second.Spec.Devices = second.Name+"-more", []resourceapi.Device{{Name: "more"}}
		c.Slices = append(c.Slices, second)
	}
	for _, pool := range []string{"nic", "storage"} {
		everywhere := &resourceapi.ResourceSlice{}
		everywhere.Name = pool
		everywhere.Spec = resourceapi.ResourceSliceSpec{Driver: "net.example.com", AllNodes: ptr.To(true), Pool: resourceapi.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 1}}
		c.Slices = append(c.Slices, everywhere)
	}
	for _, device := range []string{"gpu-1", "gpu-2"} {
		rule := &resourceapi.DeviceTaintRule{}
		rule.Name = device
		rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: ptr.To("gpu.example.com"), Device: ptr.To(device)}
		rule.Spec.Taint = resourceapi.DeviceTaint{Key: "sick", Effect: resourceapi.DeviceTaintEffectNoSchedule}
		c.TaintRules = append(c.TaintRules, rule)
	}
	state, err := Open(c, Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(c.Slices)
	slices.Reverse(c.Nodes)
	slices.Reverse(c.TaintRules)
	next, err := state.Update(c)
	if err != nil {
		t.Fatal(err)
	}
	if next.world.shared != state.world.shared {
		t.Error("the pools of all nodes are read again")
	}
	for _, inv := range next.world.nodes {
		if before := state.world.nodes[state.world.byName[inv.Node.Name]]; before.Inventory != inv.Inventory {
			t.Errorf("node %s is read again", inv.Node.Name)
		}
	}
}

// The memory does not grow with the number of updates.
func TestMemoryDoesNotGrowWithUpdates(t *testing.T) {
	RunUsual(t)
	c, pods := large(20, 1)
	state, err := Open(c, Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	var kept onenode.Sizes
	for round := range 700 {
		c.Slices = slices.Clone(c.Slices)
		changed := c.Slices[round%20].DeepCopy()
		changed.Spec.Devices[0].Taints = []resourceapi.DeviceTaint{{Key: fmt.Sprint("round-", round), Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		c.Slices[round%20] = changed
		c.Templates = slices.Clone(c.Templates)
		c.Templates[0] = c.Templates[0].DeepCopy()
		c.Templates[0].Spec.Spec.Devices.Requests[0].Name = fmt.Sprint("round-", round)
		if state, err = state.Update(c); err != nil {
			t.Fatal(err)
		}
		shapes, err := state.Shapes(pods)
		if err != nil {
			t.Fatal(err)
		}
		if found, err := state.FitsMany(t.Context(), shapes[0], Real(nil)); err != nil || found.Pods != 160-min(round+1, 20) {
			t.Fatalf("round %d: %d pods fit, %v", round, found.Pods, err)
		}
		kept = state.world.Sizes()
		most = max(most, kept.Contents, kept.Devices-4*8*20)
		if n := len(maps.Collect(state.world.kinds.All)); n != 1 || len(state.world.kindsBefore) > 1 {
			t.Fatalf("round %d: %d kinds are known, and %d of before", round, n, len(state.world.kindsBefore))
		}
	}
	// Both may grow to what outgrown allows, and by what one update brings beyond.
	if limit := 2*20 + 256 + 160; most > limit {
		t.Errorf("%d contents or devices are known, want at most %d", most, limit)
	}
}
