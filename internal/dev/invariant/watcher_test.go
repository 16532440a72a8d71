// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/dray-project/dray/internal/dev/fakeapi"
)

// reservedFor lets a pod use a claim.
func reservedFor(claim *resourceapi.ResourceClaim, pod string, uid types.UID) *resourceapi.ResourceClaim {
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: uid})
	return claim
}

// eventually polls until found returns what is wanted.
func eventually(t *testing.T, found func() []string, want ...string) {
	t.Helper()
	var last []string
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		last = found()
		slices.Sort(last)
		return slices.Equal(last, want), nil
	})
	if err != nil {
		t.Errorf("found %q, want %q: %v", last, want, err)
	}
}

func TestWatcherRemembersViolations(t *testing.T) {
	client := fake.NewClientset(slice(resourceapi.Device{Name: "gpu-0"}, resourceapi.Device{Name: "gpu-1"}), claim("a", result("gpu-0")))
	w, err := Watch(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	fakeapi.AwaitWatches(t, client)
	claims := client.ResourceV1().ResourceClaims("ns")
	if _, err := claims.Create(t.Context(), claim("b", result("gpu-0")), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, w.Violations, "device gpu.example.com/node/gpu-0 is held by ns/a and by ns/b")
	if _, err := claims.Update(t.Context(), claim("b", result("gpu-1")), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, w.Unexplained)
	eventually(t, w.Violations, "device gpu.example.com/node/gpu-0 is held by ns/a and by ns/b")
}

func TestWatcherComparesWithPodsAndSlices(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "1"}}
	client := fake.NewClientset(
		slice(resourceapi.Device{Name: "gpu-0"}), pod,
		reservedFor(claim("a", result("gpu-0")), "pod", "1"),
		reservedFor(claim("b", result("gpu-7")), "pod", "2"),
	)
	w, err := Watch(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	fakeapi.AwaitWatches(t, client)
	stranger := "claim ns/b is reserved for pod pod (2), which is gone"
	eventually(t, w.Leaked, stranger)
	eventually(t, w.Unexplained,
		"claim ns/b holds device gpu.example.com/node/gpu-7, which was never published",
		"claim ns/b is reserved for pod pod (2), which never existed")
	if err := client.CoreV1().Pods("ns").Delete(t.Context(), "pod", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, w.Leaked, "claim ns/a is reserved for pod pod (1), which is gone", stranger)
	eventually(t, w.Violations)
}

// TestStatesAreOfOneMoment has a list in which a device went from a claim that is gone to
// another one.
func TestStatesAreOfOneMoment(t *testing.T) {
	var seen [][]string
	s := &states{claims: make(map[string]*resourceapi.ResourceClaim), listed: func() {}, check: func(claims []*resourceapi.ResourceClaim) {
		seen = append(seen, Check(nil, claims))
	}}
	for _, err := range []error{
		s.Replace([]any{claim("a", result("gpu-0"))}, "1"),
		s.Replace([]any{claim("b", result("gpu-0")), claim("c")}, "2"),
		s.Update(claim("c", result("gpu-1"))),
		s.Delete(claim("c", result("gpu-1"))),
		s.Add(claim("d", result("gpu-1"))),
		s.Add(claim("e", result("gpu-1"))),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	for i, found := range seen {
		if last := i == len(seen)-1; last != (len(found) == 1) {
			t.Errorf("state %d: found %q", i, found)
		}
	}
	if len(seen) != 5 || len(s.all()) != 3 {
		t.Errorf("%d states, %d claims", len(seen), len(s.all()))
	}
	if s.Add(&corev1.Pod{}) == nil || s.Replace([]any{&corev1.Pod{}}, "3") == nil {
		t.Error("a pod passes for a claim")
	}
}
