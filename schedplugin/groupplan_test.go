// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"errors"
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
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/component-base/metrics/legacyregistry"
	fwk "k8s.io/kube-scheduler/framework"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
	"github.com/dray-project/dray/schedplugin/internal/refusal"
)

// parts are a GPU of a node that can be had whole, in halves or in quarters.
func parts(node string) []runtime.Object {
	var objects []runtime.Object
	for _, slice := range inventory.Partitionable("gpu.example.com", node, 1, "a100") {
		objects = append(objects, slice)
	}
	return objects
}

// partClaim asks for the first of some parts that can be had.
func partClaim(name string, profiles ...string) *resourceapi.ResourceClaim {
	claim := gpuClaim(name, 1)
	request := resourceapi.DeviceRequest{Name: "part"}
	for _, profile := range profiles {
		request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
			Name: profile, DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
			Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
				Expression: fmt.Sprintf(`device.attributes["gpu.example.com"].profile == %q`, profile),
			}}},
		})
	}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{request}
	return claim
}

// gangRig is a scheduler with a group of pods that each want a whole GPU or else a half.
func gangRig(t *testing.T, pods int, objects ...runtime.Object) (*rig, []*corev1.Pod) {
	t.Helper()
	return gangRigWith(t, dray, pods, objects...)
}

// gangRigWith is gangRig with a plugin.
func gangRigWith(t *testing.T, profiles string, pods int, objects ...runtime.Object) (*rig, []*corev1.Pod) {
	t.Helper()
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, map[featuregate.Feature]bool{
		kubefeatures.GenericWorkload: true, kubefeatures.DRAPartitionableDevices: true, kubefeatures.DRAPrioritizedList: true,
	})
	objects = append(objects, gpuClass(), &schedulingapi.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gang", UID: "gang"},
		Spec: schedulingapi.PodGroupSpec{
			SchedulingPolicy: schedulingapi.PodGroupSchedulingPolicy{Gang: &schedulingapi.GangSchedulingPolicy{MinCount: int32(pods)}},
		},
	})
	var members []*corev1.Pod
	for i := range pods {
		name := fmt.Sprint("member-", i)
		pod := podWith(name, "of-"+name)
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("gang")}
		members = append(members, pod)
		objects = append(objects, partClaim("of-"+name, "whole", "half"))
	}
	r, err := newScheduler(t, profiles, objects...)
	r.must(err)
	return r, members
}

// gangOf is a world with a gang of pods, by their claims.
func gangOf(t *testing.T, claims []string, objects ...runtime.Object) (*world, []*corev1.Pod) {
	t.Helper()
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, kubefeatures.GenericWorkload, true)
	var pods []*corev1.Pod
	for _, claim := range claims {
		pod := podWith("with-"+claim, claim)
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("gang")}
		pods = append(pods, pod)
	}
	w := newWorld(t, setting{objects: append(objects, gpuClass()), members: pods, groups: []*schedulingapi.PodGroup{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gang", UID: "gang"},
		Spec: schedulingapi.PodGroupSpec{
			SchedulingPolicy: schedulingapi.PodGroupSchedulingPolicy{Gang: &schedulingapi.GangSchedulingPolicy{MinCount: int32(len(pods))}},
		},
	}}})
	return w, pods
}

// giveUp ends an attempt of the gang that failed.
func (w *world) giveUp(cycle *framework.CycleState, pods []*corev1.Pod) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	object, err := w.plugin.handle.SnapshotSharedLister().PodGroups().Get("default", "gang")
	if err != nil {
		w.t.Fatal(err)
	}
	group := &framework.PodGroupInfo{Name: "gang", Namespace: "default", UnscheduledPods: pods, PodGroup: object}
	return w.plugin.PodGroupPostFilter(w.ctx, cycle, group, func(context.Context) (*fwk.PodGroupAssignments, *fwk.Status) {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	})
}

// A group without a plan waits if there is one for the time when devices come free. It is nominated to the nodes of that plan.
func TestGroupWaitsIfThereIsAPlanForLater(t *testing.T) {
	w, pods := gangOf(t, []string{"one", "two"}, append(parts("a"), roomy("a"), partClaim("one", "whole", "half"), partClaim("two", "whole", "half"),
		reservedBy(held(partClaim("of-gone", "half"), "a", "gpu-0-half-0"), podWith("gone", "of-gone")))...)
	cycle := framework.NewCycleState()
	one, _ := together(w, cycle, pods[0])
	placed, status := one.reserve()
	expect(t, status, fwk.Success, "")
	two, _ := together(w, cycle, pods[1])
	if _, status := two.reserve(); !status.IsRejected() {
		t.Fatalf("both pods get devices: %v", status)
	}
	w.plugin.Unreserve(w.ctx, one.state, one.pod, placed)
	result, status := w.giveUp(cycle, pods)
	expect(t, status, fwk.Success, "waiting for the devices of pods that were preempted")
	for _, pod := range pods {
		if info := result.NominatingInfos[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]; info == nil || info.NominatedNodeName != "a" {
			t.Errorf("nomination of pod %s: %+v", pod.Name, info)
		}
	}
}

// A group that was refused a plan because its devices are set aside for a nominated pod gets them once that pod is gone. No
// other plugin refused the planned node, so there is nothing to learn from that.
func TestGroupGetsDevicesThatWereSetAside(t *testing.T) {
	w, pods := gangOf(t, []string{"one", "two"}, append(parts("a"), partClaim("one", "whole", "half"), partClaim("two", "whole", "half"), partClaim("aside", "half"))...)
	w.addNode(roomy("a"))
	// beside tries the pods as the framework does beside a nominated pod: with it on the node first, then without.
	beside := func() *framework.CycleState {
		cycle := framework.NewCycleState()
		for _, pod := range pods {
			a, state := together(w, cycle, pod)
			expect(t, a.preFilter(), fwk.Success, "")
			with := state.Clone()
			expect(t, w.plugin.AddPod(w.ctx, with, pod, a.wrap(podWith("nominated", "aside")), a.nodes[0]), fwk.Success, "")
			if w.plugin.Filter(w.ctx, with, pod, a.nodes[0]).IsSuccess() && a.filter(0).IsSuccess() {
				expect(t, w.plugin.Reserve(w.ctx, state, pod, "a"), fwk.Success, "")
				defer w.plugin.Unreserve(w.ctx, state, pod, "a")
			}
		}
		return cycle
	}
	object, err := w.plugin.handle.SnapshotSharedLister().PodGroups().Get("default", "gang")
	if err != nil {
		t.Fatal(err)
	}
	group := &framework.PodGroupInfo{Name: "gang", Namespace: "default", UnscheduledPods: pods, PodGroup: object}
	trials := 0
	result, status := w.plugin.PodGroupPostFilter(w.ctx, beside(), group, func(context.Context) (*fwk.PodGroupAssignments, *fwk.Status) {
		trials++
		beside()
		return nil, fwk.NewStatus(fwk.Unschedulable)
	})
	if result != nil || !status.IsRejected() || trials == 0 {
		t.Errorf("beside a nominated pod: %v, %v, %d trials", result, status, trials)
	}
	w.plugin.endings.End(pods[0], refusal.Attempt{}) // as after an attempt with all devices in use
	w.giveUp(beside(), pods)
	if last, known := w.plugin.endings.Of(pods[0].UID); !known || !last.DevicesSetAside {
		t.Errorf("the group is not tried again when the nominated pod goes elsewhere: %+v", last)
	}
	cycle := framework.NewCycleState()
	for _, pod := range pods {
		a, _ := together(w, cycle, pod)
		_, status := a.reserve()
		expect(t, status, fwk.Success, "")
	}
}

// groupPlans is how often plans were looked for.
func groupPlans(t *testing.T) int {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, family := range families {
		if family.GetName() == "dray_group_plans_total" {
			for _, metric := range family.GetMetric() {
				total += metric.GetCounter().GetValue()
			}
		}
	}
	return int(total)
}

// saidOfGroup waits until an Event and the condition of the group have said something.
func (r *rig) saidOfGroup(want string) {
	r.t.Helper()
	eventually(r.t, func() error {
		events, err := r.client.EventsV1().Events("").List(r.ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		r.mu.Lock()
		patches := slices.Clone(r.patches)
		r.mu.Unlock()
		said := slices.ContainsFunc(patches, func(patch string) bool { return strings.Contains(patch, want) })
		var notes []string
		for i := range events.Items {
			if e := &events.Items[i]; e.Regarding.Kind == "PodGroup" && strings.Contains(e.Note, want) && said {
				return nil
			} else if e.Regarding.Kind == "PodGroup" {
				notes = append(notes, e.Note)
			}
		}
		return fmt.Errorf("no Event and condition say %q: %q, %q", want, notes, patches)
	})
}

// Two pods get a half each, where the first by itself would take the whole.
func TestGroupIsPlanned(t *testing.T) {
	r, pods := gangRig(t, 2, append(parts("a"), roomy("a"))...)
	r.run()
	r.create(pods...)
	r.waitFor(time.Minute, "member-0", "member-1")
	var devices []string
	for i := range pods {
		claim, err := r.client.ResourceV1().ResourceClaims("default").Get(r.ctx, fmt.Sprint("of-member-", i), metav1.GetOptions{})
		r.must(err)
		devices = append(devices, devicesOf(claim)...)
	}
	if want := []string{"a/gpu-0-half-0", "a/gpu-0-half-1"}; !slices.Equal(devices, want) {
		t.Errorf("devices %v, want %v", devices, want)
	}
}

// A group for which there is no plan is not planned again while nothing changes, and wakes when there is another GPU.
func TestGroupIsNotPlannedInVain(t *testing.T) {
	r, pods := gangRig(t, 3, append(parts("a"), roomy("a"), roomy("b"))...)
	before := groupPlans(t)
	r.run()
	r.create(pods...)
	r.waitForRejection("member-0")
	r.idle()
	// What holds no devices may wake the group, and changes nothing.
	for i := range 5 {
		r.addClaim(gpuClaim(fmt.Sprint("other-", i), 1))
	}
	r.idle()
	if plans := groupPlans(t) - before; plans != 1 {
		t.Errorf("%d plans were looked for, want 1, in %d attempts", plans, r.attemptsOf("member-0"))
	}
	r.saidOfGroup("together, 2 of 3 pods get devices and the group needs 3; member-2 competes with member-0 for device gpu.example.com/a/gpu-0-half-0 on node a, " +
		"with member-1 for device gpu.example.com/a/gpu-0-half-1 on node a; the group starts with a minCount lower by 1")
	for _, slice := range parts("b") {
		r.addSlice(slice.(*resourceapi.ResourceSlice))
	}
	r.waitFor(time.Minute, "member-0", "member-1", "member-2")
}

// A search for devices for all pods that was given up is said to be undecided, and repeated with more steps until it is decided.
func TestGroupIsUndecided(t *testing.T) {
	r, pods := gangRigWith(t, withBudget(1), 4, append(append(parts("a"), parts("b")...), roomy("a"), roomy("b"))...)
	r.run()
	r.create(pods...)
	r.waitForRejection("member-0")
	r.saidOfGroup("more may fit, the search was given up")
	r.waitFor(time.Minute, "member-0", "member-1", "member-2", "member-3")
}

// The plugins after this one are asked about a group without a plan, and its condition says what all of them say, though the last one says
// that nothing helps.
func TestOthersAreAskedAboutAGroup(t *testing.T) {
	profile := strings.NewReplacer("{name: Dray, weight: 2}", "{name: Dray, weight: 2}, {name: Counter}", "podGroupPostFilter: {enabled: [{name: Dray}", "podGroupPostFilter: {enabled: [{name: Dray}, {name: Counter}").Replace(dray)
	r, pods := gangRigWith(t, profile, 3, append(parts("a"), roomy("a"))...)
	r.run()
	r.create(pods...)
	for _, said := range []string{"together, 2 of 3 pods get devices", "counted", "No preemption victims found"} {
		r.conditionSays(said)
	}
	if asked := r.attemptsOf("group gang"); asked == 0 || asked > r.attemptsOf("member-0") {
		t.Errorf("the other plugin was asked %d times in %d attempts", asked, r.attemptsOf("member-0"))
	}
}

// If a later plugin returns Success, its result is taken. If it fails, the group fails.
func TestPostFilterOfOtherPluginsDecides(t *testing.T) {
	for name, test := range map[string]struct {
		others []*fwk.Status
		code   fwk.Code
		says   string
	}{
		"nobody":        {nil, fwk.Unschedulable, "ours"},
		"nothing helps": {[]*fwk.Status{fwk.NewStatus(fwk.Unschedulable, "first"), fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "second"), fwk.NewStatus(fwk.Success)}, fwk.UnschedulableAndUnresolvable, "ours, first, second"},
		"nobody knows":  {[]*fwk.Status{fwk.NewStatus(fwk.Unschedulable, "first")}, fwk.UnschedulableAndUnresolvable, "ours, first"},
		"a way":         {[]*fwk.Status{fwk.NewStatus(fwk.Unschedulable, "first"), fwk.NewStatus(fwk.Success, "way")}, fwk.Success, "way"},
		"an error":      {[]*fwk.Status{fwk.AsStatus(errors.New("broken"))}, fwk.Error, "plugin other: broken"},
	} {
		plugins := []fwk.PodGroupPostFilterPlugin{&Plugin{}}
		for _, status := range test.others {
			plugins = append(plugins, answering{status})
		}
		p := &Plugin{handle: withPostFilters{plugins: plugins}}
		_, status := p.postFilterOthers(t.Context(), nil, nil, nil, "ours")
		if status.Code() != test.code || status.Message() != test.says {
			t.Errorf("%s: %v, want %v: %s", name, status, test.code, test.says)
		}
	}
}

// withPostFilters is a handle with plugins.
type withPostFilters struct {
	fwk.Handle
	plugins []fwk.PodGroupPostFilterPlugin
}

func (w withPostFilters) PodGroupPostFilterPlugins() []fwk.PodGroupPostFilterPlugin { return w.plugins }

// answering is a plugin with an answer.
type answering struct{ status *fwk.Status }

func (a answering) Name() string { return "other" }

func (a answering) PodGroupPostFilter(context.Context, fwk.PodGroupCycleState, fwk.PodGroupInfo, fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	return nil, a.status
}
