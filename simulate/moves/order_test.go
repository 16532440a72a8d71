// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/simulate/moves"
)

// labeled gives a node labels with the value yes.
func (l *lab) labeled(node int, labels ...string) {
	l.Nodes[node].Labels = make(map[string]string)
	for _, label := range labels {
		l.Nodes[node].Labels[label] = "yes"
	}
}

// only lets a pod run on nodes with a label only.
func only(pod *corev1.Pod, label string) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{label: "yes"}
	return pod
}

// expect asks for a plan with some costs and room, and does what it says.
func (l *lab) expect(cost float64, room int, wanted ...*corev1.Pod) {
	l.Helper()
	plan, err := moves.Find(l.Context(), l.open(), moves.Question{Wanted: wanted, Nodes: names(&l.Cluster), Limits: l.limits})
	if err != nil || !plan.Possible || plan.Cost != cost || plan.Room != room || !plan.Exact() {
		l.Fatalf("possible %t, costs %v, at least %v, room for %d, %v; want one that costs %v with room for %d", plan.Possible, plan.Cost, plan.Bound, plan.Room, err, cost, room)
	}
	l.replay(0, plan, wanted, make(map[string]int))
}

// mustPlace is place for a pod that fits.
func (l *lab) mustPlace(pod *corev1.Pod, node int) {
	l.Helper()
	if !l.place(pod, fmt.Sprintf("node-%d", node)) {
		l.Fatalf("pod %s has no place", pod.Name)
	}
}

// Two pods may not go to the node that another pod needs. With the same devices left on equal nodes, they may go elsewhere.
func TestOrderTellsNodesApart(t *testing.T) {
	l := &lab{T: t, Cluster: gpuCluster(4, 4, 4, 4, 4)}
	l.labeled(0, "y")
	l.labeled(3, "p")
	l.labeled(4, "q")
	l.mustPlace(gpuPod("runs-p", 4), 3)
	l.mustPlace(gpuPod("runs-q", 4), 4)
	l.expect(2, 0, only(gpuPod("wanted-p", 4), "p"), only(gpuPod("wanted-q", 4), "q"), only(gpuPod("wanted-y", 4), "y"))
}

// Two pods that come to a node leave a whole GPU there if the one comes first that wants a half.
func TestOrderTellsDevicesApart(t *testing.T) {
	l := &lab{T: t, Cluster: gpuCluster(2, 1, 1)}
	divide(&l.Cluster)
	whole := l.Templates[0].DeepCopy()
	whole.Name = "whole"
	whole.Spec.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: `!has(device.attributes["gpu.example.com"].half)`,
	}}}
	l.Templates = append(l.Templates, whole)
	l.labeled(0, "n")
	l.labeled(1, "p")
	l.labeled(2, "q")
	l.mustPlace(gpuPod("any", 1), 1)
	l.mustPlace(halfPod("half"), 2)
	var wanted []*corev1.Pod
	for _, label := range []string{"n", "p", "q"} {
		pod := only(gpuPod("wanted-"+label, 1), label)
		pod.Spec.ResourceClaims[0].ResourceClaimTemplateName = &whole.Name
		wanted = append(wanted, pod)
	}
	l.expect(2, 0, wanted...)
}

// All nodes reach three ports. Two pods are on the same nodes after either moved first, and hold other ports.
func TestOrderTellsDevicesOfSeveralNodesApart(t *testing.T) {
	l := &lab{T: t, Cluster: gpuCluster(0, 0, 0)}
	addPorts(&l.Cluster, 3)
	portPod := func(name, template string) *corev1.Pod {
		pod := gpuPod(name, 1)
		pod.Spec.ResourceClaims[0].ResourceClaimTemplateName = &template
		return pod
	}
	l.mustPlace(portPod("first-or-third", "ports"), 0)
	l.mustPlace(portPod("any", "remote"), 1)
	l.expect(2, 1, portPod("wanted", "second-port"))
}

// A pod leaves, and frees the device that three nodes reach. Both wanted pods fit if the first one takes it on the second node. On the first node it
// takes it, too, and leaves nothing for the other.
func TestFewNodesReachADevice(t *testing.T) {
	l := &lab{T: t, Cluster: gpuCluster(2, 1, 1, 0)}
	for _, node := range []int{0, 1, 3} {
		l.labeled(node, "fabric")
	}
	slice := &resourceapi.ResourceSlice{}
	slice.Name = "a-fabric"
	slice.Spec = resourceapi.ResourceSliceSpec{
		Driver: "a-fabric.example.com", Pool: resourceapi.ResourcePool{Name: slice.Name, Generation: 1, ResourceSliceCount: 1},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "fabric", Operator: corev1.NodeSelectorOpExists},
		}}}},
		Devices: []resourceapi.Device{{Name: "far"}},
	}
	l.Slices = append(l.Slices, slice)
	l.mustPlace(gpuPod("any", 1), 3)
	l.expect(1, 0, gpuPod("wanted-0", 2), gpuPod("wanted-1", 2))
}

// Two pods change places, which needs room for one. Limits say that two others go before them.
func TestOrderWithRoomForAPod(t *testing.T) {
	l := &lab{T: t, Cluster: gpuCluster(4, 3, 2)}
	l.labeled(0, "swap", "p", "zero")
	l.labeled(1, "swap", "q")
	l.labeled(2, "p", "q")
	pods := make(map[string]*corev1.Pod)
	for i, pod := range []*corev1.Pod{only(gpuPod("p", 1), "p"), only(gpuPod("q", 1), "q"), only(gpuPod("three", 3), "swap"), only(gpuPod("two", 2), "swap")} {
		l.mustPlace(pod, i%2)
		pods[pod.Name] = l.Pods[len(l.Pods)-1]
	}
	for _, first := range []string{"p", "q"} {
		for _, later := range []string{"three", "two"} {
			l.limits = append(l.limits, moves.Limit{Pods: []*corev1.Pod{pods[first], pods[later]}, Out: 1})
		}
	}
	l.expect(4, 1, only(gpuPod("wanted", 2), "zero"))
}
