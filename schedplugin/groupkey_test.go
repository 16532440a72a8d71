// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
)

// requesting is a running pod with requests.
func requesting(requests corev1.ResourceList) *corev1.Pod {
	pod := podWith("other")
	pod.Spec.Containers[0].Resources.Requests = requests
	return pod
}

// setPods has some pods run on a node.
func (w *world) setPods(node int, pods ...*corev1.Pod) {
	info := framework.NewNodeInfo(pods...)
	info.SetNode(w.nodes[node].Node())
	w.nodes[node] = info
}

// amount is a list of one resource.
func amount(name corev1.ResourceName, quantity string) corev1.ResourceList {
	return corev1.ResourceList{name: resource.MustParse(quantity)}
}

// planChanges are changes of what a plan depends on.
func planChanges() map[string]func(w *world, pods []*corev1.Pod) {
	return map[string]func(w *world, pods []*corev1.Pod){
		"a pod runs on another node": func(w *world, _ []*corev1.Pod) {
			w.setPods(0)
			w.setPods(1, requesting(amount(corev1.ResourceCPU, "1")))
		},
		"a pod uses storage": func(w *world, _ []*corev1.Pod) {
			requests := amount(corev1.ResourceCPU, "1")
			requests[corev1.ResourceEphemeralStorage] = resource.MustParse("1Gi")
			w.setPods(0, requesting(requests))
		},
		"a pod uses a device of a device plugin": func(w *world, _ []*corev1.Pod) {
			requests := amount(corev1.ResourceCPU, "1")
			requests["example.com/nic"] = resource.MustParse("1")
			w.setPods(0, requesting(requests))
		},
		"memory in place of CPU": func(w *world, _ []*corev1.Pod) { // 3 × 1,000 milli-CPU are as much as 5 × 600 bytes
			w.setPods(0, requesting(amount(corev1.ResourceMemory, "600")))
		},
		"a taint on a device": func(w *world, _ []*corev1.Pod) {
			rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "rule"}, Spec: resourceapi.DeviceTaintRuleSpec{
				DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: ptr.To("gpu.example.com")},
				Taint:          resourceapi.DeviceTaint{Key: "example.com/off", Effect: resourceapi.DeviceTaintEffectNoSchedule},
			}}
			if _, err := w.client.ResourceV1().DeviceTaintRules().Create(w.ctx, rule, metav1.CreateOptions{}); err != nil {
				w.t.Fatal(err)
			}
			eventually(w.t, func() error {
				slices, err := w.dra.ResourceSlices().ListWithDeviceTaintRules()
				if err == nil && len(slices[0].Spec.Devices[0].Taints) == 0 {
					err = errors.New("the device has no taint yet")
				}
				return err
			})
		},
		"a pod tolerates more": func(_ *world, pods []*corev1.Pod) {
			pods[0].Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		},
		"a claim that did not exist": func(w *world, _ []*corev1.Pod) {
			if _, err := w.client.ResourceV1().ResourceClaims("default").Create(w.ctx, gpuClaim("late", 1), metav1.CreateOptions{}); err != nil {
				w.t.Fatal(err)
			}
			w.settle()
		},
		"a version of a node": func(w *world, _ []*corev1.Pod) {
			changed := w.nodes[0].Node().DeepCopy()
			changed.ResourceVersion += "1"
			w.nodes[0].SetNode(changed)
		},
		"fewer pods must start": func(w *world, _ []*corev1.Pod) {
			group, err := w.plugin.handle.SnapshotSharedLister().PodGroups().Get("default", "gang")
			if err != nil {
				w.t.Fatal(err)
			}
			group.Spec.SchedulingPolicy.Gang.MinCount = 1
		},
	}
}

// Whether a group has a plan is remembered for a state of the cluster. Each change of what a plan depends on makes another
// state. The devices, the nodes' versions and the group stay as they are in these cases, unless the case names them.
func TestPlanIsLookedForAfterEachChange(t *testing.T) {
	for name, change := range planChanges() {
		t.Run(name, func(t *testing.T) {
			w, pods := gangOf(t, []string{"one", "two", "late"}, roomy("a"), roomy("b"), gpus("a", 1), gpuClaim("one", 2), gpuClaim("two", 2))
			group, err := w.plugin.handle.SnapshotSharedLister().PodGroups().Get("default", "gang")
			if err != nil {
				t.Fatal(err)
			}
			group.Spec.SchedulingPolicy.Gang.MinCount = 2
			w.setPods(0, requesting(amount(corev1.ResourceCPU, "1")))
			plans := func() int {
				before := groupPlans(t)
				a, _ := together(w, framework.NewCycleState(), pods[0])
				a.preFilter()
				return groupPlans(t) - before
			}
			cycle := framework.NewCycleState()
			a, _ := together(w, cycle, pods[0])
			a.preFilter()
			w.giveUp(cycle, pods)
			if again := plans(); again > 0 {
				t.Errorf("the group was planned %d times more though nothing changed", again)
			}
			if change(w, pods); plans() != 1 {
				t.Error("the group was not planned again")
			}
		})
	}
}
