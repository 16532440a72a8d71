// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/schedplugin/internal/claimstate"
)

// resolver knows one extended resource.
type resolver struct{ fwk.SharedDRAManager }

func (r resolver) DeviceClassResolver() fwk.DeviceClassResolver { return r }

func (resolver) GetDeviceClass(name corev1.ResourceName) *resourceapi.DeviceClass {
	if name == "example.com/gpu" {
		return &resourceapi.DeviceClass{}
	}
	return nil
}

// apart is a shadow that is told of events by the test, and knows no nodes, so that it compares nothing.
func apart(pods ...*corev1.Pod) *Shadow {
	indexer := func() cache.Indexer {
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	known := indexer()
	for _, pod := range pods {
		_ = known.Add(pod)
	}
	s := &Shadow{
		judges: map[string]*judge{"default-scheduler": {}}, settle: time.Minute, report: newReport(time.Now()), cluster: newCluster(),
		fresh: make(map[types.UID]types.UID), refused: sets.New[types.UID](), touched: make(map[device]time.Time),
		pods: corelisters.NewPodLister(known), nodes: corelisters.NewNodeLister(indexer()),
	}
	s.cluster.SharedDRAManager = resolver{}
	s.source = claimstate.Source{DRA: s.cluster, Extended: true}
	return s
}

func at(name string) device { return device{driver: driver, pool: "a", name: name} }

// A disagreement is a difference when its time is over, and concurrent if one of its devices changes hands before.
func TestDisagreements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, start := apart(), time.Now()
		for i, name := range []string{"gpu-0", "gpu-1", "gpu-2"} {
			s.open = append(s.open, &disagreement{until: start.Add(time.Duration(i+1) * time.Minute), wanted: sets.New(at(name)), text: name})
		}
		expect := func(what string, open, other, concurrent int) {
			t.Helper()
			if len(s.open) != open || s.report.Count(OtherDevices) != other || s.report.Count(Concurrent) != concurrent {
				t.Errorf("%s: %d open, %d with other devices, %d concurrent; want %d, %d, %d", what, len(s.open), s.report.Count(OtherDevices), s.report.Count(Concurrent), open, other, concurrent)
			}
		}
		s.expire(start.Add(time.Minute - 1))
		expect("before the time of the first is over", 3, 0, 0)
		s.expire(start.Add(time.Minute))
		expect("after it", 2, 1, 0)
		s.claimChanged(t.Context(), nil, claimWith("x", "gpu-0", "gpu-3"), false)
		expect("other devices were allocated", 2, 1, 0)
		s.claimChanged(t.Context(), claimWith("x", "gpu-2"), claimWith("x", "gpu-2"), false)
		expect("nothing changed hands", 2, 1, 0)
		s.claimChanged(t.Context(), claimWith("x", "gpu-2"), claimWith("x"), false)
		expect("a device was released", 1, 1, 1)
		s.claimChanged(t.Context(), nil, claimWith("y", "gpu-1"), false)
		expect("a device was allocated", 0, 1, 2)
	})
}

// Devices that were released are remembered for the settling time. Those that were allocated are not.
func TestTouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apart()
		s.claimChanged(t.Context(), nil, claimWith("a", "gpu-0", "gpu-1"), false)
		if len(s.touched) != 0 {
			t.Errorf("released when allocated: %v", s.touched)
		}
		s.claimChanged(t.Context(), claimWith("a", "gpu-0", "gpu-1"), claimWith("a", "gpu-1", "gpu-2"), false)
		if when, ok := s.touched[at("gpu-0")]; len(s.touched) != 1 || !ok || !when.Equal(time.Now()) {
			t.Errorf("released: %v", s.touched)
		}
		s.expire(time.Now().Add(s.settle))
		if len(s.touched) != 1 {
			t.Error("forgotten before the settling time is over")
		}
		s.expire(time.Now().Add(s.settle + 1))
		if len(s.touched) != 0 {
			t.Error("remembered after the settling time")
		}
	})
}

// A report at the end counts what is open, and one before that only what its time is over for.
func TestReportAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apart()
		s.open = []*disagreement{{until: time.Now().Add(s.settle)}}
		if got := s.Report(false).Count(OtherDevices); got != 0 {
			t.Errorf("%d differences at once", got)
		}
		if got := s.Report(true).Count(OtherDevices); got != 1 {
			t.Errorf("%d differences at the end", got)
		}
	})
}

// Only claims that were allocated for one pod since the start are compared.
func TestFreshClaims(t *testing.T) {
	shared, grouped := claimWith("p", "gpu-0"), claimWith("p", "gpu-0")
	shared.Status.ReservedFor = append(shared.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", UID: "q"})
	grouped.Status.ReservedFor[0].Resource = "podgroups"
	unreserved := claimWith("p", "gpu-0")
	unreserved.Status.ReservedFor = nil
	for name, test := range map[string]struct {
		before, after any
		initial, want bool
	}{
		"allocated":                {claimWith("p"), claimWith("p", "gpu-0"), false, true},
		"created with devices":     {nil, claimWith("p", "gpu-0"), false, true},
		"there from the start":     {nil, claimWith("p", "gpu-0"), true, false},
		"without devices":          {nil, claimWith("p"), false, false},
		"allocated before":         {claimWith("p", "gpu-0"), claimWith("p", "gpu-0"), false, false},
		"of several pods":          {claimWith("p"), shared, false, false},
		"of a group":               {claimWith("p"), grouped, false, false},
		"of nobody":                {claimWith("p"), unreserved, false, false},
		"something else than that": {nil, &corev1.Pod{}, false, false},
	} {
		s := apart()
		s.claimChanged(t.Context(), test.before, test.after, test.initial)
		if pod, fresh := s.fresh["claim-p"]; fresh != test.want || fresh && pod != "p" {
			t.Errorf("%s: fresh %t, for pod %q", name, fresh, pod)
		}
		if _, isClaim := test.after.(*resourceapi.ResourceClaim); isClaim != (len(s.cluster.claims) == 1) {
			t.Errorf("%s: %d claims are known", name, len(s.cluster.claims))
		}
		for _, gone := range []any{claimWith("p"), cache.DeletedFinalStateUnknown{Obj: claimWith("p")}} {
			s.claimChanged(t.Context(), nil, claimWith("p", "gpu-0"), false)
			if s.claimChanged(t.Context(), gone, nil, false); len(s.cluster.claims)+len(s.fresh) > 0 {
				t.Errorf("%s: %d claims are known after it was deleted, %d are fresh", name, len(s.cluster.claims), len(s.fresh))
			}
		}
	}
}

// podNamed is one of the profile, with a claim for each name.
func podNamed(name string, claims ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	pod.Spec.SchedulerName, pod.Spec.NodeName = "default-scheduler", "gone"
	for _, claim := range claims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim, ResourceClaimName: ptr.To(claim)})
	}
	return pod
}

func asking(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}}}}
	return pod
}

// A pod is compared once all its claims are allocated and its node is known. Then they are not fresh any more.
func TestConsider(t *testing.T) {
	deleted := claimWith("b", "gpu-1")
	deleted.DeletionTimestamp = &metav1.Time{}
	ofOther := podNamed("a", "a")
	ofOther.Spec.SchedulerName = "another"
	onNone := podNamed("a", "a")
	onNone.Spec.NodeName = ""
	selected := claimWith("a", "gpu-0")
	selected.Status.Allocation.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: nameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"gone"}}},
	}}}
	made := asking(podNamed("a", "a"))
	made.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "b"}
	sharedLater := claimWith("a", "gpu-0")
	sharedLater.Status.ReservedFor = append(sharedLater.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{UID: "q"})
	type claims = []*resourceapi.ResourceClaim
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		claims claims
		want   bool
	}{
		"its claim":                              {podNamed("a", "a"), claims{claimWith("a", "gpu-0")}, true},
		"one is allocated, one was before":       {podNamed("a", "a", "b"), claims{claimWith("a", "gpu-0"), claimWith("b", "gpu-1")}, true},
		"one is not allocated yet":               {podNamed("a", "a", "b"), claims{claimWith("a", "gpu-0"), claimWith("b")}, false},
		"one is not known yet":                   {podNamed("a", "a", "b"), claims{claimWith("a", "gpu-0")}, false},
		"one is being deleted":                   {podNamed("a", "a", "b"), claims{claimWith("a", "gpu-0"), deleted}, false},
		"another scheduler's":                    {ofOther, claims{claimWith("a", "gpu-0")}, false},
		"on no node":                             {onNone, claims{claimWith("a", "gpu-0")}, false},
		"on no node yet, the allocation says it": {onNone, claims{selected}, true},
		"another pod's claim":                    {podNamed("q", "a"), claims{claimWith("a", "gpu-0")}, false},
		"shared by now":                          {podNamed("a", "a"), claims{sharedLater}, false},
		"extended resources, without a claim":    {asking(podNamed("a", "a")), claims{claimWith("a", "gpu-0")}, false},
		"extended resources":                     {made, claims{claimWith("a", "gpu-0"), claimWith("b", "gpu-1")}, true},
	} {
		s := apart(test.pod)
		for _, claim := range test.claims {
			s.cluster.claims[nameOf(claim)] = claim
		}
		s.fresh["claim-a"] = "a"
		s.consider(t.Context(), test.pod)
		if _, fresh := s.fresh["claim-a"]; fresh == test.want {
			t.Errorf("%s: considered %t", name, !fresh)
		}
	}
	// The last of its claims has it considered.
	s := apart(podNamed("a", "a"))
	if s.claimChanged(t.Context(), nil, claimWith("a", "gpu-0"), false); len(s.fresh) > 0 {
		t.Error("a pod is not considered when its claim is allocated")
	}
}

// A node selector tells the node if it has one term with one name.
func TestNodeOf(t *testing.T) {
	field := func(key string, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	term := func(fields ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: fields}
	}
	for name, test := range map[string]struct {
		node  string
		terms []corev1.NodeSelectorTerm
		want  string
	}{
		"bound":           {"b", []corev1.NodeSelectorTerm{term(field(nameField, "a"))}, "b"},
		"selected":        {"", []corev1.NodeSelectorTerm{term(field(nameField, "a"))}, "a"},
		"by two terms":    {"", []corev1.NodeSelectorTerm{term(field(nameField, "a")), term(field(nameField, "a"))}, ""},
		"by two fields":   {"", []corev1.NodeSelectorTerm{term(field(nameField, "a"), field("other", "a"))}, ""},
		"by two names":    {"", []corev1.NodeSelectorTerm{term(field(nameField, "a", "b"))}, ""},
		"by other fields": {"", []corev1.NodeSelectorTerm{term(field("metadata.namespace", "a"))}, ""},
		"by no field":     {"", []corev1.NodeSelectorTerm{term()}, ""},
	} {
		claim, plain := claimWith("c", "gpu-0"), claimWith("d", "gpu-1")
		claim.Status.Allocation.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: test.terms}
		pod := podNamed("p")
		pod.Spec.NodeName = test.node
		if got := nodeOf(pod, []*resourceapi.ResourceClaim{plain, claim}); got != test.want {
			t.Errorf("%s: node %q, want %q", name, got, test.want)
		}
	}
}

// unmet is a condition that does not hold.
func unmet(kind corev1.PodConditionType, reason string) corev1.PodCondition {
	return corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason}
}

// waiting is a pod that its scheduler found no node for.
func waiting(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.NodeName = ""
	pod.Status.Conditions = []corev1.PodCondition{unmet(corev1.PodScheduled, corev1.PodReasonUnschedulable)}
	return pod
}

func TestUnschedulable(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"unschedulable": {func(*corev1.Pod) {}, true},
		"bound":         {func(p *corev1.Pod) { p.Spec.NodeName = "a" }, false},
		"nominated":     {func(p *corev1.Pod) { p.Status.NominatedNodeName = "a" }, false},
		"being deleted": {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, false},
		"not tried yet": {func(p *corev1.Pod) { p.Status.Conditions = nil }, false},
		"gated":         {func(p *corev1.Pod) { p.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated }, false},
		"scheduled":     {func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionTrue }, false},
		"not ready": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{unmet(corev1.PodReady, corev1.PodReasonUnschedulable)}
		}, false},
		"not ready either": {func(p *corev1.Pod) {
			p.Status.Conditions = slices.Insert(p.Status.Conditions, 0, unmet(corev1.PodReady, "x"))
		}, true},
	} {
		pod := waiting(podNamed("p"))
		if test.change(pod); unschedulable(pod) != test.want {
			t.Errorf("%s: unschedulable %t", name, !test.want)
		}
	}
}

// Unschedulable pods with devices are reviewed after the settling time. Those that do not wait any more then may be once more.
func TestReviewed(t *testing.T) {
	grouped, another := waiting(podNamed("p", "c")), waiting(podNamed("p", "c"))
	grouped.Spec.SchedulingGroup, another.Spec.SchedulerName = &corev1.PodSchedulingGroup{}, "another"
	replaced, bound := waiting(podNamed("p", "c")), podNamed("p", "c")
	replaced.UID = "later"
	for name, test := range map[string]struct {
		pod, then *corev1.Pod
		want      bool
	}{
		"with a claim, and gone then":     {waiting(podNamed("p", "c")), nil, true},
		"with a claim, and replaced then": {waiting(podNamed("p", "c")), replaced, true},
		"with a claim, and bound then":    {waiting(podNamed("p", "c")), bound, true},
		"extended resources":              {waiting(asking(podNamed("p"))), nil, true},
		"without devices":                 {waiting(podNamed("p")), nil, false},
		"of a group":                      {grouped, nil, false},
		"another scheduler's":             {another, nil, false},
		"bound":                           {bound, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := apart()
				if test.then != nil {
					s = apart(test.then)
				}
				s.podChanged(t.Context(), test.pod)
				if s.refused.Has("p") != test.want {
					t.Errorf("to be reviewed %t", !test.want)
				}
				time.Sleep(s.settle - 1)
				synctest.Wait()
				if s.refused.Has("p") != test.want {
					t.Error("reviewed before the settling time is over")
				}
				time.Sleep(2 * time.Nanosecond)
				synctest.Wait()
				if s.refused.Len() > 0 {
					t.Error("it is not to be reviewed once more")
				}
				if sum := s.report.Count(Accepted) + s.report.Count(SameRefusal) + s.report.Count(Failed); sum > 0 {
					t.Errorf("%d outcomes", sum)
				}
			})
		})
	}
}

// A pod that is deleted can be reviewed under its name again. Nothing is reviewed once the context ended.
func TestNotReviewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := waiting(podNamed("p", "c"))
		for _, object := range []any{pod, cache.DeletedFinalStateUnknown{Obj: pod}} {
			s := apart()
			s.refused.Insert("p", "q")
			if s.podDeleted(object); s.refused.Has("p") || !s.refused.Has("q") {
				t.Errorf("after it was deleted: %v", s.refused)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		s := apart(pod)
		s.podChanged(ctx, pod)
		cancel()
		time.Sleep(s.settle + 1)
		synctest.Wait()
		if s.refused.Len() > 0 || s.report.Count(Failed) > 0 {
			t.Error("reviewed after the end")
		}
	})
}
