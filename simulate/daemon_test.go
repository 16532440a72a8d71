// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/simulate"
)

// withDaemons is a cluster with node a, and with claims of daemons: for admins, and one that several pods name.
func withDaemons() simulate.Cluster {
	c := gpuCluster("a")
	c.Classes[0].Spec.ExtendedResourceName = ptr.To("gpu.example.com/gpu")
	monitor := gpuTemplate("monitor", 4)
	monitor.Spec.Spec.Devices.Requests[0].Exactly.AdminAccess = ptr.To(true)
	c.Templates = append(c.Templates, monitor)
	named := &resourceapi.ResourceClaim{Spec: gpuTemplate("x", 1).Spec.Spec}
	named.Namespace, named.Name = "default", "named"
	c.Claims = append(c.Claims, named)
	return c
}

// asksExtended are n pods of one container that asks for a GPU as an extended resource.
func asksExtended(n int) (pods []*corev1.Pod) {
	for i := range n {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name = "default", fmt.Sprint("extended-", i)
		pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"gpu.example.com/gpu": resource.MustParse("1")}}}}
		pods = append(pods, pod)
	}
	return pods
}

// Daemons take devices of each new node, as kube-scheduler would give them before any other pod comes.
func TestDevicesOfDaemons(t *testing.T) {
	names := gpuPods("one", 1)[0]
	names.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "gpus", ResourceClaimName: ptr.To("named")}
	for name, test := range map[string]struct {
		daemon []*corev1.Pod
		want   int
	}{
		"none":                      {nil, 4},
		"one":                       {gpuPods("one", 1), 3},
		"two":                       {gpuPods("one", 2), 2},
		"one that has no room":      {gpuPods("three", 2), 1},
		"with admin access":         {gpuPods("monitor", 1), 4},
		"that names a claim":        {[]*corev1.Pod{names}, 4},
		"with extended resources":   {asksExtended(2), 2},
		"that has no claims at all": {[]*corev1.Pod{{}}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			state := open(t, withDaemons(), simulate.Options{})
			model := nodeNamed("model")
			model.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}
			spec := simulate.TemplateSpec{Node: model, Slices: []*resourceapi.ResourceSlice{gpuSlice("model", 4)}, Daemon: test.daemon}
			template, err := state.Template(spec)
			must(t, err)
			either, err := state.Any("either", template)
			must(t, err)
			shape := shapeOf(t, state, gpuPods("one", 1))
			for which, made := range map[string]*simulate.Template{"new": template, "undecided": either} {
				if found := fit(t, state, shape, simulate.New(made, 2)); found.Pods != 2*test.want {
					t.Errorf("%d pods fit on two %s nodes, want %d", found.Pods, which, 2*test.want)
				}
			}
			for _, p := range place(t, state.Sim(), shape, test.want, simulate.New(template, 1)) {
				claims, err := p.Claims(t.Context())
				must(t, err)
				if device := claims[0].Status.Allocation.Devices.Results[0].Device; test.want < 4 && device == "gpu-0" {
					t.Errorf("pod %s has %s, which a daemon has", p.Pod.Name, device)
				}
			}
		})
	}
}

// What daemons of a real node have on it, daemons of a node like it have there. A daemon that cannot be understood is an error.
func TestDevicesOfDaemonsOfNode(t *testing.T) {
	c := withDaemons()
	daemon := gpuPods("one", 1)[0]
	daemon.UID, daemon.Spec.NodeName = "uid", "a"
	daemon.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpus", ResourceClaimName: ptr.To("generated")}}
	claim := holding("generated", "gpu.example.com", "a", "gpu-2", "", nil)
	claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(daemon, corev1.SchemeGroupVersion.WithKind("Pod"))}
	c.Pods, c.Claims = []*corev1.Pod{daemon}, append(c.Claims, claim)
	state := open(t, c, simulate.Options{})
	shape := shapeOf(t, state, gpuPods("one", 1))
	for isDaemon, want := range map[bool]int{true: 3, false: 4} {
		template, err := state.TemplateOf("a", func(*corev1.Pod) bool { return isDaemon })
		must(t, err)
		if found := fit(t, state, shape, simulate.New(template, 1)); found.Pods != want {
			t.Errorf("a daemon %t: %d pods fit, want %d", isDaemon, found.Pods, want)
		}
	}
	_, err := state.Template(simulate.TemplateSpec{Node: nodeNamed("model"), Daemon: gpuPods("none", 1)})
	if want := "template model: pod default/none-0: spec.resourceClaims gpus: ResourceClaimTemplate default/none does not exist"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
