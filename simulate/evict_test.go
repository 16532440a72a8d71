// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
)

// Drainable returns for each node the result of draining it.
func TestDrainableIsWhatDrainSays(t *testing.T) {
	seen := make(map[string]int)
	for seed := range uint64(80) {
		c := newCrowd(t, seed)
		state := c.open()
		template, err := state.TemplateOf("node-0", nil)
		if err != nil {
			t.Fatal(err)
		}
		sim := state.Sim()
		for range 10 {
			c.change(sim)
			sets := []Nodes{
				Real(nil), Real(func(node *corev1.Node) bool { return node.Name != "node-1" }), Union(Real(nil), New(template, 1)), Union(Real(nil), Real(nil)),
			}
			c.drainable(sim.State(), sets[c.rand.IntN(len(sets))], []NodePolicy{FirstFit, FirstFit, Spread}[c.rand.IntN(3)], seen)
		}
	}
	for _, kind := range []string{"room", "tried", "tried: no", "same node", "joined", "possible", "impossible", "undecided"} {
		if seen[kind] == 0 {
			t.Errorf("never: %s; seen: %v", kind, seen)
		}
	}
}

// Claims of pods that stay nowhere, too, free their devices when the node goes, wherever these are.
func TestDrainableAfterDevicesOfOthersAreFree(t *testing.T) {
	c, pods := large(2, 1)
	for i := range c.Slices {
		c.Slices[i].Spec.Devices = c.Slices[i].Spec.Devices[:1]
	}
	for i, device := range []string{"node-000", "node-001"} {
		pod := pods[0].DeepCopy()
		pod.Name, pod.UID, pod.Spec.NodeName = device, types.UID(device), "node-000"
		if i == 1 {
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: ptr.To(true)}}
		}
		claim := &resourceapi.ResourceClaim{Spec: c.Templates[0].Spec.Spec}
		claim.Namespace, claim.Name, claim.UID = pod.Namespace, "claim-"+device, types.UID(device)
		claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
		claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
			{Request: "r0", Driver: "gpu.example.com", Pool: device, Device: "gpu-0"},
		}}}
		pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &claim.Name}}
		c.Pods, c.Claims = append(c.Pods, pod), append(c.Claims, claim)
	}
	state, err := Open(c, Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	found, err := state.Drainable(t.Context(), Real(nil), Real(nil), FirstFit)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 2 || !found[0].Possible || !found[1].Possible {
		t.Errorf("%+v: want both possible, the first as its daemon's device on the other node is free then", found)
	}
}

// A pod that cannot be understood is an error of its node alone.
func TestDrainableNamesWhatIsWrong(t *testing.T) {
	c, pods := large(2, 1)
	pod := pods[0].DeepCopy()
	pod.Spec.NodeName, pod.Spec.ResourceClaims[0].ResourceClaimTemplateName = "node-001", ptr.To("missing")
	c.Pods = append(c.Pods, pod)
	state, err := Open(c, Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	found, err := state.Drainable(t.Context(), Real(nil), Real(nil), FirstFit)
	if err != nil {
		t.Fatal(err)
	}
	_, want := state.Sim().Drain(t.Context(), Real(nil), FirstFit, "node-001")
	if want == nil || found[0].Err != nil || !found[0].Possible || found[1].Possible || found[1].Err == nil || found[1].Err.Error() != want.Error() {
		t.Errorf("%+v; Drain says %v", found, want)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := state.Drainable(cancelled, Real(nil), Real(nil), FirstFit); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func (c *crowd) drainable(s *State, on Nodes, p NodePolicy, seen map[string]int) {
	got, err := s.Drainable(c.Context(), Real(nil), on, p)
	if err != nil {
		c.Fatal(err)
	}
	asked := 0
	for i, node := range c.cluster.Nodes {
		if s.data.real.At(i).gone {
			continue
		}
		if asked == len(got) || got[asked].Node.Name() != node.Name {
			c.Fatalf("nothing is said of node %s", node.Name)
		}
		found := got[asked]
		asked++
		want, err := s.Sim().Drain(c.Context(), on, p, node.Name)
		if err != nil {
			c.Fatal(err)
		}
		if found.Possible != want.All() || found.Undecided != (want.Undecided > 0) {
			c.Fatalf("node %s: possible %t, undecided %t; drained, %d pods are placed, %d are unfit, %d undecided", node.Name, found.Possible, found.Undecided, want.Placed, want.Unfit, want.Undecided)
		}
		switch {
		case want.Undecided > 0:
			seen["undecided"]++
		case want.All():
			seen["possible"]++
		default:
			seen["impossible"]++
		}
	}
	if asked != len(got) {
		c.Fatalf("%d nodes, of %d", len(got), asked)
	}
	c.ways(s, on, p, seen)
}

// ways counts in which ways nodes are found out about.
func (c *crowd) ways(s *State, on Nodes, p NodePolicy, seen map[string]int) {
	leaving := s.leaving(Real(nil))
	s = s.withReadSet()
	e := &drainer{state: s, on: on.limited(&s.data), policy: p, countable: on.disjoint(), rooms: make(map[*podKind]int), trials: make(map[string]*trial)}
	for _, l := range leaving {
		roomy, separate, err := e.enoughNodes(c.Context(), l)
		if err != nil {
			c.Fatal(err)
		}
		switch {
		case roomy && l.pods > 0:
			seen["room"]++
		case roomy:
		case !separate:
			seen["joined"]++
		case p.score == nil:
			tried, err := e.trial(c.Context(), l)
			if err != nil {
				c.Fatal(err)
			}
			switch {
			case slices.Contains(tried.nodes, l.node):
				seen["same node"]++
			case tried.definite && !tried.placed:
				seen["tried: no"]++
			case tried.definite:
				seen["tried"]++
			}
		}
	}
}
