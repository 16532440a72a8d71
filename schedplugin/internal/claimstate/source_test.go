// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claimstate

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

// known has the claims of namespace ns, and what is in flight. It has no list if it fails.
type known struct {
	gpus
	fwk.ResourceClaimTracker
	claims  []*resourceapi.ResourceClaim
	pending map[types.UID]*resourceapi.AllocationResult
	fails   error
}

func (k *known) ResourceClaims() fwk.ResourceClaimTracker { return k }

func (k *known) List() ([]*resourceapi.ResourceClaim, error) { return k.claims, k.fails }

func (k *known) Get(namespace, name string) (*resourceapi.ResourceClaim, error) {
	for _, claim := range k.claims {
		if claim.Namespace == namespace && claim.Name == name {
			return claim, nil
		}
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("resourceclaims"), name)
}

func (k *known) GetPendingAllocation(uid types.UID) *resourceapi.AllocationResult {
	return k.pending[uid]
}

func named(name string) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid of " + name)}}
}

func ownedBy(claim *resourceapi.ResourceClaim, version, kind, name string, uid types.UID) *resourceapi.ResourceClaim {
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: uid, Controller: ptr.To(true)}}
	return claim
}

// podOf has references by name, and one by template after a "*", for which a claim was generated if it is not empty.
func podOf(references ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid of p"}}
	for i, name := range references {
		reference := corev1.PodResourceClaim{Name: fmt.Sprint("c", i), ResourceClaimName: &name}
		if generated, ok := strings.CutPrefix(name, "*"); ok {
			reference.ResourceClaimName, reference.ResourceClaimTemplateName = nil, ptr.To("template")
			pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: reference.Name})
			if generated != "" {
				pod.Status.ResourceClaimStatuses[len(pod.Status.ResourceClaimStatuses)-1].ResourceClaimName = &generated
			}
		}
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, reference)
	}
	return pod
}

func TestResolve(t *testing.T) {
	deleted := named("deleted")
	deleted.DeletionTimestamp = &metav1.Time{}
	dra := &known{claims: []*resourceapi.ResourceClaim{
		named("a"), named("b"), deleted, ownedBy(named("mine"), "v1", "Pod", "p", "uid of p"), ownedBy(named("another's"), "v1", "Pod", "p", "before"),
		ownedBy(named("the group's"), "scheduling.k8s.io/v1beta1", "PodGroup", "group", "uid of group"),
	}}
	grouped := podOf("*the group's")
	grouped.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("group")}
	pending := podOf("*x")
	pending.Status.ResourceClaimStatuses = nil
	for name, test := range map[string]struct {
		pod       *corev1.Pod
		workloads bool
		want      string // name=claim of each
		err       string
	}{
		"none":                                  {podOf(), false, "", ""},
		"by name":                               {podOf("b", "a"), false, "c0=b c1=a", ""},
		"another's by name":                     {podOf("another's"), false, "c0=another's", ""},
		"generated":                             {podOf("a", "*mine"), false, "c0=a c1=mine", ""},
		"none is needed":                        {podOf("*", "a"), false, "c1=a", ""},
		"not generated yet":                     {pending, false, "", "not created yet"},
		"generated for another pod":             {podOf("a", "*another's"), false, "", "was not created for Pod ns/p"},
		"generated for the group":               {grouped, true, "c0=the group's", ""},
		"generated for the group, switched off": {grouped, false, "", "was not created for Pod ns/p"},
		"missing":                               {podOf("a", "missing"), false, "", `"missing" not found`},
		"being deleted":                         {podOf("deleted"), false, "", `resourceclaim "deleted" is being deleted`},
	} {
		claims, err := Source{DRA: dra, Workloads: test.workloads}.Resolve(test.pod)
		var got []string
		for _, claim := range claims {
			got = append(got, claim.Name+"="+claim.Object.Name)
			if claim.Consumer != PodConsumer(test.pod) || claim.Extended || claim.reference.Name != claim.Name || claim.Pending != nil {
				t.Errorf("%s: claim %+v", name, claim)
			}
		}
		if strings.Join(got, " ") != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: claims %q, error %v; want %q, error %q", name, got, err, test.want, test.err)
		}
	}
}

// A claim that the group lists under the same name, and with the same source, is the group's.
func TestAssignConsumers(t *testing.T) {
	dra := &known{claims: []*resourceapi.ResourceClaim{named("a"), named("b")}}
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "group", UID: "uid of group"}}
	group.Spec.ResourceClaims = []schedulingapi.PodGroupResourceClaim{{Name: "c1", ResourceClaimName: ptr.To("b")}}
	other := group.DeepCopy()
	other.Name = "other"
	pod := podOf("a", "b")
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("group")}
	for name, test := range map[string]struct {
		workloads bool
		group     *schedulingapi.PodGroup
		want      string
		fails     bool
	}{
		"of the group":     {true, group, "pods/p podgroups/group", false},
		"no group":         {true, nil, "pods/p pods/p", false},
		"switched off":     {false, group, "pods/p pods/p", false},
		"of another group": {true, other, "pods/p pods/p", true},
	} {
		source := Source{DRA: dra, Workloads: test.workloads}
		claims, err := source.Resolve(pod)
		if err != nil {
			t.Fatal(err)
		}
		err = source.AssignConsumers(pod, test.group, claims)
		var got []string
		for _, claim := range claims {
			got = append(got, claim.Consumer.Resource+"/"+claim.Consumer.Name)
		}
		if strings.Join(got, " ") != test.want || (err != nil) != test.fails {
			t.Errorf("%s: consumers %q, error %v; want %q", name, got, err, test.want)
		}
	}
}

// A claim that is reserved for the pod's group is reserved for the pod, with the feature.
func TestReservedFor(t *testing.T) {
	pod := podOf()
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("group")}
	group := resourceapi.ResourceClaimConsumerReference{APIGroup: schedulingapi.GroupName, Resource: "podgroups", Name: "group", UID: "uid of group"}
	for name, test := range map[string]struct {
		consumer      resourceapi.ResourceClaimConsumerReference
		with, without bool
	}{
		"itself":  {PodConsumer(pod), true, true},
		"group":   {group, true, false},
		"another": {PodConsumer(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "before"}}), false, false},
	} {
		claim := named("a")
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{test.consumer}
		if (Source{Workloads: true}).ReservedFor(pod, claim) != test.with || (Source{}).ReservedFor(pod, claim) != test.without {
			t.Errorf("%s: reserved for the pod with the feature %t, without %t", name, !test.with, !test.without)
		}
	}
}

// What is in flight counts where nothing is recorded. Claims that are not there hold nothing.
func TestOf(t *testing.T) {
	recorded, inFlight := &resourceapi.AllocationResult{}, &resourceapi.AllocationResult{}
	both := named("both")
	both.Status.Allocation = recorded
	dra := &known{
		claims:  []*resourceapi.ResourceClaim{named("free"), named("pending"), both},
		pending: map[types.UID]*resourceapi.AllocationResult{"uid of pending": inFlight, "uid of both": inFlight},
	}
	pod := podOf("missing", "free", "pending", "both")
	want := map[string]*resourceapi.AllocationResult{"free": nil, "pending": inFlight, "both": recorded}
	claims := Source{DRA: dra}.Of(pod)
	if len(claims) != len(want) {
		t.Errorf("%d claims, want %d", len(claims), len(want))
	}
	for _, claim := range claims {
		if allocation, ok := want[claim.Name]; !ok || claim.Status.Allocation != allocation {
			t.Errorf("claim %s has allocation %p, want %p", claim.Name, claim.Status.Allocation, allocation)
		}
	}
	pod.Namespace = "other"
	if claims := (Source{DRA: dra}).Of(pod); len(claims) > 0 {
		t.Errorf("%d claims of another namespace", len(claims))
	}
}

// A pod with extended resources has the claim that an earlier attempt left behind, or a new one.
func TestExtendedClaim(t *testing.T) {
	const gpu corev1.ResourceName = "example.com/gpu"
	pod := podOf()
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{gpu: resource.MustParse("1")}}}}
	marked := func(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
		claim.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"}
		return claim
	}
	generated := ownedBy(named("generated"), "v1", "Pod", "p", "uid of p")
	before := marked(ownedBy(named("before"), "v1", "Pod", "p", "before"))
	left := marked(ownedBy(named("left"), "v1", "Pod", "p", "uid of p"))
	for name, test := range map[string]struct {
		pod   *corev1.Pod
		found []*resourceapi.ResourceClaim
		fails error
		want  *resourceapi.ResourceClaim // nil: a new one
	}{
		"left behind": {pod, []*resourceapi.ResourceClaim{generated, before, left}, nil, left},
		"new":         {pod, []*resourceapi.ResourceClaim{generated, before}, nil, nil},
		"no list":     {pod, []*resourceapi.ResourceClaim{left}, errors.New("no list"), nil},
		"none asked":  {podOf("a"), []*resourceapi.ResourceClaim{left}, nil, nil},
	} {
		claim, resources, err := Source{DRA: &known{claims: test.found, fails: test.fails}, Extended: true}.ExtendedClaim(test.pod)
		switch {
		case test.fails != nil:
			if !errors.Is(err, test.fails) || claim != nil {
				t.Errorf("%s: claim %v, error %v", name, claim, err)
			}
			continue
		case test.pod != pod:
			if claim != nil || resources != nil || err != nil {
				t.Errorf("%s: claim %v for %q, error %v", name, claim, resources, err)
			}
			continue
		case err != nil || len(resources) != 1 || resources[0] != gpu || !claim.Extended || claim.Consumer != PodConsumer(pod) || claim.Name != "":
			t.Fatalf("%s: claim %+v for %q, error %v", name, claim, resources, err)
		}
		if claim.InMemoryOnly() == (test.want != nil) || test.want != nil && claim.Object != test.want {
			t.Errorf("%s: claim %v", name, claim.Object)
		}
		if !MadeFor(claim.Object, pod) || claim.Object.Namespace != "ns" || claim.Object.UID == "" {
			t.Errorf("%s: claim %v is not one for the pod", name, claim.Object)
		}
	}
}

// tracking finds the claim of a pod by itself, and has no list.
type tracking struct {
	*known
	claim *resourceapi.ResourceClaim
}

func (t tracking) ResourceClaims() fwk.ResourceClaimTracker { return t }

func (t tracking) ExtendedClaim(*corev1.Pod) *resourceapi.ResourceClaim { return t.claim }

// A tracker that knows the claims of extended resources is asked for them, instead of for all claims.
func TestExtendedClaimOfTracker(t *testing.T) {
	pod := podOf()
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}}}}
	for _, want := range []*resourceapi.ResourceClaim{named("left"), nil} {
		dra := tracking{&known{fails: errors.New("no list")}, want}
		claim, _, err := Source{DRA: dra, Extended: true}.ExtendedClaim(pod)
		if err != nil || claim.InMemoryOnly() != (want == nil) || want != nil && claim.Object != want {
			t.Errorf("claim %+v, error %v; want %v", claim, err, want)
		}
	}
}
