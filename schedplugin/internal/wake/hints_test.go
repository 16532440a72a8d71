// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package wake

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/refusal"
)

// queue is what hints see of a scheduler: claims, the pods that refer to them, and a class that
// offers devices as an extended resource.
type queue struct {
	fwk.SharedDRAManager
	fwk.ResourceClaimTracker
	pods    cache.Indexer
	claims  map[string]*resourceapi.ResourceClaim
	pending map[types.UID]*resourceapi.AllocationResult
	told    []string
	*Hints
}

const fromDevices = "example.com/gpu"

func newQueue(t *testing.T) *queue {
	t.Helper()
	h := handle{factory: informers.NewSharedInformerFactory(fake.NewClientset(), 0)}
	index, err := claimstate.NewIndex(h)
	if err != nil {
		t.Fatal(err)
	}
	q := &queue{pods: h.factory.Core().V1().Pods().Informer().GetIndexer(), claims: make(map[string]*resourceapi.ResourceClaim), pending: make(map[types.UID]*resourceapi.AllocationResult)}
	q.Hints = &Hints{
		Source: claimstate.Source{DRA: q, Extended: true}, Pods: index, Endings: refusal.NewEndings(), Slices: &Slices{Lister: published{}},
		Changed: func(object any, deleted bool) {
			q.told = append(q.told, fmt.Sprint(object.(metav1.Object).GetName(), deleted))
		},
	}
	return q
}

// handle has the informer of pods.
type handle struct {
	fwk.Handle
	factory informers.SharedInformerFactory
}

func (handle) ProfileName() string                                      { return "test" }
func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }

func (q *queue) ResourceClaims() fwk.ResourceClaimTracker     { return q }
func (q *queue) DeviceClassResolver() fwk.DeviceClassResolver { return q }

func (q *queue) Get(namespace, name string) (*resourceapi.ResourceClaim, error) {
	if claim := q.claims[namespace+"/"+name]; claim != nil {
		return claim, nil
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("resourceclaims"), name)
}

func (q *queue) GetPendingAllocation(uid types.UID) *resourceapi.AllocationResult {
	return q.pending[uid]
}

func (q *queue) GetDeviceClass(name corev1.ResourceName) *resourceapi.DeviceClass {
	if name == fromDevices {
		return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	}
	return nil
}

func (q *queue) add(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		if err := q.pods.Add(pod); err != nil {
			t.Fatal(err)
		}
	}
}

func podWith(name string, claims ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	for _, claim := range claims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim, ResourceClaimName: ptr.To(claim)})
	}
	return pod
}

func claimOf(name string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}}}
	return claim
}

func allocated(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	claim = claim.DeepCopy()
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	return claim
}

func wantsAll(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	claim.Spec.Devices.Requests[0].Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
	return claim
}

// extended makes a claim that of a pod's extended resources.
func extended(claim *resourceapi.ResourceClaim, pod *corev1.Pod) *resourceapi.ResourceClaim {
	claim.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"}
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true)}}
	return claim
}

func asking(pod *corev1.Pod, resourceName corev1.ResourceName) *corev1.Pod {
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{resourceName: resource.MustParse("1")}}}}
	return pod
}

func on(pod *corev1.Pod, node string) *corev1.Pod {
	pod.Spec.NodeName = node
	return pod
}

func hintOf(t *testing.T, hint fwk.QueueingHintFn, pod *corev1.Pod, before, after any) bool {
	t.Helper()
	said, err := hint(klog.Background(), pod, before, after)
	if err != nil {
		t.Fatal(err)
	}
	return said == fwk.Queue
}

// TestClaimEvents says which events of claims get the pod another attempt. It refers to claim
// "mine", which there is, and "other" is somebody else's.
func TestClaimEvents(t *testing.T) {
	mine, other, again := claimOf("mine"), claimOf("other"), claimOf("mine")
	again.UID = "again"
	labelled, status, ready := mine.DeepCopy(), mine.DeepCopy(), asking(podWith("extended"), fromDevices)
	labelled.Labels = map[string]string{"a": "b"}
	status.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{UID: "somebody"}}
	for name, test := range map[string]struct {
		pod           *corev1.Pod
		before, after any
		want          bool
	}{
		"created":                                {podWith("p", "mine"), nil, mine, true},
		"created, another's":                     {podWith("p", "mine"), nil, other, false},
		"created, and an older one is known yet": {podWith("p", "mine"), nil, again, false},
		"created, and another one is missing":    {podWith("p", "mine", "missing"), nil, mine, false},
		"labelled":                               {podWith("p", "mine"), mine, labelled, false},
		"reserved":                               {podWith("p", "mine"), mine, status, true},
		"allocated":                              {podWith("p", "mine"), mine, allocated(mine), true},
		"allocated, another's":                   {podWith("p", "mine"), other, allocated(other), false},
		"deallocated, another's":                 {podWith("p", "mine"), allocated(other), other, true},
		"deallocated, and one is missing":        {podWith("p", "missing"), allocated(other), other, false},
		"deleted, with devices":                  {podWith("p", "mine"), allocated(other), nil, true},
		"deleted, without":                       {podWith("p", "mine"), other, nil, false},
		"deleted unseen":                         {podWith("p", "mine"), cache.DeletedFinalStateUnknown{Obj: other}, nil, true},
		"deleted, of extended resources":         {ready, extended(claimOf("made"), ready), nil, true},
		"deleted, of another's":                  {ready, extended(claimOf("made"), podWith("another")), nil, false},
	} {
		q := newQueue(t)
		q.claims["default/mine"], q.claims["default/other"] = mine, other
		if got := hintOf(t, q.afterClaimEvent, test.pod, test.before, test.after); got != test.want {
			t.Errorf("%s: queued %v, want %v", name, got, test.want)
		}
	}
}

// TestClaimEventsReachTheModel: the next attempt sees what the event tells. An event is told for each pod
func TestClaimEventsReachTheModel(t *testing.T) {
	q := newQueue(t)
	claim := claimOf("a")
	for range 3 {
		hintOf(t, q.afterClaimEvent, podWith("p"), nil, claim)
	}
	hintOf(t, q.afterClaimEvent, podWith("p"), claim, allocated(claim))
	if _, err := q.podsConcernedByClaim(klog.Background(), allocated(claim), nil); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(q.told); got != "[afalse afalse atrue]" {
		t.Errorf("told of %s", got)
	}
}

// crowd are pods that refer to some of three claims, by name or made from a template, and may ask for
// extended resources.
func crowd(random *rand.Rand, claims []string) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range 3 {
		pod := podWith(fmt.Sprint("p", i))
		for _, name := range claims {
			switch random.IntN(6) {
			case 0:
				pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: ptr.To(name)})
			case 1:
				pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: ptr.To("template")})
				pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: name, ResourceClaimName: ptr.To(name)})
			}
		}
		if random.IntN(3) == 0 {
			asking(pod, fromDevices)
		}
		pods = append(pods, pod)
	}
	return pods
}

// anyClaim may hold devices, and may be made for one of the pods.
func anyClaim(random *rand.Rand, name string, pods []*corev1.Pod) *resourceapi.ResourceClaim {
	claim := claimOf(name)
	if random.IntN(2) == 0 {
		claim = allocated(claim)
	}
	if owner := pods[random.IntN(len(pods))]; random.IntN(2) == 0 {
		claim = extended(claim, owner)
	}
	return claim
}

// TestPreQueueingHintListsAllPods: each pod for which the queueing hint of a claim event returns Queue is
// listed by the pre-queueing hint.
func TestPreQueueingHintListsAllPods(t *testing.T) {
	queued, narrowed := 0, 0
	names := []string{"a", "b", "c"}
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 12))
		q := newQueue(t)
		pods := crowd(random, names)
		q.add(t, pods...)
		for _, name := range names {
			if random.IntN(2) == 0 {
				q.claims["default/"+name] = anyClaim(random, name, pods)
			}
		}
		var before, after any
		name, kind := names[random.IntN(len(names))], random.IntN(3)
		if kind > 0 {
			before = anyClaim(random, name, pods)
			delete(q.claims, "default/"+name)
		}
		if kind < 2 {
			claim := anyClaim(random, name, pods)
			q.claims["default/"+name], after = claim, claim
		}
		concerned, err := q.podsConcernedByClaim(klog.Background(), before, after)
		if err != nil {
			t.Fatal(err)
		}
		for _, pod := range pods {
			named := concerned.AllPods || slices.Contains(concerned.Pods, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
			again := hintOf(t, q.afterClaimEvent, pod, before, after)
			if again && !named {
				t.Fatalf("seed %d: the event gets pod %s another attempt, and is said to be about %v", seed, pod.Name, concerned.Pods)
			}
			queued, narrowed = queued+count(again), narrowed+count(!named)
		}
	}
	if queued < 500 || narrowed < 500 {
		t.Errorf("%d pods got another attempt, %d were left out: the test shows little", queued, narrowed)
	}
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// TestPodEvents says which pods that get to a node, or leave it, give the waiting pod another attempt.
func TestPodEvents(t *testing.T) {
	waiting := func(nominated string) *corev1.Pod {
		pod := podWith("p", "mine")
		pod.Spec.Priority, pod.Status.NominatedNodeName = ptr.To[int32](10), nominated
		return pod
	}
	preempted := on(podWith("victim", "held"), "b")
	preempted.Status.Phase = corev1.PodRunning
	preempted.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
	preempted.DeletionTimestamp = &metav1.Time{}
	superior := preempted.DeepCopy()
	superior.Spec.Priority = ptr.To[int32](10)
	running := on(podWith("other", "held"), "b")
	running.Status.Phase = corev1.PodRunning
	plain := on(podWith("other"), "b")
	plain.Status.Phase = corev1.PodRunning
	for name, test := range map[string]struct {
		pod           *corev1.Pod
		refusals      []*refusal.Refusal
		before, after any
		want          bool
	}{
		"arrives, devices were set aside":              {waiting(""), []*refusal.Refusal{{Reason: refusal.SetAside}}, nil, running, true},
		"arrives without claims, devices were as well": {waiting(""), []*refusal.Refusal{{Reason: refusal.SetAside}}, nil, plain, false},
		"arrives, no devices were set aside":           {waiting(""), []*refusal.Refusal{}, nil, running, false},
		"arrives, and nothing is known":                {waiting(""), nil, nil, running, true},
		"leaves the node that was nominated":           {waiting("b"), []*refusal.Refusal{}, running, nil, true},
		"leaves it, and has no claims":                 {waiting("b"), []*refusal.Refusal{}, plain, nil, false},
		"leaves another node":                          {waiting("a"), []*refusal.Refusal{}, running, nil, false},
		"was preempted":                                {waiting(""), []*refusal.Refusal{}, preempted, nil, true},
		"was preempted by somebody superior":           {waiting(""), []*refusal.Refusal{}, superior, nil, false},
		"was never bound, its claim is free":           {waiting(""), []*refusal.Refusal{}, podWith("other", "free"), nil, true},
		"was never bound, its claim is gone":           {waiting(""), []*refusal.Refusal{}, podWith("other", "gone"), nil, true},
		"was never bound, its claim is allocated":      {waiting(""), []*refusal.Refusal{}, podWith("other", "held"), nil, false},
		"was never bound, its claim is in flight":      {waiting(""), []*refusal.Refusal{}, podWith("other", "pending"), nil, false},
		"was never bound, with extended resources":     {waiting(""), []*refusal.Refusal{}, asking(podWith("other"), fromDevices), nil, true},
		"was never bound, with resources of its own":   {waiting(""), []*refusal.Refusal{}, asking(podWith("other"), "example.com/fpga"), nil, false},
	} {
		q := newQueue(t)
		q.claims["default/held"], q.claims["default/free"], q.claims["default/pending"] = allocated(claimOf("held")), claimOf("free"), claimOf("pending")
		q.pending["pending"] = &resourceapi.AllocationResult{}
		if test.refusals != nil {
			q.Endings.End(test.pod, refusal.Attempt{Refusals: test.refusals})
		}
		if got := hintOf(t, q.afterPodEvent, test.pod, test.before, test.after); got != test.want {
			t.Errorf("another pod %s: queued %v, want %v", name, got, test.want)
		}
	}
}

// TestNodeEvents says which changes of a node give the waiting pod another attempt.
func TestNodeEvents(t *testing.T) {
	plain := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": "x"}}}
	change := func(edit func(*corev1.Node)) *corev1.Node {
		node := plain.DeepCopy()
		edit(node)
		return node
	}
	moved := change(func(n *corev1.Node) { n.Labels["zone"] = "y" })
	bigger := change(func(n *corev1.Node) { n.Status.Allocatable = corev1.ResourceList{fromDevices: resource.MustParse("1")} })
	capable := change(func(n *corev1.Node) { n.Status.DeclaredFeatures = []string{"some"} })
	shared := published{"slice": {Spec: resourceapi.ResourceSliceSpec{AllNodes: ptr.To(true), Devices: []resourceapi.Device{{Name: "d"}}}}}
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		slices published
		after  *corev1.Node
		want   bool
	}{
		"declares a feature":                               {podWith("p", "mine"), nil, capable, true},
		"has more, and the pod asks for such":              {asking(podWith("p"), fromDevices), nil, bigger, true},
		"has more, and the pod does not ask for any":       {podWith("p", "mine"), nil, bigger, false},
		"is labelled":                                      {podWith("p", "mine"), nil, moved, false},
		"is labelled, and devices may be chosen by labels": {podWith("p", "mine"), shared, moved, true},
		"is labelled, and a claim is allocated":            {podWith("p", "held"), nil, moved, true},
		"is labelled, and a claim is missing":              {podWith("p", "missing"), nil, moved, true},
		"changes otherwise":                                {podWith("p", "held"), shared, change(func(n *corev1.Node) { n.Spec.Unschedulable = true }), false},
	} {
		q := newQueue(t)
		q.Slices = &Slices{Lister: test.slices}
		q.claims["default/mine"], q.claims["default/held"] = claimOf("mine"), allocated(claimOf("held"))
		if got := hintOf(t, q.afterNodeEvent, test.pod, plain, test.after); got != test.want {
			t.Errorf("a node %s: queued %v, want %v", name, got, test.want)
		}
	}
	if q := newQueue(t); !hintOf(t, q.afterNodeEvent, podWith("p"), nil, plain) {
		t.Error("a new node does not give the pod another attempt")
	}
}

// TestSliceEvents says which events of slices give the waiting pod another attempt: all but the end
// of one that only had devices to offer.
func TestSliceEvents(t *testing.T) {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	slice.Spec.Pool.Generation = 2
	older := slice.DeepCopy()
	older.Name, older.Spec.Pool.Generation = "older", 1
	for name, test := range map[string]struct {
		pod           *corev1.Pod
		spoiled       bool
		left          []*resourceapi.ResourceSlice
		before, after any
		want          bool
	}{
		"added":                                {podWith("p", "one"), false, nil, nil, slice, true},
		"updated":                              {podWith("p", "one"), false, nil, slice, slice, true},
		"deleted":                              {podWith("p", "one"), false, nil, slice, nil, false},
		"deleted, and an older one is left":    {podWith("p", "one"), false, []*resourceapi.ResourceSlice{older}, slice, nil, true},
		"deleted, which may have spoiled some": {podWith("p", "one"), true, nil, slice, nil, true},
		"deleted, and all are wanted":          {podWith("p", "all"), false, nil, slice, nil, true},
		"deleted, and a claim is missing":      {podWith("p", "missing"), false, nil, slice, nil, true},
		"deleted unseen":                       {podWith("p", "one"), false, nil, cache.DeletedFinalStateUnknown{Obj: slice}, nil, true},
	} {
		q := newQueue(t)
		q.Slices = &Slices{store: cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers), synced: always}
		for _, other := range test.left {
			must(t, q.Slices.store.Add(other))
		}
		q.claims["default/one"], q.claims["default/all"] = claimOf("one"), wantsAll(claimOf("all"))
		refusals := []*refusal.Refusal{}
		if test.spoiled {
			refusals = append(refusals, &refusal.Refusal{Reason: refusal.Other})
		}
		q.Endings.End(test.pod, refusal.Attempt{Refusals: refusals})
		if got := hintOf(t, q.afterSliceEvent, test.pod, test.before, test.after); got != test.want {
			t.Errorf("a slice is %s: queued %v, want %v", name, got, test.want)
		}
	}
}

// TestPodUpdates: a pod is worth an attempt when all its claims are there.
func TestPodUpdates(t *testing.T) {
	q := newQueue(t)
	q.claims["default/made"] = extended(claimOf("made"), podWith("p"))
	before := podWith("p")
	before.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: ptr.To("template")}}
	after := before.DeepCopy()
	after.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: ptr.To("made")}}
	if hintOf(t, q.afterPodUpdate, before, before, before) {
		t.Error("a pod without its claim gets another attempt")
	}
	if !hintOf(t, q.afterPodUpdate, before, before, after) {
		t.Error("a pod with its claim gets no other attempt")
	}
}

// TestWrongObjects: what cannot be read may be anything. The pod gets another attempt, and an error is
// logged.
func TestWrongObjects(t *testing.T) {
	q := newQueue(t)
	wrong := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "wrong"}}
	for name, hint := range map[string]fwk.QueueingHintFn{
		"claim": q.afterClaimEvent, "pod": q.afterPodEvent, "node": q.afterNodeEvent, "pod update": q.afterPodUpdate,
	} {
		if said, err := hint(klog.Background(), podWith("p"), nil, wrong); said != fwk.Queue || err == nil {
			t.Errorf("%s: hint %v, error %v", name, said, err)
		}
	}
	if said, err := q.afterSliceEvent(klog.Background(), podWith("p"), wrong, nil); said != fwk.Queue || err != nil {
		t.Errorf("slice: hint %v, error %v", said, err)
	}
}

// The ending of the last attempt decides which events may help a pod, for those events that help no other pod.
func TestEventsThatCureSomeEndings(t *testing.T) {
	other := claimOf("other")
	reserved := allocated(other)
	reserved.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{UID: "somebody"}}
	plain := on(podWith("plain"), "n")
	plain.Status.Phase = corev1.PodRunning
	small := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	big := small.DeepCopy()
	big.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	const failed, short, lacks = "no such key", refusal.Short + "Insufficient cpu", refusal.Unexplained
	q := newQueue(t)
	for name, test := range map[string]struct {
		hint          fwk.QueueingHintFn
		before, after any
		ended         string
		want          bool
	}{
		"a device that failed is taken":                {q.afterClaimEvent, other, allocated(other), failed, true},
		"a device that did not fail is taken":          {q.afterClaimEvent, other, allocated(other), lacks, false},
		"a device that failed stays taken":             {q.afterClaimEvent, allocated(other), reserved, failed, false},
		"a pod leaves a node that is short":            {q.afterPodEvent, plain, nil, short, true},
		"a pod leaves a node that is not short":        {q.afterPodEvent, plain, nil, lacks, false},
		"a node that is short gets more":               {q.afterNodeEvent, small, big, short, true},
		"a node that is not short gets more":           {q.afterNodeEvent, small, big, lacks, false},
		"a pod arrives, and a node is short":           {q.afterPodEvent, nil, plain, short, false},
		"a device is taken, and a node is short of it": {q.afterClaimEvent, other, allocated(other), short, false},
	} {
		pod := podWith("p", "mine")
		q.claims["default/mine"], q.claims["default/other"] = claimOf("mine"), other
		q.Endings.End(pod, refusal.Attempt{Refusals: []*refusal.Refusal{{Reason: test.ended, Nodes: []string{"n"}}}})
		if got := hintOf(t, test.hint, pod, test.before, test.after); got != test.want {
			t.Errorf("%s: queued %v, want %v", name, got, test.want)
		}
	}
}
