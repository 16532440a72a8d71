package schedplugin

import (
	"testing"

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

// gang is a group with one claim, which is named after it.
func gang(name string) *schedulingapi.PodGroup {
	return &schedulingapi.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "gang"},
		Spec: schedulingapi.PodGroupSpec{ResourceClaims: []schedulingapi.PodGroupResourceClaim{
			{Name: "gpus", ResourceClaimName: ptr.To(name)},
		}},
	}
}

// member is a pod of the group g that uses the group's claim.
func member(name string) *corev1.Pod {
	const group = "g"
	pod := podWith(name)
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(group)}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimName: ptr.To(group)}}
	return pod
}

func gangWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		kubefeatures.GenericWorkload:           true,
		kubefeatures.DRAWorkloadResourceClaims: true,
	})
	features := everything
	features.EnableDRAWorkloadResourceClaims = true
	features.EnableGenericWorkload = true
	return newWorld(t, setting{features: features, objects: append(objects, gpuClass()), groups: []*schedulingapi.PodGroup{gang("g")}})
}

// together is an attempt as part of the cycle of a group.
func together(w *world, cycle *framework.CycleState, pod *corev1.Pod) (*attempt, *framework.CycleState) {
	state := framework.NewCycleState()
	state.SetPodGroupSchedulingCycle(cycle)
	return &attempt{world: w, pod: pod, state: state}, state
}

// Pods of a group share a claim that is in flight. It is written once, for the group.
func TestGroupsShareClaims(t *testing.T) {
	w := gangWorld(t, node("a"), node("b"), gpus("b", 1), gpuClaim("g", 1))
	w.writes()
	group := framework.NewCycleState()
	one, stateOne := together(w, group, member("one"))
	two, stateTwo := together(w, group, member("two"))
	for _, a := range []*attempt{one, two} {
		placed, status := a.reserve()
		expect(t, status, fwk.Success, "")
		if placed != "b" {
			t.Errorf("pod %s goes to %q", a.pod.Name, placed)
		}
	}
	expect(t, w.attempt(member("three")).preFilter(), fwk.UnschedulableAndUnresolvable,
		"resource claim default/g is in the process of being allocated")
	// Binding is not part of the group's cycle.
	stateOne.SetPodGroupSchedulingCycle(nil)
	stateTwo.SetPodGroupSchedulingCycle(nil)
	for _, a := range []*attempt{one, two} {
		expect(t, w.plugin.PreBind(w.ctx, a.state, a.pod, "b"), fwk.Success, "")
	}
	if got := w.writes(); got["update resourceclaims/status"] != 1 {
		t.Errorf("writes %v, want the status once", got)
	}
	if consumers := w.claim("g").Status.ReservedFor; len(consumers) != 1 || consumers[0].Resource != "podgroups" {
		t.Errorf("consumers %+v", consumers)
	}
}

// If one of them is given up, the others keep it. After the last one it is free.
func TestGroupsGiveUp(t *testing.T) {
	w := gangWorld(t, node("b"), gpus("b", 1), gpuClaim("g", 1), gpuClaim("other", 1))
	group := framework.NewCycleState()
	one, _ := together(w, group, member("one"))
	two, _ := together(w, group, member("two"))
	for _, a := range []*attempt{one, two} {
		_, status := a.reserve()
		expect(t, status, fwk.Success, "")
	}
	w.plugin.Unreserve(w.ctx, one.state, one.pod, "b")
	if _, status := w.attempt(podWith("p", "other")).reserve(); !status.IsRejected() {
		t.Errorf("the device of the group was given away: %v", status)
	}
	w.plugin.Unreserve(w.ctx, two.state, two.pod, "b")
	_, status := w.attempt(podWith("p", "other")).reserve()
	expect(t, status, fwk.Success, "")
}

func TestPodGroupPostFilter(t *testing.T) {
	forGroup := resourceapi.ResourceClaimConsumerReference{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "g", UID: "gang"}
	elsewhere := func() *resourceapi.ResourceClaim {
		claim := held(gpuClaim("g", 1), "elsewhere", "gpu-0")
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{forGroup}
		return claim
	}
	run := func(w *world) (*attempt, *fwk.Status) {
		group := framework.NewCycleState()
		a, _ := together(w, group, member("one"))
		_, status := a.reserve()
		if !status.IsRejected() {
			t.Fatalf("reserved: %v", status)
		}
		_, status = w.plugin.PodGroupPostFilter(w.ctx, group, &framework.PodGroupInfo{
			Name: "g", Namespace: "default", UnscheduledPods: []*corev1.Pod{a.pod}, PodGroup: gang("g"),
		}, nil)
		return a, status
	}
	w := gangWorld(t, node("a"), elsewhere())
	_, status := run(w)
	expect(t, status, fwk.Unschedulable, "deallocation of PodGroup ResourceClaim completed")
	if got := w.claim("g"); got.Status.Allocation != nil {
		t.Errorf("the claim of the group is still allocated: %+v", got.Status)
	}
	shared := elsewhere()
	shared.Status.ReservedFor = append(shared.Status.ReservedFor, podConsumer(podWith("stranger")))
	w = gangWorld(t, node("a"), shared)
	_, status = run(w)
	expect(t, status, fwk.Unschedulable, "ResourceClaim unreserved for PodGroup")
	if got := w.claim("g").Status; got.Allocation == nil || len(got.ReservedFor) != 1 || got.ReservedFor[0].Name != "stranger" {
		t.Errorf("status %+v", got)
	}
	_, status = w.plugin.PodGroupPostFilter(w.ctx, nil, &framework.PodGroupInfo{Type: fwk.CompositePodGroupKeyType}, nil)
	expect(t, status, fwk.Unschedulable, "")
}
