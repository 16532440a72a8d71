// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/provider/simulated/fleet"
)

// TestDelete has a fleet beside another one and a real node, which has the name of a node that the fleet
// once had.
func TestDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real", UID: "real"}},
			&coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "real", UID: "lease", Labels: map[string]string{fleet.LabelFleet: fleet.DefaultName}},
				Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: ptr.To[int32](40), RenewTime: ptr.To(metav1.NewMicroTime(time.Now().Add(-time.Hour)))},
			},
			&resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "real-d", UID: "slice"}, Spec: resourceapi.ResourceSliceSpec{NodeName: ptr.To("node-0"), Driver: "real.example.com"}},
		)
		other := mixed()
		run(t, client, other, func(*fleet.Fleet) {})
		run(t, client, gpuNodes(3, 2), func(*fleet.Fleet) {
			addPod(t, client, "here", "node-2")
			addPod(t, client, "real", "real")
			addPod(t, client, "other", "gpu-01")
			addPod(t, client, "unbound", "")
			soon()
			began := time.Now()
			deleted, err := fleet.Delete(t.Context(), client, "")
			if !errors.Is(err, fleet.ErrRunning) || deleted != (fleet.Deleted{}) || time.Since(began) > 12*time.Second {
				t.Errorf("while it runs: %+v, %v, after %s", deleted, err, time.Since(began))
			}
		})
		deleted, err := fleet.Delete(t.Context(), client, "")
		if want := (fleet.Deleted{Nodes: 3, Leases: 3, Slices: 3, Pods: 1}); err != nil || deleted != want {
			t.Errorf("deleted %+v, %v, want %+v", deleted, err, want)
		}
		nodes, _ := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		leases, _ := client.CoordinationV1().Leases("").List(t.Context(), metav1.ListOptions{})
		slices, _ := client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
		pods, _ := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		if len(nodes.Items) != 5 || len(leases.Items) != 5 || len(slices.Items) != 7 || len(pods.Items) != 3 {
			t.Errorf("left: %d nodes, %d leases, %d slices, %d pods", len(nodes.Items), len(leases.Items), len(slices.Items), len(pods.Items))
		}
		if deleted, err := fleet.Delete(t.Context(), client, "mixed"); err != nil || deleted != (fleet.Deleted{Nodes: 4, Leases: 4, Slices: 6, Pods: 1}) {
			t.Errorf("deleted %+v, %v", deleted, err)
		}
		if deleted, err := fleet.Delete(t.Context(), client, "mixed"); err != nil || deleted != (fleet.Deleted{}) {
			t.Errorf("deleted again: %+v, %v", deleted, err)
		}
		if _, err := fleet.Delete(t.Context(), client, "a b"); err == nil || !strings.Contains(err.Error(), `fleet "a b": a valid label`) {
			t.Errorf("got %v", err)
		}
	})
}

// TestDeleteWaits has a pod that a finalizer keeps.
func TestDeleteWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		run(t, client, gpuNodes(1, 1), func(*fleet.Fleet) {})
		addPod(t, client, "kept", "node-0")
		addPod(t, client, "stuck", "node-0") // with no finalizer
		client.PrependReactor("delete", "pods", ignored)
		pod, _ := client.CoreV1().Pods("ns").Get(t.Context(), "kept", metav1.GetOptions{})
		pod.Finalizers = []string{"example.com/keep"}
		if _, err := client.CoreV1().Pods("ns").Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("it took too long"))
		defer cancel()
		deleted, err := fleet.Delete(ctx, client, "")
		if err == nil || !strings.Contains(err.Error(), "it took too long\nleft: pod ns/kept (waits for the finalizers example.com/keep)") || !strings.HasSuffix(err.Error(), "pod ns/stuck") {
			t.Errorf("got %v", err)
		}
		if want := (fleet.Deleted{Nodes: 1, Leases: 1, Slices: 1, Pods: 2}); deleted != want {
			t.Errorf("deleted %+v", deleted)
		}
	})
}

// TestHowItIsDeleted: only what was looked at is deleted, and pods without grace: nobody would end them.
func TestHowItIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		run(t, client, gpuNodes(1, 1), func(*fleet.Fleet) { addPod(t, client, "a", "node-0"); soon() })
		uids := make(map[types.UID]bool)
		client.PrependReactor("delete", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			options := action.(clienttesting.DeleteActionImpl).DeleteOptions
			if options.Preconditions == nil || options.Preconditions.UID == nil {
				t.Errorf("%s are deleted whatever their UID", action.GetResource().Resource)
			} else {
				uids[*options.Preconditions.UID] = true
			}
			if action.GetResource().Resource == "pods" && ptr.Deref(options.GracePeriodSeconds, -1) != 0 {
				t.Errorf("a pod has a grace of %v", options.GracePeriodSeconds)
			}
			return false, nil, nil
		})
		if _, err := fleet.Delete(t.Context(), client, ""); err != nil || len(uids) != 4 || !uids["pod-a"] {
			t.Errorf("deleted %v, %v", uids, err)
		}
	})
}

// TestDeleteOfANodeThatAnotherFleetHas leaves the node and its pods alone, also if something of the first fleet
// has its name.
func TestDeleteOfANodeThatAnotherFleetHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine := map[string]string{fleet.LabelFleet: fleet.DefaultName}
		client := newClient(
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", Labels: map[string]string{fleet.LabelFleet: "another"}}},
			&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n", UID: "l", Labels: mine}},
			&resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "s", Labels: mine}, Spec: resourceapi.ResourceSliceSpec{NodeName: ptr.To("n"), Driver: driver}},
		)
		addPod(t, client, "a", "n")
		deleted, err := fleet.Delete(t.Context(), client, "")
		if want := (fleet.Deleted{Slices: 1}); err != nil || deleted != want {
			t.Errorf("deleted %+v, %v, want %+v", deleted, err, want)
		}
	})
}

// TestDeleteWhileAFleetBegins: a lease that comes while Delete waits is of a fleet that runs.
func TestDeleteWhileAFleetBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := func(name string) *coordinationv1.Lease {
			return &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name, UID: types.UID(name), Labels: map[string]string{fleet.LabelFleet: fleet.DefaultName}},
				Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: ptr.To[int32](40), RenewTime: ptr.To(metav1.NowMicro())},
			}
		}
		client := newClient(lease("old"))
		time.AfterFunc(5*time.Second, func() {
			if _, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(t.Context(), lease("new"), metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		})
		if _, err := fleet.Delete(t.Context(), client, ""); !errors.Is(err, fleet.ErrRunning) || !strings.Contains(err.Error(), "node new") {
			t.Errorf("got %v", err)
		}
	})
}

// TestDeleteReturnsErrors fails one request after the other. Nothing is taken for deleted then.
func TestDeleteReturnsErrors(t *testing.T) {
	injected, failed := errors.New("injected"), 0
	for number := 1; ; number++ {
		requests := 0
		synctest.Test(t, func(t *testing.T) {
			client := newClient()
			run(t, client, gpuNodes(1, 1), func(*fleet.Fleet) { addPod(t, client, "a", "node-0"); soon() })
			var mutex sync.Mutex
			client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				mutex.Lock()
				defer mutex.Unlock()
				requests++
				return requests == number, nil, injected
			})
			deleted, err := fleet.Delete(t.Context(), client, "")
			switch whole := (fleet.Deleted{Nodes: 1, Leases: 1, Slices: 1, Pods: 1}); {
			case errors.Is(err, injected):
				failed++
			case requests >= number:
				t.Errorf("request %d failed: deleted %+v, %v", number, deleted, err)
			case err != nil || deleted != whole:
				t.Errorf("no request failed: deleted %+v, %v", deleted, err)
			}
		})
		if requests < number || t.Failed() {
			break
		}
	}
	if failed < 10 {
		t.Errorf("%d requests failed", failed)
	}
}

// TestDeleteOfALeaseThatWasNeverRenewed does not wait for it.
func TestDeleteOfALeaseThatWasNeverRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: corev1.NamespaceNodeLease, Name: "n", UID: "l", Labels: map[string]string{fleet.LabelFleet: fleet.DefaultName},
		}})
		began := time.Now()
		deleted, err := fleet.Delete(t.Context(), client, "")
		if want := (fleet.Deleted{Leases: 1}); err != nil || deleted != want || time.Since(began) > time.Second {
			t.Errorf("deleted %+v, %v, after %s", deleted, err, time.Since(began))
		}
	})
}
