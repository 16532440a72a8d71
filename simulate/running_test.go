// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/simulate"
)

const gpuResource = "example.com/gpu"

// resourcePod asks for GPUs as an extended resource.
func resourcePod(name, gpus string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "default", name
	amount := corev1.ResourceList{gpuResource: resource.MustParse(gpus)}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: amount, Limits: amount}}}
	return pod
}

// The devices of a pod that runs with extended resources are free once the pod goes: kube-scheduler made the claim
// for that pod, and names it in the pod's status alone.
func TestClaimForExtendedResourcesGoesWithItsPod(t *testing.T) {
	c := gpuCluster("a", "b")
	c.Classes[0].Spec.ExtendedResourceName = ptr.To(gpuResource)
	// The GPUs are in a pool of all nodes, so that they do not go with the node.
	c.Slices = []*resourceapi.ResourceSlice{gpuSlice("box", 4)}
	c.Slices[0].Spec.NodeName, c.Slices[0].Spec.AllNodes = nil, ptr.To(true)
	before := open(t, c, simulate.Options{})
	sim := before.Sim()
	result, err := sim.Place(t.Context(), resourcePod("runs", "3"), simulate.Real(nil), simulate.FirstFit)
	if err != nil || !result.All() {
		t.Fatalf("placed: %t, %v", result.All(), err)
	}
	placement := slices.Collect(result.Placements())[0]
	claims, err := placement.Claims(t.Context())
	if err != nil || len(claims) != 1 {
		t.Fatalf("claims: %d, %v", len(claims), err)
	}
	claim, runs := claims[0], placement.Pod.DeepCopy()
	claim.Name = "runs-extended-resources"
	claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(runs, corev1.SchemeGroupVersion.WithKind("Pod"))}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: runs.Name}}
	runs.Spec.NodeName = placement.Node.Name()
	runs.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: claim.Name}
	c.Pods, c.Claims = []*corev1.Pod{runs}, []*resourceapi.ResourceClaim{claim}

	state := open(t, c, simulate.Options{})
	waits := shapeOf(t, state, []*corev1.Pod{resourcePod("waits", "2")})
	if n := fit(t, state, waits, simulate.Real(nil)).Pods; n != 0 {
		t.Fatalf("%d more fit beside the pod, want none", n)
	}
	sets, _, err := state.Victims(t.Context(), waits, simulate.Real(nil), func(*corev1.Pod) float64 { return 1 }, 2)
	if err != nil || len(sets) != 1 || !slices.Equal(sets[0].Pods, []*corev1.Pod{runs}) {
		t.Errorf("victims are %v (%v), want the pod that runs", sets, err)
	}
	departures, err := state.Drainable(t.Context(), simulate.Real(nil), simulate.Real(nil), simulate.FirstFit)
	if err != nil || len(departures) != 2 || !departures[0].Possible || !departures[1].Possible {
		t.Errorf("drainable: %v (%v), want both nodes", departures, err)
	}
	sim = state.Sim()
	if err := sim.Remove("a"); err != nil {
		t.Fatal(err)
	}
	if n := fit(t, sim.State(), waits, simulate.Real(nil)).Pods; n != 2 {
		t.Errorf("%d fit after the pod went with its node, want 2", n)
	}
}

// Pods beyond those of a shape are like a pod of the shape in all that is not part of it, too: another pod with
// equal claims may belong to a DaemonSet, which a drain leaves behind.
func TestPodsBeyondAShapeAreLikeItsOwn(t *testing.T) {
	c := gpuCluster("a", "b")
	daemon := gpuPods("one", 1)[0]
	daemon.Name, daemon.Spec.Priority = "daemon", ptr.To(int32(1000))
	daemon.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "daemon", Controller: ptr.To(true)}}
	state := open(t, c, simulate.Options{})
	shapeOf(t, state, []*corev1.Pod{daemon}) // the first of its kind

	shape := shapeOf(t, state, gpuPods("one", 1))
	sim := state.Sim()
	onA := simulate.Real(func(node *corev1.Node) bool { return node.Name == "a" })
	result, err := sim.PlaceMany(t.Context(), shape, 3, onA, simulate.FirstFit)
	if err != nil || !result.All() {
		t.Fatalf("placed: %t, %v", result.All(), err)
	}
	for p := range result.Placements() {
		if p.Pod != shape.Pods[0] {
			t.Errorf("placed %s, want %s", p.Pod.Name, shape.Pods[0].Name)
		}
	}
	result, err = sim.Drain(t.Context(), simulate.Real(nil), simulate.FirstFit, "a")
	if err != nil || result.Placed != 3 {
		t.Errorf("drained %d pods (%v), want 3", result.Placed, err)
	}
}

// LeastWaste counts lost room for pods with extended resources as for pods with claims.
func TestLeastWasteOfExtendedResources(t *testing.T) {
	c := gpuCluster("even", "odd")
	c.Classes[0].Spec.ExtendedResourceName = ptr.To(gpuResource)
	c.Slices[1] = gpuSlice("odd", 3)
	state := open(t, c, simulate.Options{})
	pairs := shapeOf(t, state, []*corev1.Pod{resourcePod("pair", "2")})
	result, err := state.Sim().Place(t.Context(), gpuPods("one", 1)[0], simulate.Real(nil), simulate.LeastWaste(pairs))
	if err != nil || !result.All() {
		t.Fatalf("placed: %t, %v", result.All(), err)
	}
	if node := slices.Collect(result.Placements())[0].Node.Name(); node != "odd" {
		t.Errorf("placed on %s, where a pair less fits; want odd", node)
	}
}

// A policy looks at nodes of all templates, also behind one of which no more may be added.
func TestPoliciesGoOnBehindALimit(t *testing.T) {
	for name, policy := range map[string]simulate.NodePolicy{"FirstFit": simulate.FirstFit, "Pack": simulate.Pack, "Spread": simulate.Spread} {
		state := open(t, gpuCluster(), simulate.Options{})
		var sets []simulate.Nodes
		for _, node := range []string{"first", "last"} {
			template, err := state.Template(simulate.TemplateSpec{Node: nodeNamed(node), Slices: []*resourceapi.ResourceSlice{gpuSlice(node, 1)}})
			must(t, err)
			sets = append(sets, simulate.New(template, 1))
		}
		pods := gpuPods("one", 3)
		result, err := state.Sim().PlaceMany(t.Context(), shapeOf(t, state, pods), len(pods), simulate.Union(sets...), policy)
		must(t, err)
		if result.Placed != len(sets) {
			t.Errorf("%s: %d pods are placed, want one on a node of each template", name, result.Placed)
		}
	}
}
