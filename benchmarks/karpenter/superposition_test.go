// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/simulate"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	offeredTypes = 500
	zones        = 3
	offeredPods  = 4 // each with a GPU
)

// mixed is many instance types with one to ten GPUs.
func mixed() *alloctest.Case {
	c := &alloctest.Case{Features: allocator.AllFeatures(), Classes: []*resourceapi.DeviceClass{{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
		Spec:       resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}}},
	}}}
	for i := range offeredTypes {
		name := fmt.Sprintf("type-%03d", i)
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &name, Pool: resourceapi.ResourcePool{Name: name, ResourceSliceCount: 1},
		}}
		for gpu := range 1 + i%10 {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", gpu)})
		}
		c.Nodes = append(c.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		c.Slices = append(c.Slices, slice)
	}
	for i := range offeredPods {
		c.Claims = append(c.Claims, &resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("claim-", i)},
			Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
			}}}}},
		})
	}
	return c
}

// superposed has Karpenter place the pods on one node that can be of any type, and returns which types
// are left.
func superposed(ctx context.Context, s *session, o *offer, claims []*resourceapi.ResourceClaim) ([]string, error) {
	for _, claim := range claims {
		result, err := s.allocator.Allocate(ctx, o, []*resourceapi.ResourceClaim{claim})
		if err != nil {
			return nil, err
		}
		result.Allocation.Commit(ctx)
		o.types = result.InstanceTypes
	}
	var left []string
	for _, id := range o.types {
		left = append(left, id.Value())
	}
	slices.Sort(left)
	return left, nil
}

// undecided is the same for Dray: each type is in three zones.
type undecided struct {
	state *simulate.State
	any   *simulate.Template
	shape *simulate.Shape
}

func newUndecided(tb testing.TB, c *alloctest.Case) *undecided {
	tb.Helper()
	cluster := simulate.Cluster{Classes: c.Classes, Claims: c.Claims}
	var pods []*corev1.Pod
	for i, claim := range c.Claims {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("pod-", i)}, Spec: corev1.PodSpec{
			ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &c.Claims[0].Name}},
		}})
		if i == 0 {
			cluster.Templates = []*resourceapi.ResourceClaimTemplate{{ObjectMeta: claim.ObjectMeta, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: claim.Spec}}}
		}
	}
	cluster.Claims = nil
	state, err := simulate.Open(cluster, simulate.Options{Features: c.Features})
	if err != nil {
		tb.Fatal(err)
	}
	var templates []*simulate.Template
	for i, node := range c.Nodes {
		for zone := range zones {
			node := node.DeepCopy()
			node.Labels = map[string]string{corev1.LabelInstanceTypeStable: node.Name, corev1.LabelTopologyZone: fmt.Sprint("zone-", zone)}
			node.Name = fmt.Sprintf("%s-%d", node.Name, zone)
			slice := c.Slices[i].DeepCopy()
			slice.Name, slice.Spec.NodeName, slice.Spec.Pool.Name = node.Name, &node.Name, node.Name
			template, err := state.Template(simulate.TemplateSpec{Node: node, Slices: []*resourceapi.ResourceSlice{slice}})
			if err != nil {
				tb.Fatal(err)
			}
			templates = append(templates, template)
		}
	}
	any, err := state.Any("any", templates...)
	if err != nil {
		tb.Fatal(err)
	}
	shapes, err := state.Shapes(pods)
	if err != nil || len(shapes) != 1 {
		tb.Fatalf("%d kinds of pods, %v", len(shapes), err)
	}
	return &undecided{state, any, shapes[0]}
}

// place returns a simulation with the pods on one new node.
func (u *undecided) place(tb testing.TB) (*simulate.Sim, simulate.Node) {
	tb.Helper()
	sim := u.state.Sim()
	result, err := sim.PlaceMany(tb.Context(), u.shape, offeredPods, simulate.New(u.any, 1), simulate.FirstFit)
	if err != nil || result.Placed != offeredPods {
		tb.Fatalf("%d pods placed, %v", result.Placed, err)
	}
	for p := range result.Placements() {
		return sim, p.Node
	}
	panic("no pod was placed")
}

// TestSuperposition wants both to find the same types left.
func TestSuperposition(t *testing.T) {
	c := mixed()
	bare := *c
	bare.Slices = nil
	want, err := superposed(t.Context(), newSession(&bare, nil), newOffer(c), c.Claims)
	if err != nil {
		t.Fatal(err)
	}
	if len(want) != offeredTypes*7/10 { // those with four GPUs or more
		t.Fatalf("%d types are left to Karpenter", len(want))
	}
	sim, node := newUndecided(t, c).place(t)
	left := make(map[string]int)
	for _, template := range sim.Options(node) {
		left[template.Node().Labels[corev1.LabelInstanceTypeStable]]++
	}
	if got := slices.Sorted(maps.Keys(left)); !slices.Equal(got, want) {
		t.Errorf("types that are left: %v, Karpenter's %v", got, want)
	}
	for name, n := range left {
		if n != zones {
			t.Errorf("%s is left in %d zones", name, n)
		}
	}
}

// BenchmarkSuperposition places pods on a node of which type and zone are not decided. Karpenter makes an
// allocator for each scheduling loop and has no zones to tell apart here. Dray is measured on a State that was asked
// nothing yet, on a new undecided node of known types, and on one that was filled like this before.
func BenchmarkSuperposition(b *testing.B) {
	c := mixed()
	b.Run("impl=karpenter", func(b *testing.B) {
		bare := *c
		bare.Slices = nil
		m := newMeter(b)
		for m.loop() {
			var s *session
			var o *offer
			m.aside(func() { s, o = newSession(&bare, nil), newOffer(c) })
			if _, err := superposed(b.Context(), s, o, c.Claims); err != nil {
				b.Fatal(err)
			}
		}
		m.report("pod", offeredPods)
	})
	b.Run("impl=dray/state=new", func(b *testing.B) {
		m := newMeter(b)
		for m.loop() {
			var u *undecided
			m.aside(func() { u = newUndecided(b, c) })
			u.place(b)
		}
		m.report("pod", offeredPods)
	})
	b.Run("impl=dray/state=known", func(b *testing.B) {
		u := newUndecided(b, c)
		u.place(b)
		m := newMeter(b)
		for m.loop() {
			u.place(b)
		}
		m.report("pod", offeredPods)
	})
}
