// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/gang"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/preempt"
	"github.com/dray-project/dray/schedplugin/internal/refusal"
)

// gpus is a manager with a class for the extended resource example.com/gpu. No claim is left behind for such a resource.
type gpus struct {
	fwk.SharedDRAManager
	fwk.ResourceClaimTracker
}

func (g gpus) DeviceClassResolver() fwk.DeviceClassResolver       { return g }
func (g gpus) ResourceClaims() fwk.ResourceClaimTracker           { return g }
func (gpus) ExtendedClaim(*corev1.Pod) *resourceapi.ResourceClaim { return nil }
func (gpus) GetDeviceClass(name corev1.ResourceName) *resourceapi.DeviceClass {
	if name != "example.com/gpu" {
		return nil
	}
	return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
}

var source = claimstate.Source{DRA: gpus{}, Extended: true}

// podWanting is a pod with requests.
func podWanting(name string, requests corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: requests}}}},
	}
}

func claimNamed(name string) *claimstate.Claim {
	object := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	return &claimstate.Claim{Object: object, Name: "devices"}
}

// nodeWith has allocatable resources, and pods.
func nodeWith(name string, allocatable corev1.ResourceList, pods ...*corev1.Pod) fwk.NodeInfo {
	info := framework.NewNodeInfo(pods...)
	info.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: allocatable}})
	return info
}

func list(amounts ...string) corev1.ResourceList {
	resources := make(corev1.ResourceList)
	for i := 0; i < len(amounts); i += 2 {
		resources[corev1.ResourceName(amounts[i])] = resource.MustParse(amounts[i+1])
	}
	return resources
}

// The variant of a pod depends on which of its extended resources a device plugin provides on a node.
func TestVariantsOfNodes(t *testing.T) {
	pod := podWanting("p", list("cpu", "500m", "memory", "1k", "example.com/gpu", "2"))
	special, extended, err := source.ExtendedClaim(pod)
	if err != nil {
		t.Fatal(err)
	}
	own, shared := claimNamed("own"), claimNamed("shared")
	shared.Pending = &resourceapi.AllocationResult{}
	g := New(Hooks{Source: source, Usable: func(_ []*claimstate.Claim, node *corev1.Node) bool { return node.Name != "unusable" }})
	w := &waitingPod{pod: pod, claims: []*claimstate.Claim{own, shared, special}, extended: extended}
	nodes := []fwk.NodeInfo{
		nodeWith("unusable", nil), nodeWith("devices", nil), nodeWith("plugged", list("example.com/gpu", "8")), nodeWith("also devices", list("example.com/gpu", "0")),
		nodeWith("unfit", nil),
	}
	nodes[4].Node().Spec.Taints = []corev1.Taint{{Key: "full", Effect: corev1.TaintEffectNoSchedule}}
	w.kind = g.kindOf(w, nodes)
	if want := []int{-1, 0, 1, 0, -1}; !slices.Equal(w.kind.variantByNode, want) {
		t.Errorf("variants by node %v, want %v", w.kind.variantByNode, want)
	}
	if want := "map[cpu:500 memory:1000 pods:1]"; fmt.Sprint(w.kind.needs) != want {
		t.Errorf("needs %v, want %s", w.kind.needs, want)
	}
	g.setVariants(w)
	var got []string
	for _, claims := range w.variants {
		var names []string
		for _, claim := range claims {
			text := claim.Name
			for _, r := range claim.Spec.Devices.Requests {
				text += fmt.Sprintf(" %s*%d", r.Exactly.DeviceClassName, r.Exactly.Count)
			}
			names = append(names, text)
		}
		got = append(got, strings.Join(names, "+"))
	}
	if want := []string{"own+" + special.Object.Name + " of p gpu*2", "own"}; !slices.Equal(got, want) {
		t.Errorf("variants %q, want %q", got, want)
	}
	if len(special.Object.Spec.Devices.Requests) != 0 {
		t.Error("the claim for extended resources was written to")
	}

	special.Object = claimNamed("left-behind").Object
	nic := podWanting("q", list("example.com/gpu", "1", "example.com/nic", "1"))
	_, asked, err := source.ExtendedClaim(nic)
	if err != nil {
		t.Fatal(err)
	}
	for what, w := range map[string]*waitingPod{
		"an earlier attempt left a claim":  w,
		"no node has one of the resources": {pod: nic, claims: []*claimstate.Claim{claimNamed("own")}, extended: asked},
	} {
		w.variants, w.kind = nil, g.kindOf(w, nodes)
		if want := []int{-1, -1, -1, -1, -1}; !slices.Equal(w.kind.variantByNode, want) {
			t.Errorf("%s: variants by node %v, want %v", what, w.kind.variantByNode, want)
		}
		if g.setVariants(w); len(w.variants) != 1 || w.variants[0] != nil {
			t.Errorf("%s: variants %v", what, w.variants)
		}
	}
}

// A node has room for pods up to the last of each resource.
func TestRoomForPods(t *testing.T) {
	running := podWanting("running", list("cpu", "500m", "memory", "2", "ephemeral-storage", "1", "example.com/foo", "1"))
	node := nodeWith("a", list("cpu", "2", "memory", "10", "ephemeral-storage", "5", "example.com/foo", "4", "pods", "4"), running)
	for name, left := range map[corev1.ResourceName]int64{"cpu": 1500, "memory": 8, "ephemeral-storage": 4, "example.com/foo": 3, "pods": 3, "example.com/bar": 0} {
		if got := freeOn(node, name); got != left {
			t.Errorf("%s: %d are free, want %d", name, got, left)
		}
		needing := func(amount int64) *waitingPod {
			return &waitingPod{kind: &kind{needs: map[corev1.ResourceName]int64{name: amount}}}
		}
		// Together the second and third need what is left, or one more than that.
		pods := []*waitingPod{needing(1000), needing(left), needing(0), needing(1)}
		for _, test := range []struct {
			some []int
			want bool
		}{{nil, true}, {[]int{1, 2}, true}, {[]int{1, 3}, false}, {[]int{0}, left >= 1000}} {
			if got := hasRoom(node, pods, test.some); got != test.want {
				t.Errorf("%s: room for pods %v: %t", name, test.some, got)
			}
		}
	}
}

// Pods are alike if they ask for the same by claims of their own.
func TestPodsThatAreAlike(t *testing.T) {
	g := New(Hooks{Source: source})
	waiting := func(name string, change func(*waitingPod)) *waitingPod {
		w := &waitingPod{pod: podWanting(name, list("cpu", "1")), claims: []*claimstate.Claim{claimNamed("claim-of-" + name)}}
		w.pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimTemplateName: ptr.To("template")}}
		w.claims[0].Object.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(w.pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
		change(w)
		return w
	}
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", UID: "g"}}
	first := waiting("first", func(*waitingPod) {})
	for what, test := range map[string]struct {
		change func(*waitingPod)
		alike  bool
	}{
		"of the same template": {func(*waitingPod) {}, true},
		"another request":      {func(w *waitingPod) { w.claims[0].Object.Spec.Devices.Requests = make([]resourceapi.DeviceRequest, 1) }, false},
		"an annotation":        {func(w *waitingPod) { metav1.SetMetaDataAnnotation(&w.claims[0].Object.ObjectMeta, "of", "others") }, true},
		"another name":         {func(w *waitingPod) { w.claims[0].Name = "others" }, false},
		"more CPU":             {func(w *waitingPod) { w.pod.Spec.Containers[0].Resources.Requests = list("cpu", "2") }, false},
		"a node selector":      {func(w *waitingPod) { w.pod.Spec.NodeSelector = map[string]string{"zone": "x"} }, false},
		"a claim by name":      {func(w *waitingPod) { w.claims[0].Object.OwnerReferences = nil }, false},
		"a claim of the group": {func(w *waitingPod) {
			w.claims[0].Object.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(group, schedulingapi.SchemeGroupVersion.WithKind("PodGroup"))}
		}, false},
		"it is allocated": {func(w *waitingPod) { w.claims[0].Pending = &resourceapi.AllocationResult{} }, false},
		"one more claim":  {func(w *waitingPod) { w.claims = append(w.claims, claimNamed("more")) }, false},
		"the second of its claims": {func(w *waitingPod) { // none was needed for the first
			w.pod.Spec.ResourceClaims = append([]corev1.PodResourceClaim{{Name: "unneeded", ResourceClaimName: ptr.To("x")}}, w.pod.Spec.ResourceClaims...)
		}, true},
	} {
		if other := waiting("other", test.change); (g.key(first) == g.key(other)) != test.alike {
			t.Errorf("%s: alike %t", what, !test.alike)
		}
	}
}

// Extended resources make requests by container, so that pods with equal sums are not alike.
func TestPodsWithExtendedResourcesThatAreAlike(t *testing.T) {
	g := New(Hooks{Source: source})
	key := func(name string, byContainer ...string) string {
		pod := podWanting(name, nil)
		pod.Spec.Containers = nil
		for _, n := range byContainer {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Requests: list("example.com/gpu", n)}})
		}
		special, extended, err := source.ExtendedClaim(pod)
		if err != nil {
			t.Fatal(err)
		}
		return g.key(&waitingPod{pod: pod, claims: []*claimstate.Claim{special}, extended: extended})
	}
	first := key("first", "1", "3")
	if first != key("second", "1", "3") {
		t.Error("pods with equal containers are not alike")
	}
	for _, other := range [][]string{{"2", "2"}, {"3", "1"}, {"4"}} {
		if first == key("other", other...) {
			t.Errorf("a pod with %v is alike", other)
		}
	}
}

// The text about a plan for too few pods: how many get devices, with what in common, and whether that is proven.
func TestOutlookOfPlan(t *testing.T) {
	group := &schedulingapi.PodGroup{}
	group.Spec.SchedulingPolicy.Gang = &schedulingapi.GangSchedulingPolicy{MinCount: 4}
	places := []gang.Place{{Node: 0}, {Node: -1}, {Node: 2}}
	rail := []gang.Domain{{Attribute: "example.com/rail", Values: []string{"1"}}}
	both := append(slices.Clone(rail), gang.Domain{Attribute: "example.com/rack", Values: []string{`"x"`, `"y"`}})
	for want, result := range map[string]*gang.Result{
		"together, 2 of 5 pods get devices and the group needs 4":                                                             {Verdict: allocator.NotSatisfiable, Exact: true},
		"together, 2 of 5 pods get devices and the group needs 4: no way was found for more":                                  {Verdict: allocator.NotSatisfiable},
		"together, 2 of 5 pods get devices and the group needs 4: more may fit, the search was given up":                      {Verdict: allocator.NotDecided, Exact: true},
		"together, 2 of 5 pods get devices with example.com/rail = 1 and the group needs 4":                                   {Verdict: allocator.NotSatisfiable, Exact: true, Domain: rail},
		`together, 2 of 5 pods get devices with example.com/rail = 1 and example.com/rack = "x" or "y" and the group needs 4`: {Verdict: allocator.NotSatisfiable, Exact: true, Domain: both},
	} {
		result.Places = places
		if got := (&plan{Result: result}).outlook(group, 5); got != want {
			t.Errorf("said %q, want %q", got, want)
		}
	}
}

// pending is a pod that needs devices.
type pending struct{}

func (pending) Preemption() *preempt.Cycle   { return &preempt.Cycle{} }
func (pending) Refusals() []*refusal.Refusal { return nil }

// A pod waits if there is no place for it in the plan of its group, or what the group asks for cannot be.
func TestPlaceInPlan(t *testing.T) {
	pod := podWanting("p", nil)
	common := extension.Group{Constraints: []extension.GroupMatch{{}}}
	if common.IsZero() {
		t.Fatal("nothing in common")
	}
	planned := func(verdict allocator.Verdict, oneByOne bool, names ...string) *plan {
		l := &plan{Result: &gang.Result{Verdict: verdict, OneByOne: oneByOne}, places: make(map[types.NamespacedName]*place)}
		for _, name := range names {
			l.places[types.NamespacedName{Namespace: "default", Name: name}] = &place{node: "of-" + name}
		}
		return l
	}
	const others = "the other pods of the group get devices together only if this one waits"
	for what, test := range map[string]struct {
		attempt attempt
		reason  string
		code    fwk.Code
		node    string
	}{
		"no plan":                      {attempt{}, "", fwk.Unschedulable, ""},
		"it cannot be understood":      {attempt{invalid: "wrong", plan: planned(allocator.Satisfiable, false, "p")}, "wrong", fwk.UnschedulableAndUnresolvable, ""},
		"a place":                      {attempt{plan: planned(allocator.Satisfiable, false, "p")}, "", fwk.Success, "of-p"},
		"none":                         {attempt{plan: planned(allocator.Satisfiable, false, "q")}, others, fwk.UnschedulableAndUnresolvable, ""},
		"a plan that is not needed":    {attempt{plan: planned(allocator.Satisfiable, true, "q"), group: &plannedGroup{}}, "", fwk.Unschedulable, ""},
		"one that is forced":           {attempt{plan: planned(allocator.Satisfiable, true, "q"), group: &plannedGroup{forcePlan: true}}, others, fwk.UnschedulableAndUnresolvable, ""},
		"one for devices in common":    {attempt{plan: planned(allocator.Satisfiable, true, "p"), group: &plannedGroup{}, common: common}, "", fwk.Success, "of-p"},
		"nothing in common":            {attempt{plan: planned(allocator.NotSatisfiable, false), common: common}, nothingInCommon, fwk.Unschedulable, ""},
		"nothing in common, unplanned": {attempt{common: common}, nothingInCommon, fwk.Unschedulable, ""},
		"perhaps something in common":  {attempt{plan: planned(allocator.NotDecided, false), common: common}, maybeInCommon, fwk.Unschedulable, ""},
		"too few places":               {attempt{plan: planned(allocator.NotSatisfiable, false, "p")}, "", fwk.Unschedulable, ""},
	} {
		m := &Member{Pod: pod, State: pending{}, attempt: &test.attempt}
		m.attempt.first = &Member{}
		reason, code := m.Plan(t.Context(), nil)
		if reason != test.reason || reason != "" && code != test.code || m.Node() != test.node {
			t.Errorf("%s: %q %v, node %q", what, reason, code, m.Node())
		}
		if refused := m.WhyNotOn("of-p", nil, func() *pools.State { return nil }); m.place == nil && refused != m.attempt.whyNoCommonDevices() {
			t.Errorf("%s: a node is refused: %q", what, refused)
		}
		if test.node != "" && (!m.InPlanWith(pod) || m.InPlanWith(podWanting("q", nil)) || !strings.Contains(m.WhyNotOn("elsewhere", nil, nil), "goes to node of-p")) {
			t.Errorf("%s: the plan is another one", what)
		}
	}
}
