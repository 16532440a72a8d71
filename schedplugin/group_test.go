// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clienttesting "k8s.io/client-go/testing"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	fwk "k8s.io/kube-scheduler/framework"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/schedplugin/internal/claimstate"
)

// groupWithClaim is a group with one claim, which is named after it.
func groupWithClaim() *schedulingapi.PodGroup {
	const name = "g"
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
	return gangWorldWith(t, nil, objects...)
}

// gangWorldWith has pods of the group, too.
func gangWorldWith(t *testing.T, members []*corev1.Pod, objects ...runtime.Object) *world {
	t.Helper()
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		kubefeatures.GenericWorkload:           true,
		kubefeatures.DRAWorkloadResourceClaims: true,
	})
	features := everything
	features.EnableDRAWorkloadResourceClaims = true
	features.EnableGenericWorkload = true
	return newWorld(t, setting{features: features, objects: append(objects, gpuClass()), groups: []*schedulingapi.PodGroup{groupWithClaim()}, members: members})
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
func TestGroupsDeallocateClaims(t *testing.T) {
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
			Name: "g", Namespace: "default", UnscheduledPods: []*corev1.Pod{a.pod}, PodGroup: groupWithClaim(),
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
	shared.Status.ReservedFor = append(shared.Status.ReservedFor, claimstate.PodConsumer(podWith("stranger")))
	w = gangWorld(t, node("a"), shared)
	_, status = run(w)
	expect(t, status, fwk.Unschedulable, "ResourceClaim unreserved for PodGroup")
	if got := w.claim("g").Status; got.Allocation == nil || len(got.ReservedFor) != 1 || got.ReservedFor[0].Name != "stranger" {
		t.Errorf("status %+v", got)
	}
	// The claim is not taken from a pod that runs.
	running := member("runs")
	running.Spec.NodeName = "elsewhere"
	for _, claim := range []*resourceapi.ResourceClaim{elsewhere(), shared} {
		w = gangWorldWith(t, []*corev1.Pod{running}, node("a"), claim.DeepCopy())
		_, status = run(w)
		expect(t, status, fwk.Unschedulable, "")
		if got := w.claim("g").Status; got.Allocation == nil || len(got.ReservedFor) != len(claim.Status.ReservedFor) {
			t.Errorf("status %+v, and a pod of the group runs", got)
		}
	}
	_, status = w.plugin.PodGroupPostFilter(w.ctx, nil, &framework.PodGroupInfo{Type: fwk.CompositePodGroupKeyType}, nil)
	expect(t, status, fwk.Unschedulable, "")
}

// gangRun is what becomes of the pods of a group that share a claim, in one order of calls.
type gangRun struct {
	*world
	pods     []*attempt
	states   []*framework.CycleState
	reserved map[int]bool
	bound    map[int]bool
	// wrote is set once an allocation got into the API server.
	wrote bool
	log   []string
}

// The possible fates of a pod after Reserve.
var fates = []string{"bound", "not written", "given up later", "given up before"}

// newGangRun does what the framework does for a group: it reserves for all pods, one after
// the other, takes all of it back, and then goes on with each pod.
func newGangRun(w *world, pods int) *gangRun {
	r := &gangRun{world: w, reserved: make(map[int]bool), bound: make(map[int]bool)}
	group := framework.NewCycleState()
	for i := range pods {
		a, state := together(w, group, member(fmt.Sprint("pod-", i)))
		_, status := a.reserve()
		expect(w.t, status, fwk.Success, "")
		r.pods, r.states = append(r.pods, a), append(r.states, state)
	}
	for i := pods - 1; i >= 0; i-- {
		w.plugin.Unreserve(w.ctx, r.pods[i].state, r.pods[i].pod, "b")
		r.states[i].SetPodGroupSchedulingCycle(nil)
	}
	return r
}

func (r *gangRun) fail(format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("%s, after %v", fmt.Sprintf(format, args...), r.log)
}

// step calls Reserve of a pod, and the next time what its fate is.
func (r *gangRun) step(i int, fate string) {
	r.t.Helper()
	a := r.pods[i]
	if !r.reserved[i] && !r.bound[i] {
		r.log = append(r.log, fmt.Sprint("reserve ", i))
		if status := r.plugin.Reserve(r.ctx, a.state, a.pod, "b"); !status.IsSuccess() {
			r.fail("Reserve: %v", status)
		}
		r.reserved[i] = true
		r.check()
		return
	}
	r.log = append(r.log, fmt.Sprint(fate, " ", i))
	failing = fate == "not written"
	if fate != "given up before" {
		status := r.plugin.PreBind(r.ctx, a.state, a.pod, "b")
		// If everything is written already, it does not matter that writing fails.
		if !status.IsSuccess() && !failing || status.IsSuccess() && failing && !r.wrote {
			r.fail("PreBind: %v", status)
		}
		r.wrote = r.wrote || status.IsSuccess()
	}
	failing = false
	delete(r.reserved, i)
	if fate == "bound" {
		r.bound[i] = true
	} else {
		r.plugin.Unreserve(r.ctx, a.state, a.pod, "b")
	}
	r.check()
}

func reservedForGang(claim *resourceapi.ResourceClaim) bool {
	return len(claim.Status.ReservedFor) == 1 && claim.Status.ReservedFor[0].Resource == "podgroups"
}

// check finds out whether the device is the group's for exactly as long as it is needed.
func (r *gangRun) check() {
	r.t.Helper()
	view, err := r.plugin.model.Observe()
	if err != nil {
		r.fail("%v", err)
	}
	if want := len(r.reserved) > 0 || r.wrote; want != (view.Claims == 1) {
		r.fail("%d claims hold devices, want some: %v", view.Claims, want)
	}
	if r.wrote && (!slices.Equal(devicesOf(r.claim("g")), []string{"b/gpu-0"}) || !reservedForGang(r.claim("g"))) {
		r.fail("claim %+v", r.claim("g").Status)
	}
}

// reset has the claim as it was.
func (r *gangRun) reset() {
	r.t.Helper()
	if r.plugin.dra.ResourceClaims().GetPendingAllocation("g") != nil {
		r.fail("the claim stays in flight")
	}
	claim := r.claim("g")
	claim.Status = resourceapi.ResourceClaimStatus{}
	if _, err := r.client.ResourceV1().ResourceClaims("default").UpdateStatus(r.ctx, claim, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.settle()
}

// failing has updates of the status of claims refused.
var failing bool

func failStatus(action clienttesting.Action) (bool, runtime.Object, error) {
	if failing && action.GetSubresource() == "status" {
		return true, nil, apierrors.NewBadRequest("injected")
	}
	return false, nil, nil
}

// orders lists in which order each of some pods can be called twice.
func orders(pods int) [][]int {
	var all [][]int
	var extend func(order []int, calls []int)
	extend = func(order, calls []int) {
		if len(order) == 2*pods {
			all = append(all, slices.Clone(order))
			return
		}
		for i := range pods {
			if calls[i] < 2 {
				calls[i]++
				extend(append(order, i), calls)
				calls[i]--
			}
		}
	}
	extend(nil, make([]int, pods))
	return all
}

// Pods of a group that share a claim get through Reserve, PreBind and Unreserve in each order,
// whatever becomes of the others. With more than two pods
// there are too many to try all.
func TestGroupsInAnyOrder(t *testing.T) {
	w := gangWorld(t, node("a"), node("b"), gpus("b", 1), gpuClaim("g", 1))
	w.client.PrependReactor("update", "resourceclaims", failStatus)
	random := rand.New(rand.NewPCG(1, 1))
	sampled := map[int]int{2: 1, 3: 16, 4: 2000} // one of so many
	for pods := 2; pods <= 4; pods++ {
		tried := 0
		for _, order := range orders(pods) {
			for fate := range power(len(fates), pods) {
				if random.IntN(sampled[pods]) > 0 {
					continue
				}
				tried++
				r := newGangRun(w, pods)
				for _, i := range order {
					r.step(i, fates[fate/power(len(fates), i)%len(fates)])
				}
				r.reset()
			}
		}
		t.Logf("%d pods: %d runs", pods, tried)
	}
}

func power(base, exponent int) int {
	result := 1
	for range exponent {
		result *= base
	}
	return result
}
