// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate"
)

// sharing is a cluster of one node with a GPU, a claim that pods share, and pods that do. Those of a group
// have it together.
func sharing(n int, group bool) (simulate.Cluster, []*corev1.Pod) {
	c := gpuCluster("a")
	claim := &resourceapi.ResourceClaim{Spec: c.Templates[0].Spec.Spec}
	claim.Namespace, claim.Name = "default", "shared"
	c.Claims = append(c.Claims, claim)
	podClaim := corev1.PodResourceClaim{Name: "gpu", ResourceClaimName: &claim.Name}
	team := &schedulingapi.PodGroup{Spec: schedulingapi.PodGroupSpec{ResourceClaims: []schedulingapi.PodGroupResourceClaim{{Name: "gpu", ResourceClaimName: &claim.Name}}}}
	team.Namespace, team.Name, team.UID = "default", "team", "team"
	c.PodGroups = append(c.PodGroups, team)
	var pods []*corev1.Pod
	for i := range n {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name, pod.UID = "default", fmt.Sprint("pod-", i), types.UID(fmt.Sprint("pod-", i))
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{podClaim}
		if group {
			pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &team.Name}
		}
		pods = append(pods, pod)
	}
	return c, pods
}

// As many pods can use a claim as status.reservedFor can list. A group counts as one.
func TestClaimIsFullAtReservedForLimit(t *testing.T) {
	const limit = resourceapi.ResourceClaimReservedForMaxSize
	for _, group := range []bool{false, true} {
		c, pods := sharing(limit+3, group)
		want := limit
		if group {
			want = len(pods)
		}
		// Some of the pods run, and the claim is reserved for one that nobody knows.
		const running = 5
		reserved := 1
		for _, pod := range pods[:running] {
			pod.Spec.NodeName = "a"
			c.Pods = append(c.Pods, pod)
		}
		c.Claims[0] = c.Claims[0].DeepCopy()
		c.Claims[0].Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "unknown"}, {Resource: "pods", Name: "pod-0", UID: "pod-0"}}
		if group {
			reserved = 0
			c.Claims[0].Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{APIGroup: schedulingapi.GroupName, Resource: "podgroups", Name: "team", UID: "team"}}
		}
		state := open(t, c, simulate.Options{})
		sim := state.Sim()
		shape := shapeOf(t, state, pods[running:])
		result, err := sim.PlaceMany(t.Context(), shape, len(pods)-running, simulate.Real(nil), simulate.FirstFit)
		if err != nil || result.Placed != want-running-reserved {
			t.Fatalf("group %t: %d are placed, want %d: %v, %v", group, result.Placed, want-running-reserved, result.Err, err)
		}
		free := func(s *simulate.State) int {
			return fit(t, s, shapeOf(t, s, gpuPods("one", 1)), simulate.Real(nil)).Pods
		}
		if n := free(sim.State()); n != 3 {
			t.Errorf("group %t: %d devices are free, want 3", group, n)
		}
	}
}

// A Sim that was merged into another one goes on by itself.
func TestMergedClaimHasItsOwnPods(t *testing.T) {
	c, pods := sharing(resourceapi.ResourceClaimReservedForMaxSize, false)
	state := open(t, c, simulate.Options{})
	place := func(sim *simulate.Sim, list ...*corev1.Pod) {
		t.Helper()
		for _, pod := range list {
			if result, err := sim.Place(t.Context(), pod, simulate.Real(nil), simulate.FirstFit); err != nil || !result.All() {
				t.Fatalf("%s is not placed: %v, %v", pod.Name, result.Err, err)
			}
		}
	}
	mine, other := state.Sim(), state.Sim()
	place(other, pods[0])
	if err := mine.Merge(other); err != nil {
		t.Fatal(err)
	}
	place(other, pods[1:]...)
	place(mine, pods[1:]...)
}

// BenchmarkSharedClaim places pods that share a claim, one by one, in one call, and then takes them away with their
// node. A group is one consumer of the claim. The time per pod is the same for any number of them.
func BenchmarkSharedClaim(b *testing.B) {
	for _, group := range []bool{false, true} {
		for _, n := range []int{64, 256, 1024, 4096} {
			if !group && n > resourceapi.ResourceClaimReservedForMaxSize {
				continue
			}
			b.Run(fmt.Sprintf("group=%t/pods=%d", group, n), func(b *testing.B) {
				c, pods := sharing(n, group)
				state, err := simulate.Open(c, simulate.Options{Features: allocator.AllFeatures()})
				if err != nil {
					b.Fatal(err)
				}
				shapes, err := state.Shapes(pods)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					sim := state.Sim()
					result, err := sim.PlaceMany(b.Context(), shapes[0], n, simulate.Real(nil), simulate.FirstFit)
					if err != nil || result.Placed != n {
						b.Fatalf("%d are placed, %v, %v", result.Placed, result.Err, err)
					}
					if err := sim.Remove("a"); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/pod")
			})
		}
	}
}

// A claim with admin access to a device that binds claims to nodes is tied to the node of its first pod, also where
// what is known of another node tells that the pod fits.
func TestAdminAccessTiesAClaim(t *testing.T) {
	c := gpuCluster("a", "b")
	c.Slices = c.Slices[:1]
	slice := &c.Slices[0].Spec
	slice.NodeName, slice.AllNodes = nil, ptr.To(true)
	for i := range slice.Devices {
		slice.Devices[i].BindsToNode = ptr.To(true)
	}
	var pods []*corev1.Pod
	for i, name := range []string{"first", "second", "second"} {
		claim := &resourceapi.ResourceClaim{Spec: *c.Templates[0].Spec.Spec.DeepCopy()}
		claim.Namespace, claim.Name = "default", name
		claim.Spec.Devices.Requests[0].Exactly.AdminAccess = ptr.To(true)
		if i < 2 {
			c.Claims = append(c.Claims, claim)
		}
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name = "default", fmt.Sprint("pod-", i)
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim.Name}}
		pods = append(pods, pod)
	}
	state := open(t, c, simulate.Options{})
	sim := state.Sim()
	onB := simulate.Real(func(n *corev1.Node) bool { return n.Name == "b" })
	for i, test := range []struct {
		on   simulate.Nodes
		want string
	}{{simulate.Real(nil), "a"}, {onB, "b"}, {simulate.Real(nil), "b"}} {
		result, err := sim.Place(t.Context(), pods[i], test.on, simulate.FirstFit)
		if err != nil {
			t.Fatal(err)
		}
		for placement := range result.Placements() {
			if got := placement.Node.Name(); got != test.want {
				t.Errorf("%s is placed on %s, want %s", pods[i].Name, got, test.want)
			}
		}
		if result.Placed != 1 {
			t.Errorf("%s has no place: %v", pods[i].Name, result.Err)
		}
	}
}

// Searches among pools of several nodes take of the budget of a call, too.
func TestBudgetWithSharedPools(t *testing.T) {
	for budget, want := range map[int64]simulate.Fit{1: {Pods: 1, Undecided: 1}, 1000: {Pods: 1}} {
		c := gpuCluster("a", "b")
		c.Slices = c.Slices[:1]
		slice := &c.Slices[0].Spec
		slice.NodeName, slice.AllNodes, slice.Devices = nil, ptr.To(true), slice.Devices[:2]
		state := open(t, c, simulate.Options{Budget: budget})
		if got := fit(t, state, shapeOf(t, state, gpuPods("two", 1)), simulate.Real(nil)); got != want {
			t.Errorf("budget %d: %+v, want %+v", budget, got, want)
		}
	}
}
