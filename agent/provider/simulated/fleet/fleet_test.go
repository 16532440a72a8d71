// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/dray-project/dray/agent/internal/fakecluster"
	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/provider/simulated/fleet"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// run runs a fleet within a bubble, and hands a test what it made.
func run(t *testing.T, client *fake.Clientset, options fleet.Options, test func(f *fleet.Fleet)) {
	t.Helper()
	options.Client = client
	f, err := fleet.New(options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		if err := f.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	time.Sleep(time.Minute)
	synctest.Wait()
	test(f)
	cancel()
	group.Wait()
}

var newClient, isDryRun = fakecluster.NewVersioned, fakecluster.IsDryRun

func gpuNodes(nodes, gpus int) fleet.Options {
	return fleet.Options{Kinds: []inventory.SimulatedNodes{fleet.GPUs("node-", nodes, "gpu.example.com", gpus)}}
}

func isReady(f *fleet.Fleet) bool {
	select {
	case <-f.Ready():
		return true
	default:
		return false
	}
}

func TestFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		run(t, client, gpuNodes(20, 8), func(f *fleet.Fleet) {
			if !isReady(f) {
				t.Error("not ready")
			}
			nodes, _ := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			leases, _ := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(t.Context(), metav1.ListOptions{})
			slices, _ := client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
			if len(nodes.Items) != 20 || len(leases.Items) != 20 || len(slices.Items) != 20 || len(slices.Items[0].Spec.Devices) != 8 {
				t.Errorf("%d nodes, %d leases, %d slices", len(nodes.Items), len(leases.Items), len(slices.Items))
			}
			for i := range 20 {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("pod-", i), UID: "uid"},
					Spec: corev1.PodSpec{NodeName: fmt.Sprint("node-", i), Containers: []corev1.Container{{Name: "main"}}}}
				if _, err := client.CoreV1().Pods("ns").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
			pods, _ := client.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
			for _, pod := range pods.Items {
				if pod.Status.Phase != corev1.PodRunning {
					t.Errorf("pod %s is %s", pod.Name, pod.Status.Phase)
				}
			}
		})
	})
}

// TestSlicesThatExist has one that is right and one that is not.
func TestSlicesThatExist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		run(t, client, gpuNodes(2, 2), func(*fleet.Fleet) {})
		client.ClearActions()
		run(t, client, gpuNodes(2, 2), func(*fleet.Fleet) {})
		for _, action := range client.Actions() {
			if action.GetVerb() == "update" && action.GetResource().Resource == "resourceslices" {
				t.Error("a slice that was right was written")
			}
		}
		run(t, client, gpuNodes(2, 3), func(*fleet.Fleet) {})
		slices, _ := client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
		if len(slices.Items) != 2 || len(slices.Items[0].Spec.Devices) != 3 {
			t.Errorf("%d slices, %d devices", len(slices.Items), len(slices.Items[0].Spec.Devices))
		}
	})
}

func TestOneNodeFails(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		times int
		left  int // slices
	}{
		"for ever":                          {apierrors.NewInvalid(resourceapi.SchemeGroupVersion.WithKind("ResourceSlice").GroupKind(), "x", nil), 1, 2},
		"for ever, because it is forbidden": {apierrors.NewForbidden(resourceapi.Resource("resourceslices"), "x", errors.New("no")), 1, 2},
		"for ever, because it is wrong":     {apierrors.NewBadRequest("no"), 1, 2},
		"a while":                           {errors.New("no"), 5, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := newClient()
				var mu sync.Mutex
				failures := 0
				client.PrependReactor("create", "resourceslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
					if isDryRun(action) {
						return false, nil, nil
					}
					mu.Lock()
					defer mu.Unlock()
					failures++
					return failures <= c.times, nil, c.err
				})
				run(t, client, gpuNodes(3, 1), func(f *fleet.Fleet) {
					slices, _ := client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
					if len(slices.Items) != c.left || f.Registered() != c.left || !isReady(f) {
						t.Errorf("%d slices, want %d; %d registered, ready: %t", len(slices.Items), c.left, f.Registered(), isReady(f))
					}
				})
			})
		})
	}
}

func TestNewRefuses(t *testing.T) {
	client := newClient()
	unpublished := gpuNodes(1, 1).Kinds
	unpublished[0].Groups[0].Attributes["no name!"] = resourceapi.DeviceAttribute{BoolValue: new(bool)}
	for want, options := range map[string]fleet.Options{
		"a client is required":      gpuNodes(1, 1),
		"at least one kind":         {Client: client},
		`name "a b": a valid label`: {Client: client, Name: "a b", Kinds: gpuNodes(1, 1).Kinds},
		"leases of 3 s: at least 4": {Client: client, LeaseSeconds: 3, Kinds: gpuNodes(1, 1).Kinds},

		`nodes[0].name: "Node_0": a lowercase RFC 1123`: {Client: client, Kinds: []inventory.SimulatedNodes{fleet.GPUs("Node_", 2, "d", 1)}},
		`"../0": a lowercase`:                           {Client: client, Kinds: []inventory.SimulatedNodes{fleet.GPUs("../", 10, "d", 1)}},
		"must be no more than 253 ":                     {Client: client, Kinds: []inventory.SimulatedNodes{fleet.GPUs(strings.Repeat("n", 252), 100, "d", 1)}},
		`groups[0].driver: "GPU": a lowercase RFC 1123`: {Client: client, Kinds: []inventory.SimulatedNodes{fleet.GPUs("n-", 1, "GPU", 1)}},
		"driver, name and a count of at least 1":        {Client: client, Kinds: []inventory.SimulatedNodes{fleet.GPUs("n-", 1, "", 1)}},
	} {
		if _, err := fleet.New(options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// ignored is a reaction that does nothing.
func ignored(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil }
