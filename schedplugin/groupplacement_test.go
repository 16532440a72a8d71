// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	fwk "k8s.io/kube-scheduler/framework"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
)

// rack is the label that tells domains apart.
const rack = "example.com/rack"

// racked is a node of a rack.
func racked(name, in string) *corev1.Node {
	node := roomy(name)
	node.Labels[rack] = in
	return node
}

// rackRig is a scheduler with a group of pods that each want a whole GPU or else a half, all in one rack.
func rackRig(t *testing.T, priority int32, pods int, objects ...runtime.Object) (*rig, []*corev1.Pod) {
	t.Helper()
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, map[featuregate.Feature]bool{
		kubefeatures.GenericWorkload: true, kubefeatures.TopologyAwareWorkloadScheduling: true,
		kubefeatures.DRAPartitionableDevices: true, kubefeatures.DRAPrioritizedList: true,
	})
	objects = append(objects, gpuClass(), &schedulingapi.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gang", UID: "gang"},
		Spec: schedulingapi.PodGroupSpec{
			Priority:              &priority,
			SchedulingPolicy:      schedulingapi.PodGroupSchedulingPolicy{Gang: &schedulingapi.GangSchedulingPolicy{MinCount: int32(pods)}},
			SchedulingConstraints: &schedulingapi.PodGroupSchedulingConstraints{Topology: []schedulingapi.TopologyConstraint{{Key: rack}}},
		},
	})
	var members []*corev1.Pod
	for i := range pods {
		name := fmt.Sprint("member-", i)
		pod := podWith(name, "of-"+name)
		pod.Spec.SchedulingGroup, pod.Spec.Priority = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("gang")}, &priority
		members = append(members, pod)
		objects = append(objects, partClaim("of-"+name, "whole", "half"))
	}
	r, err := newScheduler(t, dray, objects...)
	r.must(err)
	return r, members
}

// A group that has to be in one rack is planned in each rack by itself: three pods that would each take a whole GPU, of which no rack has
// three.
func TestGroupIsPlannedInADomain(t *testing.T) {
	objects := []runtime.Object{racked("a", "one"), racked("b", "two"), racked("c", "two"), racked("d", "three")}
	for _, node := range []string{"a", "b", "c", "d"} {
		objects = append(objects, parts(node)...)
	}
	r, pods := rackRig(t, 0, 3, objects...)
	r.run()
	r.create(pods...)
	r.waitFor(time.Minute, "member-0", "member-1", "member-2")
	for _, pod := range pods {
		if node := r.pod(pod.Name).Spec.NodeName; node != "b" && node != "c" {
			t.Errorf("pod %s is on node %s, outside of rack two", pod.Name, node)
		}
	}
}

// Without a plan in any rack, the group says how many pods fit in the best of them, and asks only once. It wakes when a rack has
// enough.
func TestGroupIsPlannedInNoDomain(t *testing.T) {
	objects := []runtime.Object{racked("a", "one"), racked("b", "two"), racked("c", "three")}
	r, pods := rackRig(t, 0, 3, append(objects, parts("a")...)...)
	before := groupPlans(t)
	r.run()
	r.create(pods...)
	r.waitForRejection("member-0")
	for i := range 5 {
		r.addClaim(gpuClaim(fmt.Sprint("other-", i), 1))
	}
	r.idle()
	if plans := groupPlans(t) - before; plans != 3 {
		t.Errorf("%d plans were looked for, want one for each rack", plans)
	}
	r.saidOfGroup("together, 2 of 3 pods get devices and the group needs 3")
	for _, slice := range append(parts("c"), renamed(parts("c"), "more")...) {
		r.addSlice(slice.(*resourceapi.ResourceSlice))
	}
	r.waitFor(time.Minute, "member-0", "member-1", "member-2")
}

// renamed are slices of another pool.
func renamed(published []runtime.Object, suffix string) []runtime.Object {
	for _, object := range published {
		slice := object.(*resourceapi.ResourceSlice)
		slice.Name, slice.Spec.Pool.Name = slice.Name+"-"+suffix, slice.Spec.Pool.Name+"-"+suffix
	}
	return published
}

// Pods of lower priority are preempted in one rack only: where the group fits without them, whichever rack was tried last. The group waits
// for their devices, and no more pods are preempted meanwhile.
func TestGroupPreemptsInADomain(t *testing.T) {
	for range 6 { // the order of racks is chance
		whole := gpus("a", 1)
		whole.Spec.Devices[0].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"profile": {StringValue: ptr.To("whole")}}
		objects := append([]runtime.Object{racked("a", "one"), racked("b", "two"), racked("c", "three"), whole}, parts("b")...)
		for node, device := range map[string]string{"a": "gpu-0", "b": "gpu-0-half-0"} {
			low := withPriority(podWith("low-"+node, "of-low-"+node), 1)
			low.Spec.NodeName, low.Spec.SchedulerName, low.Status.Phase = node, "default-scheduler", corev1.PodRunning
			objects = append(objects, low, reservedBy(held(partClaim("of-low-"+node, "whole", "half"), node, device), low))
		}
		r, pods := rackRig(t, 10, 2, objects...)
		ended := make(chan *corev1.Pod, 4)
		r.ended, r.observed = ended, true
		r.run()
		r.create(pods...)
		select {
		case pod := <-ended:
			if pod.Name != "low-b" {
				t.Errorf("pod %s was preempted", pod.Name)
			}
		case <-time.After(time.Minute):
			t.Fatalf("no pod is preempted: %+v", r.pod("member-0").Status)
		}
		r.conditionSays("waiting for the devices of pods that were preempted")
		for !r.deallocated("of-low-b") {
		}
		r.waitFor(time.Minute, "member-0", "member-1")
		for _, pod := range pods {
			if node := r.pod(pod.Name).Spec.NodeName; node != "b" {
				t.Errorf("pod %s is on node %s", pod.Name, node)
			}
		}
		if left := len(ended); left > 0 {
			t.Errorf("%d pods more than needed were preempted", left)
		}
	}
}

// conditionSays waits until the condition of the group says something.
func (r *rig) conditionSays(want string) {
	r.t.Helper()
	eventually(r.t, func() error {
		group, err := r.client.SchedulingV1beta1().PodGroups("default").Get(r.ctx, "gang", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(group.Status.Conditions, func(c metav1.Condition) bool { return strings.Contains(c.Message, want) }) {
			return fmt.Errorf("no condition says %q: %+v", want, group.Status.Conditions)
		}
		return nil
	})
}

// A state without a plan is remembered by the devices that the attempt saw in use. These include devices of
// claims in flight, as a claim may get others in the next attempt, but not devices that came free since.
func TestStateOfDevicesInUse(t *testing.T) {
	w, pods := gangOf(t, []string{"mine"}, roomy("a"), gpus("a", 2), gpuClaim("mine", 2), gpuClaim("other", 1))
	other, claims := w.claim("other"), w.plugin.dra.ResourceClaims()
	inFlight := func(device string) (landed func()) {
		if err := claims.SignalClaimPendingAllocation(other.UID, held(other.DeepCopy(), "a", device)); err != nil {
			t.Fatal(err)
		}
		w.plugin.model.Changed(other, false)
		return func() {
			claims.MaybeRemoveClaimPendingAllocation(other.UID, true)
			w.plugin.model.Changed(other, false)
		}
	}
	plans := func(want int, what string, do func()) {
		before := groupPlans(t)
		if do(); groupPlans(t)-before != want {
			t.Errorf("%s: %d plans were looked for, want %d", what, groupPlans(t)-before, want)
		}
	}
	begin := func() *framework.CycleState {
		cycle := framework.NewCycleState()
		a, _ := together(w, cycle, pods[0])
		expect(t, a.preFilter(), fwk.Success, "")
		return cycle
	}
	next := func() { begin() }
	landed := inFlight("gpu-0")
	first := begin()
	landed()
	plans(1, "after an attempt that saw a device in use which is free since", func() { w.giveUp(first, pods) })
	plans(1, "with all devices free", next)
	landed = inFlight("gpu-0")
	plans(0, "with the device in use again", next)
	landed()
	landed = inFlight("gpu-1")
	plans(1, "with another device in use", next)
	plans(0, "once more", next)
	landed()
}

// A group without a plan is planned again when its constraint changes, though the same devices are in use.
func TestGroupWithChangedConstraintIsPlannedAgain(t *testing.T) {
	whole := gpuClass()
	whole.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].profile == "whole"`}}}
	for _, test := range []struct {
		name    string
		waiting int
		change  func(r *rig, pods []*corev1.Pod)
	}{
		{"another pod", 1, func(r *rig, pods []*corev1.Pod) { r.create(pods[1]) }},
		{"fewer pods", 2, func(r *rig, _ []*corev1.Pod) {
			group, err := r.client.SchedulingV1beta1().PodGroups("default").Get(r.ctx, "gang", metav1.GetOptions{})
			r.must(err)
			group = group.DeepCopy()
			group.Spec.SchedulingPolicy.Gang.MinCount = 2
			_, err = r.client.SchedulingV1beta1().PodGroups("default").Update(r.ctx, group, metav1.UpdateOptions{})
			r.must(err)
		}},
		{"another class", 2, func(r *rig, _ []*corev1.Pod) {
			class, err := r.client.ResourceV1().DeviceClasses().Get(r.ctx, "gpu", metav1.GetOptions{})
			r.must(err)
			class = class.DeepCopy()
			class.Spec.Selectors = nil
			_, err = r.client.ResourceV1().DeviceClasses().Update(r.ctx, class, metav1.UpdateOptions{})
			r.must(err)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			objects := append([]runtime.Object{roomy("a")}, parts("a")...)
			r, pods := gangRig(t, 2, objects...)
			first := pods
			switch test.name {
			case "another pod":
				large := podWith("large", "of-large")
				large.Spec.SchedulingGroup = pods[0].Spec.SchedulingGroup
				r.addClaim(partClaim("of-large", "whole"))
				first = []*corev1.Pod{large, pods[0]}
			case "fewer pods":
				group, err := r.client.SchedulingV1beta1().PodGroups("default").Get(r.ctx, "gang", metav1.GetOptions{})
				r.must(err)
				group = group.DeepCopy()
				group.Spec.SchedulingPolicy.Gang.MinCount = 3
				_, err = r.client.SchedulingV1beta1().PodGroups("default").Update(r.ctx, group, metav1.UpdateOptions{})
				r.must(err)
				third := podWith("member-2", "of-member-2")
				third.Spec.SchedulingGroup = pods[0].Spec.SchedulingGroup
				r.addClaim(partClaim("of-member-2", "whole"))
				first = []*corev1.Pod{third, pods[0], pods[1]}
			default:
				class, err := r.client.ResourceV1().DeviceClasses().Get(r.ctx, "gpu", metav1.GetOptions{})
				r.must(err)
				class = class.DeepCopy()
				class.Spec.Selectors = whole.Spec.Selectors
				_, err = r.client.ResourceV1().DeviceClasses().Update(r.ctx, class, metav1.UpdateOptions{})
				r.must(err)
			}
			r.run()
			r.create(first...)
			r.saidOfGroup("pods get devices and the group needs")
			test.change(r, pods)
			r.waitFor(20*time.Second, "member-0", "member-1")
		})
	}
}
