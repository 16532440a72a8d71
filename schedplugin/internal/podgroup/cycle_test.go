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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/gang"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/refusal"
)

// groupState is the state of a group while its pods are scheduled. It fails for a reason, if there is one.
type groupState struct {
	fwk.PodGroupCycleState
	data  map[fwk.StateKey]fwk.StateData
	fails error
}

func (s *groupState) Write(key fwk.StateKey, data fwk.StateData) { s.data[key] = data }

func (s *groupState) Read(key fwk.StateKey) (fwk.StateData, error) {
	if data, found := s.data[key]; found {
		return data, nil
	}
	if s.fails != nil {
		return nil, s.fails
	}
	return nil, fwk.ErrNotFound
}

// somethingElse is no state of ours.
type somethingElse struct{ fwk.StateData }

// placement is one of those in which a group is tried.
type placement struct {
	fwk.PlacementCycleState
	name string
}

func podIn(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name)}}
}

// refusing is a pod that nodes were refused for.
type refusing struct {
	pending
	reasons []string
}

func (r refusing) Refusals() []*refusal.Refusal {
	var list []*refusal.Refusal
	for _, reason := range r.reasons {
		list = append(list, &refusal.Refusal{Reason: reason})
	}
	return list
}

// The state of a group that cannot be read is an error. A pod by itself has none, and neither has the first pod of a group.
func TestStateOfGroup(t *testing.T) {
	cycle := newCycle()
	for name, test := range map[string]struct {
		state fwk.PodGroupCycleState
		want  *Cycle
		err   string
	}{
		"a pod by itself": {nil, nil, ""},
		"the first pod":   {&groupState{data: make(map[fwk.StateKey]fwk.StateData)}, nil, ""},
		"later pods":      {&groupState{data: map[fwk.StateKey]fwk.StateData{stateKey: cycle}}, cycle, ""},
		"unreadable":      {&groupState{fails: fmt.Errorf("broken")}, nil, "state of the pod group: broken"},
		"something else":  {&groupState{data: map[fwk.StateKey]fwk.StateData{stateKey: somethingElse{}}}, nil, "state of the pod group is podgroup.somethingElse"},
	} {
		got, err := Of(test.state)
		if got != test.want || (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
			t.Errorf("%s: %v, error %v", name, got, err)
		}
		state := framework.NewCycleState()
		state.SetPodGroupSchedulingCycle(test.state)
		if m, err := New(Hooks{}).Join(state, podIn("ns", "p"), pending{}); test.err != "" && (m != nil || err == nil || err.Error() != test.err) {
			t.Errorf("%s: joined as %v, error %v", name, m, err)
		}
	}
	if cycle.Clone() != fwk.StateData(cycle) {
		t.Error("a clone is another cycle")
	}
}

// Pods of a group share a cycle, and those of one placement an attempt. Refusals of all attempts count.
func TestJoin(t *testing.T) {
	g, group := New(Hooks{}), &groupState{data: make(map[fwk.StateKey]fwk.StateData)}
	join := func(in fwk.PlacementCycleState, pod *corev1.Pod, reasons ...string) *Member {
		t.Helper()
		state := framework.NewCycleState()
		state.SetPodGroupSchedulingCycle(group)
		state.SetPlacementCycleState(in)
		m, err := g.Join(state, pod, refusing{reasons: reasons})
		if err != nil || m.Pod != pod || m.groups != g {
			t.Fatalf("joined as %+v, error %v", m, err)
		}
		return m
	}
	here, there, p, q := &placement{name: "here"}, &placement{name: "there"}, podIn("ns", "p"), podIn("ns", "q")
	first, second := join(here, p, "a", "b"), join(here, q)
	third := join(there, p, "c")
	if first.cycle != second.cycle || first.cycle != third.cycle || first.attempt != second.attempt || first.attempt == third.attempt {
		t.Error("pods of a group are apart, or those of two placements are not")
	}
	c := first.Cycle()
	if len(c.attempts) != 2 || c.attempt != third.attempt || len(first.attempt.members) != 2 || len(third.attempt.members) != 1 {
		t.Errorf("%d attempts", len(c.attempts))
	}
	if c.Member(p) != third || c.Member(q) != second || c.Member(podIn("other", "p")) != nil {
		t.Error("the last attempt of a pod is another one")
	}
	for pod, want := range map[*corev1.Pod]string{p: "a b c", q: "", podIn("other", "p"): ""} {
		var reasons []string
		for _, r := range c.Refusals(pod) {
			reasons = append(reasons, r.Reason)
		}
		if got := strings.Join(reasons, " "); got != want {
			t.Errorf("pod %s was refused for %q, want %q", pod.Name, got, want)
		}
	}
	state := framework.NewCycleState()
	if m, err := g.Join(state, p, pending{}); m != nil || err != nil {
		t.Errorf("a pod by itself joined as %v, error %v", m, err)
	}
}

// A claim is shared by the pods of a group that reserved it, until it is in the API server.
func TestSharedClaims(t *testing.T) {
	c := newCycle()
	if c.Shares("claim") || c.Others("claim", "a") != nil {
		t.Error("a claim is shared before anybody reserved it")
	}
	c.Reserve("claim", "a")
	if !c.Shares("claim") || c.Shares("other") || len(c.Others("claim", "a")) > 0 {
		t.Errorf("after one reserved it: %v", c.reserved)
	}
	c.Reserve("claim", "b")
	if got := c.Others("claim", "a"); len(got) != 1 || got[0] != (resourceapi.ResourceClaimConsumerReference{Resource: "pods", UID: "b"}) {
		t.Errorf("others than the first are %v", got)
	}
	c.EndedInFlight("claim")
	if c.Shares("claim") || c.Others("claim", "a") != nil {
		t.Error("it is shared after it landed")
	}
	var none *Cycle
	none.Reserve("claim", "a")
	none.EndedInFlight("claim")
	if object, why := none.Invalid(); none.Shares("claim") || none.Member(podIn("ns", "p")) != nil || object != nil || why != "" || none.anyAttempt(func(*attempt) bool { return true }) {
		t.Error("a pod by itself has a group")
	}
}

// A search that is given up concerns the whole group, unless it was about evicting pods.
func TestGroupIsUndecided(t *testing.T) {
	c := newCycle()
	m := &Member{State: pending{}, cycle: c}
	if c.Undecided() || m.Undecided().Load() {
		t.Error("undecided at first")
	}
	if m.giveUp(); !c.Undecided() || !m.Undecided().Load() {
		t.Error("decided though a search was given up")
	}
}

// Only pods that name a PodGroup have one.
func TestGroupName(t *testing.T) {
	pod := podIn("ns", "p")
	for _, test := range []struct {
		group *corev1.PodSchedulingGroup
		want  types.NamespacedName
	}{
		{nil, types.NamespacedName{}},
		{&corev1.PodSchedulingGroup{}, types.NamespacedName{}},
		{&corev1.PodSchedulingGroup{PodGroupName: ptr.To("g")}, types.NamespacedName{Namespace: "ns", Name: "g"}},
	} {
		pod.Spec.SchedulingGroup = test.group
		if got, grouped := groupName(pod); got != test.want || grouped != (test.want.Name != "") {
			t.Errorf("%v: group %v, %t", test.group, got, grouped)
		}
	}
}

// Each group has one plannedGroup. A reset drops what was learned, and takes the order of the pods.
func TestPlannedGroups(t *testing.T) {
	g, group := New(Hooks{}), groupOf("gang", "1", true)
	group.UnscheduledPods = []*corev1.Pod{podIn("ns", "z"), podIn("ns", "a")}
	name := nameOfGroup(group)
	if g.plannedGroupOf(name) != nil {
		t.Error("there is a planned group at first")
	}
	known := g.ensurePlannedGroup(name, "1")
	known.noPlan(clusterKey{sum: 7}, outlook{"said", 1})
	known.limits["a"], known.forcePlan = 1, true
	if g.ensurePlannedGroup(name, "1") != known || g.plannedGroupOf(name) != known {
		t.Error("a group is planned twice")
	}
	if again := g.resetPlannedGroup(group); again != known || len(again.limits) > 0 || again.statesWithoutPlan[clusterKey{sum: 7}].text != "said" || len(again.order) != 2 {
		t.Errorf("anew: %+v", again)
	}
	pods := []*corev1.Pod{podIn("ns", "b"), podIn("ns", "a"), podIn("ns", "z"), podIn("m", "z"), podIn("m", "b")}
	slices.SortFunc(pods, known.compare)
	var order []string
	for _, pod := range pods {
		order = append(order, pod.Namespace+"/"+pod.Name)
	}
	if want := []string{"ns/z", "ns/a", "m/b", "m/z", "ns/b"}; !slices.Equal(order, want) {
		t.Errorf("in order %q, want %q", order, want)
	}
	if other := g.ensurePlannedGroup(name, "2"); other == known || other.uid != "2" || other.name != name || g.plannedGroupOf(name) != other {
		t.Errorf("a group that was made anew: %+v", other)
	}
	pod := podIn(name.Namespace, "p")
	m := &Member{Pod: pod, groups: g}
	if m.Forget(); g.plannedGroupOf(name) == nil {
		t.Error("a pod without a group forgets one")
	}
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name.Name}
	if m.Forget(); g.plannedGroupOf(name) != nil {
		t.Error("a group is planned after one of its pods got its place")
	}
}

// States without a plan are remembered, but for those that are not known, and not too many.
func TestStatesWithoutPlan(t *testing.T) {
	m := &plannedGroup{}
	if m.noPlan(clusterKey{}, outlook{"said", 1}); len(m.statesWithoutPlan) > 0 {
		t.Error("what is not known is remembered")
	}
	m.limits = map[string]int{"a": 1}
	if m.noPlan(clusterKey{sum: 1}, outlook{"said", 1}); len(m.statesWithoutPlan) > 0 {
		t.Error("what other plugins refuse is taken for a property of the state")
	}
	m.limits = nil
	for state := range uint64(maxStates) {
		m.noPlan(clusterKey{sum: state + 1}, outlook{"said", 1})
	}
	if len(m.statesWithoutPlan) != maxStates {
		t.Errorf("%d states are remembered, want %d", len(m.statesWithoutPlan), maxStates)
	}
	if m.noPlan(clusterKey{sum: maxStates + 1}, outlook{"more", 2}); len(m.statesWithoutPlan) != 1 || m.statesWithoutPlan[clusterKey{sum: maxStates + 1}].text != "more" {
		t.Errorf("after one too many: %v", m.statesWithoutPlan)
	}
}

// A node that takes fewer pods than planned, because another plugin refused one, is remembered with how many it took.
func TestLearn(t *testing.T) {
	tried := func(node string, refused ...string) func(*attempt, *corev1.Pod) *Member {
		return func(a *attempt, pod *corev1.Pod) *Member {
			m := &Member{Pod: pod, attempt: a, node: node}
			for _, by := range refused {
				m.RefusedOn(by)
			}
			return m
		}
	}
	type tries []func(*attempt, *corev1.Pod) *Member
	for name, test := range map[string]struct {
		members tries // nil: not tried
		learned bool
		limits  string
	}{
		"as planned":                 {tries{tried("a"), tried("a"), tried("b")}, false, "map[]"},
		"the second one was refused": {tries{tried("a"), tried(""), nil}, true, "map[a:1]"},
		"the first one was refused":  {tries{tried(""), tried("a"), tried("b")}, true, "map[a:0]"},
		"the last one was refused":   {tries{tried("a"), tried("a"), tried("")}, true, "map[b:0]"},
		"by Dray":                    {tries{tried("a"), tried("", "a"), tried("b")}, false, "map[]"},
		"by Dray elsewhere":          {tries{tried("a"), tried("", "b", "c"), tried("b")}, true, "map[a:1]"},
		"another node":               {tries{tried("a"), tried("b"), tried("b")}, false, "map[]"},
		"not tried":                  {tries{tried("a"), nil, tried("")}, false, "map[]"},
	} {
		a := &attempt{group: &plannedGroup{limits: make(map[string]int)}, members: make(map[types.NamespacedName]*Member), plan: &plan{places: make(map[types.NamespacedName]*place)}}
		for i, try := range test.members {
			pod := podIn("ns", fmt.Sprint(i))
			a.plan.order = append(a.plan.order, nameOf(pod))
			a.plan.places[nameOf(pod)] = &place{node: []string{"a", "a", "b"}[i]}
			if try != nil {
				a.members[nameOf(pod)] = try(a, pod)
			}
		}
		c := &Cycle{attempts: []*attempt{{first: &Member{}}, a, {first: &Member{}}}}
		if a.first = nil; c.learnLimits(klog.Background()) {
			t.Errorf("%s: learned from pods that need no devices", name)
		}
		if a.first = (&Member{}); c.learnLimits(klog.Background()) != test.learned || fmt.Sprint(a.group.limits) != test.limits {
			t.Errorf("%s: learned %v, want %s", name, a.group.limits, test.limits)
		}
		if c.plannedGroup() != a.group {
			t.Errorf("%s: the planned group of the cycle is %v", name, c.plannedGroup())
		}
	}
}

// A plan must be followed if the pods would not get devices one by one, other plugins were against that, or devices have something in common.
func TestMustFollowPlan(t *testing.T) {
	one := func(verdict allocator.Verdict, oneByOne bool) *plan {
		return &plan{Result: &gang.Result{Verdict: verdict, OneByOne: oneByOne}}
	}
	for name, test := range map[string]struct {
		plan             *plan
		forced           bool
		planned, imposed bool
	}{
		"no plan":            {nil, true, false, false},
		"too few places":     {one(allocator.NotSatisfiable, false), true, false, false},
		"not decided":        {one(allocator.NotDecided, false), true, false, false},
		"needed":             {one(allocator.Satisfiable, false), false, true, true},
		"not needed":         {one(allocator.Satisfiable, true), false, true, false},
		"not needed, forced": {one(allocator.Satisfiable, true), true, true, true},
	} {
		a := &attempt{plan: test.plan, group: &plannedGroup{forcePlan: test.forced}}
		if a.hasPlan() != test.planned || a.mustFollowPlan() != test.imposed {
			t.Errorf("%s: planned %t, imposed %t", name, a.hasPlan(), a.mustFollowPlan())
		}
	}
}

// Pods are nominated to the nodes of a plan, those without a place to none.
func TestNominations(t *testing.T) {
	pods := []*corev1.Pod{podIn("ns", "a"), podIn("ns", "b"), podIn("other", "a")}
	l := &plan{places: map[types.NamespacedName]*place{{Namespace: "ns", Name: "a"}: {node: "x"}, {Namespace: "ns", Name: "c"}: {node: "y"}}}
	nodes := l.nodes(pods)
	if want := []string{"x", "", ""}; !slices.Equal(nodes, want) {
		t.Errorf("nodes %q, want %q", nodes, want)
	}
	infos := nominations(pods, nodes).NominatingInfos
	if info := infos[nameOf(pods[0])]; len(infos) != 1 || info == nil || info.NominatedNodeName != "x" || info.NominatingMode != fwk.ModeOverride {
		t.Errorf("nominated %v", infos)
	}
}

// Planned are the allocations of claims, in order, if there is one for each.
func TestPlannedDevices(t *testing.T) {
	allocation := func(device string, share bool) *resourceapi.AllocationResult {
		result := resourceapi.DeviceRequestAllocationResult{Device: device}
		if share {
			result.ShareID = ptr.To(types.UID("share"))
		}
		return &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Device: "other"}, result}}}
	}
	claim := func(uid types.UID, extended bool) *claimstate.Claim {
		return &claimstate.Claim{Object: &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{UID: uid}}, Extended: extended}
	}
	a, b, special := claim("a", false), claim("b", false), claim("a", true)
	for name, test := range map[string]struct {
		sharesOfA, sharesOfExtended bool
		claims                      []*claimstate.Claim
		supposed                    bool
		want                        string
	}{
		"none":                          {false, false, nil, false, "[]"},
		"both":                          {false, false, []*claimstate.Claim{special, a}, false, "[extended gpu]"},
		"one is not planned":            {false, false, []*claimstate.Claim{a, b}, false, ""},
		"in a what-if":                  {false, false, []*claimstate.Claim{a}, true, "[gpu]"},
		"shares":                        {true, false, []*claimstate.Claim{a}, false, "[gpu]"},
		"shares in a what-if":           {true, false, []*claimstate.Claim{special}, true, ""},
		"shares for extended resources": {false, true, []*claimstate.Claim{a}, true, ""},
	} {
		m := &Member{place: &place{claims: map[types.UID]*resourceapi.AllocationResult{"a": allocation("gpu", test.sharesOfA)}, extended: allocation("extended", test.sharesOfExtended)}}
		results, planned := m.Planned(test.claims, test.supposed)
		devices := make([]string, 0)
		for _, result := range results {
			devices = append(devices, result.Devices.Results[1].Device)
		}
		if planned != (test.want != "") || planned && fmt.Sprint(devices) != test.want {
			t.Errorf("%s: planned %v, %t; want %s", name, devices, planned, test.want)
		}
	}
	m := &Member{place: &place{claims: map[types.UID]*resourceapi.AllocationResult{}}}
	if _, planned := m.Planned([]*claimstate.Claim{special}, true); planned {
		t.Error("devices are planned for extended resources though there are none")
	}
	if _, planned := (&Member{}).Planned(nil, false); planned {
		t.Error("devices are planned without a place")
	}
}

var _ State = refusing{}
