// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/dray-project/dray/agent/node"
)

func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		start(t, newController(t, node.NaiveNodeProvider{}, client, withLease(client)).Run)
		began := time.Now()
		lease := getLease(t, client)
		if *lease.Spec.HolderIdentity != nodeName || *lease.Spec.LeaseDurationSeconds != 40 || !lease.Spec.RenewTime.Time.Equal(began) {
			t.Errorf("lease %v", lease.Spec)
		}
		time.Sleep(100*time.Second + time.Millisecond)
		synctest.Wait()
		if got := count(client, "update leases"); got != 10 {
			t.Errorf("renewed %d times in 100 s, want 10", got)
		}
		if got := getLease(t, client).Spec.RenewTime.Sub(began); got != 100*time.Second {
			t.Errorf("renewed last after %s", got)
		}
	})
}

func TestLeaseInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
		start(t, newController(t, node.NaiveNodeProvider{}, client, node.WithNodeEnableLeaseV1WithRenewInterval(leases, 0, time.Second)).Run)
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		if got := count(client, "update leases"); got != 10 || *getLease(t, client).Spec.LeaseDurationSeconds != node.DefaultLeaseDuration {
			t.Errorf("renewed %d times in 10 s, want 10", got)
		}
	})
}

// TestLeaseSurvives lets leases meet what API servers and people do.
func TestLeaseSurvives(t *testing.T) {
	fails := func(err error, times int32) clienttesting.ReactionFunc {
		var calls atomic.Int32
		return func(clienttesting.Action) (bool, runtime.Object, error) { return calls.Add(1) <= times, nil, err }
	}
	gone := apierrors.NewConflict(coordinationv1.Resource("leases"), nodeName, errors.New("changed"))
	for name, happens := range map[string]func(t *testing.T, client *fake.Clientset){
		"a deletion": func(t *testing.T, client *fake.Clientset) {
			if err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(t.Context(), nodeName, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		},
		"a conflict": func(_ *testing.T, client *fake.Clientset) { prepend(client, "update", "leases", fails(gone, 1)) },
		"failing updates": func(_ *testing.T, client *fake.Clientset) {
			prepend(client, "update", "leases", fails(errors.New("no"), 5))
		},
		"failing requests": func(_ *testing.T, client *fake.Clientset) {
			prepend(client, "*", "leases", fails(errors.New("no"), 7))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				start(t, newController(t, node.NaiveNodeProvider{}, client, withLease(client)).Run)
				happens(t, client)
				time.Sleep(40 * time.Second)
				if age := time.Since(getLease(t, client).Spec.RenewTime.Time); age > 10*time.Second {
					t.Errorf("the lease was renewed %s ago", age)
				}
			})
		})
	}
}
