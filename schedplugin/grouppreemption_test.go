// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"fmt"
	"maps"
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
	fwk "k8s.io/kube-scheduler/framework"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
)

// A group of higher priority preempts pods for their devices: as many as it needs, and no more
// while the claims of those that are gone are still allocated.
func TestGroupPreemption(t *testing.T) {
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		kubefeatures.GenericWorkload: true,
	})
	const members, others = 2, 4
	group := &schedulingapi.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gang", UID: "gang"},
		Spec: schedulingapi.PodGroupSpec{
			Priority:         ptr.To[int32](10),
			SchedulingPolicy: schedulingapi.PodGroupSchedulingPolicy{Gang: &schedulingapi.GangSchedulingPolicy{MinCount: members}},
		},
	}
	objects := []runtime.Object{gpuClass(), group}
	for i := range others {
		name := fmt.Sprint("node-", i)
		low := withPriority(podWith("low-"+name, "of-low-"+name), 1)
		low.Spec.NodeName, low.Spec.SchedulerName, low.Status.Phase = name, "default-scheduler", corev1.PodRunning
		objects = append(objects, roomy(name), gpus(name, 1), low, reservedBy(held(gpuClaim("of-low-"+name, 1), name, "gpu-0"), low))
	}
	var pods []*corev1.Pod
	var names []string
	for i := range members {
		name := fmt.Sprint("member-", i)
		pod := withPriority(podWith(name, "of-"+name), 10)
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("gang")}
		pods, names = append(pods, pod), append(names, name)
		objects = append(objects, gpuClaim("of-"+name, 1))
	}
	r, err := newScheduler(t, dray, objects...)
	r.must(err)
	// Nobody deallocates what the victims had before the group had to wait for it.
	ended := make(chan *corev1.Pod, others)
	r.ended, r.observed = ended, true
	r.run()
	r.create(pods...)
	var gone []*corev1.Pod
	for len(gone) < members {
		select {
		case pod := <-ended:
			gone = append(gone, pod)
		case <-time.After(2 * time.Minute):
			t.Fatalf("%d pods are preempted, want %d: %+v", len(gone), members, r.pod("member-0").Status)
		}
	}
	eventually(t, func() error {
		group, err := r.client.SchedulingV1beta1().PodGroups("default").Get(r.ctx, "gang", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range group.Status.Conditions {
			if strings.Contains(condition.Message, "waiting for the devices of pods that were preempted") {
				return nil
			}
		}
		return fmt.Errorf("the group does not wait: %+v", group.Status.Conditions)
	})
	for _, pod := range gone {
		for !r.deallocated(*pod.Spec.ResourceClaims[0].ResourceClaimName) {
		}
	}
	r.waitFor(time.Minute, names...)
	if left := len(ended); left > 0 {
		t.Errorf("%d pods more than needed were preempted", left)
	}
}

// awaitCase is a group of two pods, one and two, that are tried in a cluster of two nodes, a and b.
type awaitCase struct {
	name    string
	objects []runtime.Object
	// nominated is the node of each pod of the group, as the queue knows it.
	nominated map[string]string
	tried     []string
	want      map[string]string
	shared    bool // the claim of both
	allocated bool // the claim of the first
}

// run returns how the group ends that could not be placed.
func (test *awaitCase) run(t *testing.T) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	pods, queued := make(map[string]*corev1.Pod), make(nominations)
	for _, name := range []string{"one", "two"} {
		if pods[name] = podWith(name, "of-"+name); test.shared {
			pods[name] = podWith(name, "of-one")
		}
		if node := test.nominated[name]; node != "" {
			info, err := framework.NewPodInfo(pods[name])
			if err != nil {
				t.Fatal(err)
			}
			queued[node] = append(queued[node], info)
		}
	}
	first := gpuClaim("of-one", 1)
	if test.allocated {
		first = reservedBy(held(first, "a", "gpu-0"), pods["one"])
	}
	w := newWorld(t, setting{nominated: queued, objects: append(test.objects, node("a"), node("b"), gpuClass(), first, gpuClaim("of-two", 1))})
	group := framework.NewCycleState()
	var reserved []func()
	for _, name := range test.tried {
		a, _ := together(w, group, pods[name])
		if placed, status := a.reserve(); status.IsSuccess() {
			reserved = append(reserved, func() { w.plugin.Unreserve(w.ctx, a.state, a.pod, placed) })
		}
	}
	for _, undo := range reserved {
		undo()
	}
	return w.plugin.PodGroupPostFilter(w.ctx, group, &framework.PodGroupInfo{
		Name: "g", Namespace: "default", UnscheduledPods: []*corev1.Pod{pods["one"], pods["two"]}, PodGroup: groupWithClaim(),
	}, nil)
}

// The pods of a group that lack devices wait for those of pods which were preempted, on any of
// the nodes to which the group is nominated. Those for which there was a node stay nominated to
// it, and those that were not tried to theirs.
func TestGroupWaitsForVictims(t *testing.T) {
	gone := func(node string) *resourceapi.ResourceClaim {
		return reservedBy(held(gpuClaim("of-gone-"+node, 1), node, "gpu-0"), podWith("gone-"+node))
	}
	staying := podWith("staying", "of-staying")
	ab := map[string]string{"one": "a", "two": "b"}
	both := []string{"one", "two"}
	for _, test := range []awaitCase{
		{
			name: "on its own node", objects: []runtime.Object{gpus("a", 1), gpus("b", 1), gone("b")},
			nominated: ab, tried: both, want: ab,
		},
		{
			name: "where another one is nominated", objects: []runtime.Object{gpus("a", 1), gpus("b", 1), gone("b")},
			nominated: map[string]string{"one": "b", "two": "a"}, tried: both, want: ab,
		},
		{
			name: "the rest is not tried", objects: []runtime.Object{gpus("a", 1), gpus("b", 1), gone("a"), gone("b")},
			nominated: ab, tried: []string{"one"}, want: ab,
		},
		{
			name: "one device for two pods", objects: []runtime.Object{
				gpus("a", 1), gpus("b", 1), gone("a"), staying,
				reservedBy(held(gpuClaim("of-staying", 1), "b", "gpu-0"), staying),
			},
			nominated: ab, tried: both,
		},
		{
			name: "the device that comes free is not on a node of the group", objects: []runtime.Object{gpus("a", 1), gpus("b", 1), gone("b")},
			nominated: map[string]string{"two": "a"}, tried: both,
		},
		{
			name: "the first one was not nominated", objects: []runtime.Object{gpus("a", 1), gpus("b", 1), gone("a")},
			nominated: map[string]string{"two": "a"}, tried: both, want: map[string]string{"one": "b", "two": "a"},
		},
		{
			name: "rather on its own node", objects: []runtime.Object{node("c"), gpus("a", 1), gpus("b", 1), gpus("c", 1), gone("a"), gone("b")},
			nominated: ab, tried: both, want: map[string]string{"one": "c", "two": "b"},
		},
		{
			name: "one device for one claim", objects: []runtime.Object{gpus("b", 1), gone("b")},
			nominated: map[string]string{"one": "b", "two": "b"}, tried: both, want: map[string]string{"one": "b", "two": "b"}, shared: true,
		},
		{
			name: "nothing comes free", objects: []runtime.Object{gpus("a", 1)},
			nominated: map[string]string{"one": "a", "two": "a"}, tried: both,
		},
		{
			name: "beside one that has its devices", objects: []runtime.Object{gpus("a", 1), gpus("b", 1), gone("b")},
			nominated: map[string]string{"two": "b"}, tried: both, want: ab, allocated: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			result, status := test.run(t)
			if test.want == nil {
				expect(t, status, fwk.Unschedulable, "")
				return
			}
			expect(t, status, fwk.Success, "waiting for the devices of pods that were preempted")
			if result == nil {
				t.Fatal("nobody is nominated")
			}
			got := make(map[string]string)
			for name, info := range result.NominatingInfos {
				got[name.Name] = info.NominatedNodeName
			}
			if !maps.Equal(test.want, got) {
				t.Errorf("nominations %v, want %v", got, test.want)
			}
		})
	}
}
