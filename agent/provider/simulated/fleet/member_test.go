// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/provider/simulated/fleet"
)

// requests are what was asked for, without dry runs, watches and lists of pods.
func requests(client *fake.Clientset) map[string]int {
	out := make(map[string]int)
	for _, action := range client.Actions() {
		if !isDryRun(action) && action.GetResource().Resource != "pods" {
			out[action.GetVerb()+" "+action.GetResource().Resource]++
		}
	}
	return out
}

func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		run(t, client, gpuNodes(10, 8), func(*fleet.Fleet) { // after a minute, a moment before the sixth renewals
			want := map[string]int{"create nodes": 10, "create leases": 10, "create resourceslices": 10, "update leases": 50}
			if got := requests(client); !maps.Equal(got, want) {
				t.Errorf("requests %v, want %v", got, want)
			}
			client.ClearActions()
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			want = map[string]int{"update leases": 600, "patch nodes": 20}
			if got := requests(client); !maps.Equal(got, want) {
				t.Errorf("requests in ten minutes %v, want %v", got, want)
			}
		})
	})
}

// mixed are nodes of two kinds, and what the second looks like after an earlier run.
func mixed() fleet.Options {
	return fleet.Options{Name: "mixed", Kinds: []inventory.SimulatedNodes{
		{
			Name: "gpu-{index:2}", Count: 3, Region: "r", Zones: []string{"a", "b"}, Labels: map[string]string{"rack": "7"},
			Taints:           []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}},
			Capacity:         corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("192")},
			SimulatedDevices: inventory.SimulatedDevices{Groups: fleet.GPUs("", 1, "d", 150).Groups},
		},
		{Name: "plain"},
	}}
}

func TestKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		run(t, client, mixed(), func(f *fleet.Fleet) {
			if !isReady(f) || f.Registered() != 4 || f.Nodes() != 4 {
				t.Errorf("ready: %t, %d of %d registered", isReady(f), f.Registered(), f.Nodes())
			}
			nodes, _ := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			var got []string
			for _, node := range nodes.Items {
				got = append(got, fmt.Sprint(node.Name, " ", node.Labels[corev1.LabelTopologyRegion], node.Labels[corev1.LabelTopologyZone], node.Labels["rack"], " ", node.Labels[fleet.LabelFleet],
					" ", len(node.Spec.Taints), " ", node.Status.Allocatable.Cpu(), " ", node.Status.Capacity.Pods()))
			}
			want := []string{"gpu-00 ra7 mixed 1 192 110", "gpu-01 rb7 mixed 1 192 110", "gpu-02 ra7 mixed 1 192 110", "plain  mixed 0 64 110"}
			if !slices.Equal(got, want) {
				t.Errorf("nodes\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			stored, _ := client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
			devices := 0
			for _, slice := range stored.Items {
				devices += len(slice.Spec.Devices)
				if slice.Spec.Pool.ResourceSliceCount != 2 || slice.Labels[fleet.LabelFleet] != "mixed" || !strings.HasPrefix(slice.Name, slice.Spec.Pool.Name+"-d-") {
					t.Errorf("slice %s: %+v", slice.Name, slice.Spec.Pool)
				}
			}
			if len(stored.Items) != 6 || devices != 450 {
				t.Errorf("%d slices with %d devices", len(stored.Items), devices)
			}
		})
	})
}

// TestTakesOver has nodes of an earlier run that others changed, with other devices, and a node that is
// not the fleet's.
func TestTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		run(t, client, mixed(), func(*fleet.Fleet) {})
		node, _ := client.CoreV1().Nodes().Get(t.Context(), "gpu-00", metav1.GetOptions{})
		node.Labels["mine"], node.Labels["rack"] = "stays", "8"
		node.Spec.Unschedulable = true
		node.Spec.Taints = []corev1.Taint{{Key: "old", Effect: corev1.TaintEffectNoSchedule}, {Key: "node.kubernetes.io/unschedulable", Effect: corev1.TaintEffectNoSchedule}}
		uid := node.UID
		if _, err := client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		node, _ = client.CoreV1().Nodes().Get(t.Context(), "plain", metav1.GetOptions{})
		node.Labels = nil
		if _, err := client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		addPod(t, client, "of-others", "plain")
		client.ClearActions()
		options := mixed()
		options.Kinds[0].Capacity[corev1.ResourceCPU] = resource.MustParse("96")
		options.Kinds[0].Groups = fleet.GPUs("", 1, "e", 1).Groups
		run(t, client, options, func(f *fleet.Fleet) {
			if !isReady(f) || f.Registered() != 3 {
				t.Errorf("ready: %t, %d registered", isReady(f), f.Registered())
			}
			node, _ := client.CoreV1().Nodes().Get(t.Context(), "gpu-00", metav1.GetOptions{})
			var taints []string
			for _, taint := range node.Spec.Taints {
				taints = append(taints, taint.Key)
			}
			if node.UID != uid || node.Labels["mine"] != "stays" || node.Labels["rack"] != "7" || !node.Spec.Unschedulable ||
				!slices.Equal(taints, []string{"node.kubernetes.io/unschedulable", "gpu"}) || node.Status.Capacity.Cpu().String() != "96" {
				t.Errorf("labels %v, taints %v, capacity %v, unschedulable %t", node.Labels, taints, node.Status.Capacity, node.Spec.Unschedulable)
			}
			slices, _ := client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
			if len(slices.Items) != 3 || slices.Items[0].Spec.Driver != "e" {
				t.Errorf("%d slices", len(slices.Items))
			}
			if phase := phaseOf(t, client, "of-others"); phase != "" {
				t.Errorf("a pod of a node that is not the fleet's is %s", phase)
			}
			for _, action := range client.Actions() {
				if write, ok := action.(clienttesting.CreateAction); ok && !isDryRun(action) && action.GetVerb() != "create" && write.GetObject().(metav1.Object).GetName() == "plain" {
					t.Errorf("a node that is not the fleet's: %s %s", action.GetVerb(), action.GetResource().Resource)
				}
			}
		})
	})
}

func TestNodeIsCreatedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		run(t, client, gpuNodes(2, 1), func(*fleet.Fleet) {
			before, _ := client.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
			// The garbage collector deletes what the node owns, at its own time.
			if err := client.CoreV1().Nodes().Delete(t.Context(), "node-1", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(t.Context(), "node-1", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Second)
			synctest.Wait()
			after, err := client.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
			if err != nil || after.UID == before.UID {
				t.Fatalf("UID %s, %v", after.UID, err)
			}
			lease, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), "node-1", metav1.GetOptions{})
			if err != nil || lease.OwnerReferences[0].UID != after.UID {
				t.Errorf("lease %v, %v", lease, err)
			}
			slices, _ := client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
			if len(slices.Items) != 2 || slices.Items[1].OwnerReferences[0].UID != after.UID {
				t.Errorf("%d slices, owner %v", len(slices.Items), slices.Items[1].OwnerReferences)
			}
		})
	})
}

// TestRefused has an API server that says of a dry run what it does not take.
func TestRefused(t *testing.T) {
	for _, resource := range []string{"nodes", "resourceslices"} {
		client := newClient()
		client.PrependReactor("create", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("X").GroupKind(), "x", nil)
		})
		f, err := fleet.New(fleet.Options{Client: client, Kinds: mixed().Kinds})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "fleet: nodes gpu-{index:2}: the API server refuses what they are made of: X \"x\" is invalid") {
			t.Errorf("%s: %v", resource, err)
		}
		for _, action := range client.Actions() {
			if !isDryRun(action) {
				t.Errorf("%s: %s %s", resource, action.GetVerb(), action.GetResource().Resource)
			}
		}
	}
}

// TestLeaseDoesNotGoBack has a lease from a machine whose clock is ahead.
func TestLeaseDoesNotGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		run(t, client, gpuNodes(1, 0), func(*fleet.Fleet) {})
		leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
		lease, err := leases.Get(t.Context(), "node-0", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ahead := metav1.NewMicroTime(time.Now().Add(time.Hour))
		lease.Spec.RenewTime = &ahead
		if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		run(t, client, gpuNodes(1, 0), func(*fleet.Fleet) {
			for range 2 {
				lease, _ = leases.Get(t.Context(), "node-0", metav1.GetOptions{})
				if !lease.Spec.RenewTime.After(ahead.Time) {
					t.Errorf("renewed at %s, before at %s", lease.Spec.RenewTime, ahead)
				}
				ahead = *lease.Spec.RenewTime
				time.Sleep(10 * time.Second)
				synctest.Wait()
			}
		})
	})
}

// TestNodeOfAnotherFleet is left alone.
func TestNodeOfAnotherFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0", UID: "u", Labels: map[string]string{fleet.LabelFleet: "another"}}})
		run(t, client, gpuNodes(2, 1), func(f *fleet.Fleet) {
			node, err := client.CoreV1().Nodes().Get(t.Context(), "node-0", metav1.GetOptions{})
			if err != nil || f.Registered() != 1 || node.Labels[fleet.LabelFleet] != "another" || len(node.Status.Conditions) > 0 {
				t.Errorf("%d registered, node %v, %v", f.Registered(), node, err)
			}
		})
	})
}

// TestStatusIsOfOneNode: what is written for a node names its UID, so that another one of its name does not get it.
func TestStatusIsOfOneNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		run(t, client, gpuNodes(1, 0), func(*fleet.Fleet) {
			node, err := client.CoreV1().Nodes().Get(t.Context(), "node-0", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(6 * time.Minute)
			synctest.Wait()
			patches := 0
			for _, action := range client.Actions() {
				if patch, ok := action.(clienttesting.PatchAction); ok {
					patches++
					if want := `"uid":"` + string(node.UID) + `"`; !strings.Contains(string(patch.GetPatch()), want) {
						t.Errorf("the patch %s does not have %s", patch.GetPatch(), want)
					}
				}
			}
			if patches == 0 {
				t.Error("no status was written")
			}
		})
	})
}

// TestNoDryRun: where a webhook does not know dry runs, nodes are created without.
func TestNoDryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		client.PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if isDryRun(action) {
				return true, nil, apierrors.NewBadRequest("admission webhook w does not support dry run")
			}
			return false, nil, nil
		})
		run(t, client, gpuNodes(1, 1), func(f *fleet.Fleet) {
			if f.Registered() != 1 {
				t.Errorf("%d registered", f.Registered())
			}
		})
	})
}
