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
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator/extension"
)

// railed are the GPUs of a node, one for each rail.
func railed(node string, rails ...int64) *resourceapi.ResourceSlice {
	slice := gpus(node, len(rails))
	for i, rail := range rails {
		slice.Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"rail": {IntValue: &rail}}
	}
	return slice
}

// railRig is a scheduler with a group of pods that each want a GPU, all of one rail.
func railRig(t *testing.T, annotation string, pods, least int, objects ...runtime.Object) (*rig, []*corev1.Pod) {
	t.Helper()
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, kubefeatures.GenericWorkload, true)
	objects = append(objects, gpuClass(), &schedulingapi.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gang", UID: "gang", Annotations: map[string]string{extension.Annotation: annotation}},
		Spec: schedulingapi.PodGroupSpec{
			SchedulingPolicy: schedulingapi.PodGroupSchedulingPolicy{Gang: &schedulingapi.GangSchedulingPolicy{MinCount: int32(least)}},
		},
	})
	var members []*corev1.Pod
	for i := range pods {
		name := fmt.Sprint("member-", i)
		pod := podWith(name, "of-"+name)
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("gang")}
		members = append(members, pod)
		objects = append(objects, gpuClaim("of-"+name, 1))
	}
	r, err := newScheduler(t, dray, objects...)
	r.must(err)
	return r, members
}

func (r *rig) devicesOfMembers(pods []*corev1.Pod) []string {
	var devices []string
	for i := range pods {
		claim, err := r.client.ResourceV1().ResourceClaims("default").Get(r.ctx, fmt.Sprint("of-member-", i), metav1.GetOptions{})
		r.must(err)
		devices = append(devices, devicesOf(claim)...)
	}
	slices.Sort(devices)
	return devices
}

// The devices of all pods of a group are of one rail, also those of a pod that is added later.
func TestGroupDevicesHaveAttributeInCommon(t *testing.T) {
	r, pods := railRig(t, `{"constraints": [{"matchAttribute": "gpu.example.com/rail"}]}`, 3, 2,
		railed("a", 0, 1, 2), railed("b", 3, 1, 4), roomy("a"), roomy("b"), roomy("c"))
	r.run()
	r.create(pods[:2]...)
	r.waitFor(time.Minute, "member-0", "member-1")
	if devices, want := r.devicesOfMembers(pods[:2]), []string{"a/gpu-1", "b/gpu-1"}; !slices.Equal(devices, want) {
		t.Errorf("devices %v, want %v", devices, want)
	}
	r.create(pods[2])
	r.waitForRejection("member-2")
	r.addSlice(railed("c", 0, 1))
	r.waitFor(time.Minute, "member-2")
	if devices, want := r.devicesOfMembers(pods), []string{"a/gpu-1", "b/gpu-1", "c/gpu-1"}; !slices.Equal(devices, want) {
		t.Errorf("devices %v, want %v", devices, want)
	}
}

// A plan has places on nodes only where the pods may run: it holds at once.
func TestGroupWithConstraintAndSelector(t *testing.T) {
	zoned := roomy("b")
	zoned.Labels = map[string]string{"zone": "b"}
	r, pods := railRig(t, `{"constraints": [{"matchAttribute": "gpu.example.com/rail"}]}`, 2, 2, railed("a", 0, 0), railed("b", 1, 1), roomy("a"), zoned)
	for _, pod := range pods {
		pod.Spec.NodeSelector = zoned.Labels
	}
	before := groupPlans(t)
	r.run()
	r.create(pods...)
	r.waitFor(time.Minute, "member-0", "member-1")
	if devices, want := r.devicesOfMembers(pods), []string{"b/gpu-0", "b/gpu-1"}; !slices.Equal(devices, want) {
		t.Errorf("devices %v, want %v", devices, want)
	}
	if plans := groupPlans(t) - before; plans != 1 {
		t.Errorf("it took %d plans", plans)
	}
}

// A pod without devices is one of those that the group needs to start.
func TestGroupWithConstraintCountsOtherPods(t *testing.T) {
	r, pods := railRig(t, `{"constraints": [{"matchAttribute": "gpu.example.com/rail"}]}`, 3, 2, railed("a", 0), roomy("a"))
	pods[2].Spec.ResourceClaims = nil
	r.run()
	r.create(pods...)
	r.waitFor(time.Minute, "member-0", "member-2")
	r.waitForRejection("member-1")
}

// An error in the annotation is in an Event and in the condition of the group. Correcting it requeues the group.
func TestGroupWithWrongConstraint(t *testing.T) {
	r, pods := railRig(t, `{"constraints": [{"matchAttribute": "gpu.example.com/rail", "requests": ["gpo"]}]}`, 2, 2, railed("a", 0, 1, 1), roomy("a"))
	r.run()
	r.create(pods...)
	r.waitForRejection("member-0")
	const wrong = `constraints[0].requests[0]: no pod of the group has a request "gpo"`
	eventually(t, func() error {
		events, err := r.client.EventsV1().Events("").List(r.ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		group, err := r.client.SchedulingV1beta1().PodGroups("default").Get(r.ctx, "gang", metav1.GetOptions{})
		if err != nil {
			return err
		}
		said := slices.ContainsFunc(group.Status.Conditions, func(c metav1.Condition) bool { return strings.Contains(c.Message, wrong) })
		for i := range events.Items {
			if e := &events.Items[i]; said && e.Regarding.Kind == "PodGroup" && e.Reason == "InvalidConstraint" && strings.Contains(e.Note, wrong) {
				return nil
			}
		}
		return fmt.Errorf("%d Events and the conditions %+v do not say %s", len(events.Items), group.Status.Conditions, wrong)
	})
	group, err := r.client.SchedulingV1beta1().PodGroups("default").Get(r.ctx, "gang", metav1.GetOptions{})
	r.must(err)
	group = group.DeepCopy()
	group.Annotations[extension.Annotation] = `{"constraints": [{"matchAttribute": "gpu.example.com/rail"}]}`
	_, err = r.client.SchedulingV1beta1().PodGroups("default").Update(r.ctx, group, metav1.UpdateOptions{})
	r.must(err)
	r.waitFor(time.Minute, "member-0", "member-1")
	if devices, want := r.devicesOfMembers(pods), []string{"a/gpu-1", "a/gpu-2"}; !slices.Equal(devices, want) {
		t.Errorf("devices %v, want %v", devices, want)
	}
}

// A refusal by another plugin limits the next plan, which has devices with one common value, too.
func TestGroupWithConstraintIsPlannedAnew(t *testing.T) {
	r, pods := railRig(t, `{"constraints": [{"matchAttribute": "gpu.example.com/rail"}]}`, 2, 2,
		railed("a", 0, 0, 1), railed("b", 2, 1), roomy("a"), roomy("b"))
	for _, pod := range pods { // a node takes one of them
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080, Protocol: corev1.ProtocolTCP}}
	}
	r.run()
	r.create(pods...)
	r.waitFor(time.Minute, "member-0", "member-1")
	if devices, want := r.devicesOfMembers(pods), []string{"a/gpu-2", "b/gpu-1"}; !slices.Equal(devices, want) {
		t.Errorf("devices %v, want %v", devices, want)
	}
}

// The pods of a group without a gang policy are not placed together, so that nothing can hold for all of them.
func TestConstraintNeedsAGang(t *testing.T) {
	r, pods := railRig(t, `{"constraints": [{"matchAttribute": "gpu.example.com/rail"}]}`, 1, 1, railed("a", 0), roomy("a"))
	group, err := r.client.SchedulingV1beta1().PodGroups("default").Get(r.ctx, "gang", metav1.GetOptions{})
	r.must(err)
	group.Spec.SchedulingPolicy = schedulingapi.PodGroupSchedulingPolicy{Basic: &schedulingapi.BasicSchedulingPolicy{}}
	_, err = r.client.SchedulingV1beta1().PodGroups("default").Update(r.ctx, group, metav1.UpdateOptions{})
	r.must(err)
	r.run()
	r.create(pods...)
	r.waitForRejection("member-0")
	const noGang = "annotation " + extension.Annotation + ": the PodGroup has no gang policy, so its pods are not placed together"
	eventually(t, func() error {
		events, err := r.client.EventsV1().Events("").List(r.ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == "InvalidConstraint" && e.Regarding.Kind == "PodGroup" && e.Note == noGang {
				return nil
			}
		}
		return fmt.Errorf("none of %d Events says %q", len(events.Items), noGang)
	})
}
