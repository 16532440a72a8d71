// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/model"
)

// claimSink notes what it is told of claims. Errors says what AssumeClaimAfterAPICall returns, call by call.
type claimSink struct {
	fwk.SharedDRAManager
	fwk.ResourceClaimTracker
	errors  []error
	last    bool // whether the pod is the last one that shares a claim
	assumed []*resourceapi.ResourceClaim
	signals []*resourceapi.ResourceClaim
	removed []string
	claims  map[string]*resourceapi.ResourceClaim
}

func (m *claimSink) ResourceClaims() fwk.ResourceClaimTracker     { return m }
func (m *claimSink) DeviceClassResolver() fwk.DeviceClassResolver { return m }
func (*claimSink) GetDeviceClass(corev1.ResourceName) *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{}
}
func (m *claimSink) List() ([]*resourceapi.ResourceClaim, error) { return nil, nil }

func (m *claimSink) AssumeClaimAfterAPICall(claim *resourceapi.ResourceClaim) error {
	m.assumed = append(m.assumed, claim)
	if n := len(m.assumed); n <= len(m.errors) {
		return m.errors[n-1]
	}
	return nil
}

func (m *claimSink) SignalClaimPendingAllocation(uid types.UID, claim *resourceapi.ResourceClaim) error {
	if uid == "refused" {
		return errors.New("in flight already")
	}
	m.signals = append(m.signals, claim)
	return nil
}

func (m *claimSink) MaybeRemoveClaimPendingAllocation(uid types.UID, written bool) bool {
	m.removed = append(m.removed, fmt.Sprint(uid, " ", written))
	return m.last
}

func (m *claimSink) Get(_, name string) (*resourceapi.ResourceClaim, error) {
	if claim := m.claims[name]; claim != nil {
		return claim, nil
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("resourceclaims"), name)
}

func writer(client *fake.Clientset, dra *claimSink) *Writer {
	return &Writer{Client: client, DRA: dra, Source: claimstate.Source{DRA: dra, Extended: true}, Model: model.New(dra, pools.Gates{})}
}

// written lists what a client changed: verb, resource and subresource.
func written(client *fake.Clientset) []string {
	var list []string
	for _, action := range client.Actions() {
		list = append(list, strings.TrimSuffix(action.GetVerb()+" "+action.GetResource().Resource+"/"+action.GetSubresource(), "/"))
	}
	return list
}

func thePod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "a"}}
}

// What is written depends on what the API server has of the claim already.
func TestBind(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*claimstate.Claim)
		want   []string
	}{
		"new": {func(c *claimstate.Claim) { c.Object.Finalizers = []string{"example.com/keep"} }, []string{"update resourceclaims", "update resourceclaims/status"}},
		"with the finalizer": {func(c *claimstate.Claim) {
			c.Object.Finalizers = []string{"example.com/keep", resourceapi.Finalizer}
		}, []string{"update resourceclaims/status"}},
		"allocated": {func(c *claimstate.Claim) {
			c.Object.Finalizers, c.Object.Status.Allocation, c.Pending = []string{"example.com/keep", resourceapi.Finalizer}, allocationOf("gpu-0"), nil
		}, []string{"update resourceclaims/status"}},
	} {
		t.Run(name, func(t *testing.T) {
			claim, dra := boundClaim(nil), &claimSink{}
			others := []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "b", UID: "b"}}
			claim.Object.Status.ReservedFor = slices.Clone(others)
			test.change(claim)
			before := claim.Object.DeepCopy()
			client := fake.NewClientset(claim.Object)
			if err := writer(client, dra).Bind(t.Context(), claim, thePod(), nil); err != nil {
				t.Fatal(err)
			}
			if got := written(client); !slices.Equal(got, test.want) {
				t.Errorf("wrote %q, want %q", got, test.want)
			}
			stored, err := client.ResourceV1().ResourceClaims("default").Get(t.Context(), "one", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if want := append(others, claimstate.PodConsumer(thePod())); !slices.Equal(stored.Status.ReservedFor, want) {
				t.Errorf("reserved for %v, want %v", stored.Status.ReservedFor, want)
			}
			if !equality.Semantic.DeepEqual(stored.Status.Allocation, allocationOf("gpu-0")) {
				t.Errorf("allocation %v", stored.Status.Allocation)
			}
			if !slices.Equal(stored.Finalizers, []string{"example.com/keep", resourceapi.Finalizer}) {
				t.Errorf("finalizers %q", stored.Finalizers)
			}
			if len(dra.assumed) != 1 || dra.assumed[0] != claim.Object || !equality.Semantic.DeepEqual(claim.Object.Status, stored.Status) || equality.Semantic.DeepEqual(before, claim.Object) {
				t.Errorf("the scheduler was told of %v, and goes on with %v", dra.assumed, claim.Object)
			}
		})
	}
}

// There is nothing to write for a claim that is reserved already, and for extended resources of a device plugin.
func TestNothingToBind(t *testing.T) {
	reserved := boundClaim(allocationOf("gpu-0"))
	reserved.Object.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{claimstate.PodConsumer(thePod())}
	byPlugin := extendedClaim(t)
	byPlugin.Pending = nil
	for name, claim := range map[string]*claimstate.Claim{"reserved": reserved, "device plugin": byPlugin} {
		client, dra := fake.NewClientset(), &claimSink{}
		if err := writer(client, dra).Bind(t.Context(), claim, thePod(), nil); err != nil || len(client.Actions()) > 0 || len(dra.assumed) > 0 {
			t.Errorf("%s: wrote %q, error %v", name, written(client), err)
		}
	}
}

// extendedClaim is one for extended resources that the API server does not have yet.
func extendedClaim(t *testing.T) *claimstate.Claim {
	t.Helper()
	pod := thePod()
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}}}}
	claim, _, err := claimstate.Source{DRA: &claimSink{}, Extended: true}.ExtendedClaim(pod)
	if err != nil {
		t.Fatal(err)
	}
	claim.Pending = allocationOf("gpu-0")
	return claim
}

// creating is a client with a pod, whose API server names what it creates.
func creating() *fake.Clientset {
	client := fake.NewClientset(thePod())
	client.PrependReactor("create", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		made := action.(clienttesting.CreateAction).GetObject().(*resourceapi.ResourceClaim)
		if made.Name != "" || made.UID != "" || made.GenerateName != "a-extended-resources-" || len(made.Status.ReservedFor) > 0 || made.Status.Allocation != nil {
			return true, nil, fmt.Errorf("not a new claim: %v", made)
		}
		made.Name, made.UID = "made", "uid"
		return false, nil, nil
	})
	return client
}

// A claim for extended resources is created with the finalizer, allocated, and said to the kubelet.
func TestBindExtended(t *testing.T) {
	mappings := []corev1.ContainerExtendedResourceRequest{{ContainerName: "c", ResourceName: "example.com/gpu", RequestName: "r"}}
	client, dra, claim := creating(), &claimSink{errors: []error{assumecache.ErrNotFound, assumecache.ErrNotFound}}, extendedClaim(t)
	if err := writer(client, dra).Bind(t.Context(), claim, thePod(), mappings); err != nil {
		t.Fatal(err)
	}
	if got, want := written(client), []string{"create resourceclaims", "update resourceclaims/status", "patch pods/status"}; !slices.Equal(got, want) {
		t.Errorf("wrote %q, want %q", got, want)
	}
	stored, err := client.ResourceV1().ResourceClaims("default").Get(t.Context(), "made", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(stored.Finalizers, []string{resourceapi.Finalizer}) || !equality.Semantic.DeepEqual(stored.Status.Allocation, allocationOf("gpu-0")) || !claimstate.Reserved(stored, claim.Consumer) {
		t.Errorf("claim %v", stored)
	}
	pod, err := client.CoreV1().Pods("default").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if said := pod.Status.ExtendedResourceClaimStatus; said == nil || said.ResourceClaimName != "made" || !slices.Equal(said.RequestMappings, mappings) {
		t.Errorf("the pod says %v", said)
	}
	if claim.InMemoryOnly() || claim.Object.UID != "uid" || len(dra.assumed) != 3 {
		t.Errorf("it goes on with %v, after %d attempts to assume it", claim.Object, len(dra.assumed))
	}
}

// What fails says what it was about. Unreserve deletes what was created before.
func TestBindExtendedFails(t *testing.T) {
	mappings := []corev1.ContainerExtendedResourceRequest{{ContainerName: "c", ResourceName: "example.com/gpu", RequestName: "r"}}
	for name, test := range map[string]struct {
		verb, resource string
		mappings       []corev1.ContainerExtendedResourceRequest
		err            string
		made           bool
	}{
		"create":       {"create", "resourceclaims", mappings, "create claim a-extended-resources-*: broken", false},
		"update":       {"update", "resourceclaims", mappings, "claim default/made: update status: broken", true},
		"pod":          {"patch", "pods", mappings, "pod default/a: update extendedResourceClaimStatus: broken", true},
		"no container": {"none", "none", nil, "pod default/a: no container uses claim made for extended resources", true},
	} {
		client, claim := creating(), extendedClaim(t)
		client.PrependReactor(test.verb, test.resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewBadRequest("broken")
		})
		err := writer(client, &claimSink{}).Bind(t.Context(), claim, thePod(), test.mappings)
		if err == nil || err.Error() != test.err || claim.InMemoryOnly() == test.made {
			t.Errorf("%s: claim %v, error %v; want %s", name, claim.Object, err, test.err)
		}
	}
}

// Failures to write an ordinary claim say which step they were about.
func TestBindFails(t *testing.T) {
	for name, test := range map[string]struct {
		subresource, err string
	}{
		"finalizer": {"", "claim default/one: add finalizer: broken"},
		"status":    {"status", "claim default/one: update status: broken"},
	} {
		claim, dra := boundClaim(nil), &claimSink{}
		claim.Object.Finalizers = nil
		client := fake.NewClientset(claim.Object)
		client.PrependReactor("update", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
			return action.GetSubresource() == test.subresource, nil, apierrors.NewBadRequest("broken")
		})
		before := claim.Object
		if err := writer(client, dra).Bind(t.Context(), claim, thePod(), nil); err == nil || err.Error() != test.err || len(dra.assumed) > 0 || claim.Object != before {
			t.Errorf("%s: error %v, want %s; told the scheduler of %v", name, err, test.err, dra.assumed)
		}
	}
}

// The time of an allocation is noted if devices may have to get ready, and stays as it was noted first.
func TestAllocationTimestamp(t *testing.T) {
	noted := allocationOf("gpu-0")
	noted.AllocationTimestamp = &metav1.Time{Time: time.Unix(1000, 0)}
	for name, test := range map[string]struct {
		conditions bool
		allocated  *resourceapi.AllocationResult
		want       func(at *metav1.Time) bool
	}{
		"with conditions": {true, nil, func(at *metav1.Time) bool {
			return at != nil && time.Since(at.Time) < time.Hour && !at.After(time.Now())
		}},
		"without":            {false, nil, func(at *metav1.Time) bool { return at == nil }},
		"allocated before":   {true, noted, func(at *metav1.Time) bool { return at != nil && at.Equal(noted.AllocationTimestamp) }},
		"nobody noted when ": {true, allocationOf("gpu-0"), func(at *metav1.Time) bool { return at == nil }},
	} {
		claim := boundClaim(test.allocated)
		got, err := (&Writer{Conditions: test.conditions}).withReservation(claim, claim.Object)
		if err != nil || !test.want(got.Status.Allocation.AllocationTimestamp) {
			t.Errorf("%s: allocated %v, error %v", name, got, err)
		}
		if claim.Pending != nil && claim.Pending.AllocationTimestamp != nil {
			t.Errorf("%s: what is in flight was changed", name)
		}
	}
}

// It is not known whether a claim was written: the API server is asked what it has, until it answers. People are told once.
func TestBindUntilKnown(t *testing.T) {
	late := apierrors.NewTimeoutError("late", 0)
	for name, test := range map[string]struct {
		failures int
		reached  bool // whether the API server wrote it all the same
		told     int
	}{
		"twice":                     {2, false, 0},
		"three times":               {3, false, 1},
		"seven times":               {7, false, 1},
		"written, and nobody knows": {1, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				claim, dra := boundClaim(nil), &claimSink{}
				client := fake.NewClientset(claim.Object)
				failures, told := 0, 0
				client.PrependReactor("update", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
					if failures == test.failures {
						return false, nil, nil
					}
					failures++
					if test.reached {
						if err := client.Tracker().Update(action.GetResource(), action.(clienttesting.UpdateAction).GetObject(), "default"); err != nil {
							t.Error(err)
						}
					}
					return true, nil, late
				})
				w, start := writer(client, dra), time.Now()
				w.Unconfirmed = func(_ context.Context, pod *corev1.Pod, err error) {
					if told++; pod.Name != "a" || !errors.Is(err, late) {
						t.Errorf("told of %v, %v", pod, err)
					}
				}
				if err := w.Bind(t.Context(), claim, thePod(), nil); err != nil {
					t.Fatal(err)
				}
				if told != test.told || !claimstate.Reserved(claim.Object, claim.Consumer) || len(dra.assumed) != 1 {
					t.Errorf("told %d times, want %d; claim %v", told, test.told, claim.Object)
				}
				if took := time.Since(start); took < time.Duration(test.failures)*confirmInterval || took > time.Duration(test.failures+1)*confirmInterval {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// An API server that has just started refuses what its authorizer has not read yet. After an update without an answer, that does not say whether the
// claim was written.
func TestBindAsksUntilItIsAllowed(t *testing.T) {
	claims := resourceapi.Resource("resourceclaims")
	for name, refusal := range map[string]error{
		"forbidden": apierrors.NewForbidden(claims, "one", errors.New("authorizer")), "unauthorized": apierrors.NewUnauthorized("authenticator"),
		"busy": apierrors.NewTooManyRequestsError("start"),
	} {
		synctest.Test(t, func(t *testing.T) {
			claim := boundClaim(nil)
			client := fake.NewClientset(claim.Object)
			updates, reads := 0, 0
			client.PrependReactor("update", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if updates++; updates > 2 || action.GetSubresource() != "status" {
					return false, nil, nil
				}
				if err := client.Tracker().Update(action.GetResource(), action.(clienttesting.UpdateAction).GetObject(), "default"); err != nil {
					t.Error(err)
				}
				return true, nil, &url.Error{Op: "Put", URL: "claim", Err: io.EOF}
			})
			client.PrependReactor("get", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
				reads++
				return reads <= 5, nil, refusal
			})
			w := writer(client, &claimSink{})
			w.Unconfirmed = func(context.Context, *corev1.Pod, error) {}
			if err := w.Bind(t.Context(), claim, thePod(), nil); err != nil || reads != 6 || !claimstate.Reserved(claim.Object, claim.Consumer) {
				t.Errorf("%s: error %v after %d reads; claim %v", name, err, reads, claim.Object)
			}
		})
	}
}

// What stays unknown for minutes is an error, and so is what is refused. The latter is not tried again.
func TestBindGivesUp(t *testing.T) {
	forbidden := apierrors.NewForbidden(resourceapi.Resource("resourceclaims"), "one", errors.New("policy"))
	late := apierrors.NewTimeoutError("late", 0)
	for name, test := range map[string]struct {
		err         error
		least, most time.Duration
		attempts    int // 0: many
	}{
		"late":      {late, confirmTimeout, confirmTimeout + confirmInterval, 0},
		"forbidden": {forbidden, 0, 0, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			claim := boundClaim(nil)
			client := fake.NewClientset(claim.Object)
			attempts, told := 0, 0
			client.PrependReactor("update", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
				attempts++
				return true, nil, test.err
			})
			w, start := writer(client, &claimSink{}), time.Now()
			w.Unconfirmed = func(context.Context, *corev1.Pod, error) { told++ }
			err := w.Bind(t.Context(), claim, thePod(), nil)
			if took := time.Since(start); !errors.Is(err, test.err) || took < test.least || took > test.most {
				t.Errorf("%s: error %v after %s", name, err, took)
			}
			if test.attempts > 0 && attempts != test.attempts || test.attempts == 0 && (attempts < 100 || told != 1) {
				t.Errorf("%s: %d attempts, told %d times", name, attempts, told)
			}
		})
	}
}

// A claim that cannot be read after a failed update is an error.
func TestBindCannotRead(t *testing.T) {
	claim := boundClaim(nil)
	client := fake.NewClientset()
	conflict := apierrors.NewConflict(resourceapi.Resource("resourceclaims"), "one", errors.New("changed"))
	client.PrependReactor("update", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, conflict })
	err := writer(client, &claimSink{}).Bind(t.Context(), claim, thePod(), nil)
	if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "get claim default/one after a failed update") {
		t.Errorf("error %v", err)
	}
}
