// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/provider/simulated/fleet"
)

// published describes the devices of a node: "gpu-0 gpu.example.com/unhealthy=Ecc:NoExecute".
func published(t *testing.T, client *fake.Clientset, node string) string {
	t.Helper()
	list, err := client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	generations := make(map[int64]bool)
	for _, slice := range list.Items {
		if *slice.Spec.NodeName != node {
			continue
		}
		generations[slice.Spec.Pool.Generation] = true
		for _, device := range slice.Spec.Devices {
			text := device.Name
			for _, taint := range device.Taints {
				text += fmt.Sprintf(" %s=%s:%s", taint.Key, taint.Value, taint.Effect)
			}
			out = append(out, text)
		}
	}
	if len(generations) > 1 {
		t.Errorf("slices of generations %v", generations)
	}
	return strings.Join(out, "; ")
}

func readyOf(t *testing.T, client *fake.Clientset, node string) string {
	t.Helper()
	stored, err := client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, condition := range stored.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return fmt.Sprint(condition.Status, " ", condition.Reason, " ", condition.Message)
		}
	}
	return ""
}

func TestScript(t *testing.T) {
	// What happens does so between two looks.
	at := func(seconds int) metav1.Duration {
		return metav1.Duration{Duration: time.Duration(55+seconds) * time.Second}
	}
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		options := gpuNodes(2, 2)
		options.Kinds = append(options.Kinds, inventory.SimulatedNodes{Name: "other", SimulatedDevices: options.Kinds[0].SimulatedDevices})
		options.Kinds[0].Script = []inventory.SimulatedEvent{
			{At: at(10), Node: "node-1", Device: "gpu-0", Fail: &inventory.SimulatedFailure{Reason: "Ecc error", Evict: true}},
			{At: at(20), Device: "gpu-1", Taint: &resourceapi.DeviceTaint{Key: "d/service", Value: "on", Effect: resourceapi.DeviceTaintEffectNoSchedule}},
			{At: at(30), Node: "node-1", Device: "gpu-0", Recover: true},
			{At: at(30), Node: "node-1", Device: "gpu-1", Remove: true},
			{At: at(40), Node: "node-1", Device: "gpu-1", Add: true},
			{At: at(50), NotReady: &inventory.SimulatedNodeFailure{Reason: "Unplugged", Message: "by a script"}},
			{At: at(60), Node: "node-1", Ready: true},
		}
		run(t, client, options, func(*fleet.Fleet) { // for a minute
			began, _ := client.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
			var got []string
			for range 7 {
				got = append(got, published(t, client, "node-1")+" | "+readyOf(t, client, "node-1"))
				time.Sleep(10 * time.Second)
				synctest.Wait()
			}
			const ready = " | True Simulated nothing runs here"
			want := []string{
				"gpu-0; gpu-1" + ready,
				"gpu-0 gpu.example.com/unhealthy=Ecc-error:NoExecute; gpu-1" + ready,
				"gpu-0 gpu.example.com/unhealthy=Ecc-error:NoExecute; gpu-1 d/service=on:NoSchedule" + ready,
				"gpu-0" + ready,
				"gpu-0; gpu-1" + ready,
				"gpu-0; gpu-1 | False Unplugged by a script",
				"gpu-0; gpu-1" + ready,
			}
			if !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if got := published(t, client, "node-0") + " | " + readyOf(t, client, "node-0"); got != "gpu-0; gpu-1 d/service=on:NoSchedule | False Unplugged by a script" {
				t.Errorf("another node: %s", got)
			}
			if got := published(t, client, "other") + " | " + readyOf(t, client, "other"); got != "gpu-0; gpu-1"+ready {
				t.Errorf("a node of another kind: %s", got)
			}
			after, _ := client.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
			if passed := after.Status.Conditions[0].LastTransitionTime.Sub(began.Status.Conditions[0].LastTransitionTime.Time); passed < time.Minute {
				t.Errorf("the condition changed %s after the beginning", passed)
			}
		})
	})
}

// TestSilentNode has a node say nothing for some minutes, while a device of it fails.
func TestSilentNode(t *testing.T) {
	at := func(minutes int) metav1.Duration {
		return metav1.Duration{Duration: time.Duration(minutes)*time.Minute - 5*time.Second}
	}
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		options := gpuNodes(2, 1)
		options.Kinds[0].Script = []inventory.SimulatedEvent{
			{At: at(2), Node: "node-1", Silent: true},
			{At: at(3), Device: "gpu-0", Fail: &inventory.SimulatedFailure{Reason: "Ecc"}},
			{At: at(10), Node: "node-1", Ready: true},
		}
		run(t, client, options, func(*fleet.Fleet) { // for a minute
			heartbeat := func(node string) (lease, status, transition time.Time) {
				stored, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), node, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				of, err := client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				ready := of.Status.Conditions[0]
				return stored.Spec.RenewTime.Time, ready.LastHeartbeatTime.Time, ready.LastTransitionTime.Time
			}
			_, _, began := heartbeat("node-1")
			addClaim(t, client, "one", []string{"a"}, "node-1/gpu-0")
			addPod(t, client, "a", "node-1", "one")
			time.Sleep(8 * time.Minute)
			synctest.Wait()
			lease, status, _ := heartbeat("node-1")
			if silent := min(time.Since(lease), time.Since(status)); silent < 7*time.Minute {
				t.Errorf("the node said something %s ago", silent)
			}
			if lease, status, _ := heartbeat("node-0"); time.Since(lease) > time.Minute || time.Since(status) > 6*time.Minute {
				t.Errorf("another node said something %s and %s ago", time.Since(lease), time.Since(status))
			}
			if got := published(t, client, "node-1"); got != "gpu-0" {
				t.Errorf("a silent node publishes %s", got)
			}
			if got := devicesOf(t, client, "one"); !strings.Contains(got, "Healthy=True") {
				t.Errorf("a silent node says of a claim: %s", got)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			lease, status, transition := heartbeat("node-1")
			if quiet := max(time.Since(lease), time.Since(status)); quiet > 2*time.Minute || transition.Sub(began) < 9*time.Minute {
				t.Errorf("the node is back, said something %s ago, and its condition changed %s after the beginning", quiet, transition.Sub(began))
			}
			if got := published(t, client, "node-1"); got != "gpu-0 gpu.example.com/unhealthy=Ecc:NoSchedule" {
				t.Errorf("the node is back, and publishes %s", got)
			}
			if got := devicesOf(t, client, "one"); !strings.Contains(got, "Healthy=False(Ecc)") {
				t.Errorf("the node is back, and says of a claim: %s", got)
			}
		})
	})
}

// TestPoolsOfSeveralSlices has a pool whose slices must be of one generation.
func TestPoolsOfSeveralSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		options := gpuNodes(1, 130)
		event := func(seconds int, device string, remove bool) inventory.SimulatedEvent {
			return inventory.SimulatedEvent{At: metav1.Duration{Duration: time.Duration(55+seconds) * time.Second}, Device: device, Remove: remove, Add: !remove}
		}
		options.Kinds[0].Script = []inventory.SimulatedEvent{
			event(10, "gpu-7", true), event(20, "gpu-128", true), event(20, "gpu-129", true), event(30, "gpu-128", false), event(30, "gpu-7", false),
			event(40, "gpu-129", false), event(50, "gpu-7", true), event(50, "gpu-129", true), // the last two are of two slices
		}
		run(t, client, options, func(*fleet.Fleet) {
			for i, want := range []struct {
				devices, slices, writes int // writes: updates, creations and deletions
				generation              int64
			}{{130, 2, 0, 1}, {129, 2, 1, 1}, {127, 1, 2, 2}, {129, 2, 2, 3}, {130, 2, 1, 3}, {128, 2, 2, 4}} {
				devices := strings.Count(published(t, client, "node-0"), "gpu-")
				list, _ := client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
				writes := requests(client)["update resourceslices"] + requests(client)["create resourceslices"] + requests(client)["delete resourceslices"]
				if i == 0 {
					writes -= 2
				}
				if devices != want.devices || len(list.Items) != want.slices || list.Items[0].Spec.Pool.Generation != want.generation || writes > want.writes {
					t.Errorf("step %d: %d devices, %d slices, generation %d, %d writes, want %+v", i, devices, len(list.Items), list.Items[0].Spec.Pool.Generation, writes, want)
				}
				client.ClearActions()
				time.Sleep(10 * time.Second)
				synctest.Wait()
			}
		})
	})
}

// TestTimesOfTaints: that of a taint stays while other things of the slice change.
func TestTimesOfTaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		stamp := func(action clienttesting.Action) (bool, runtime.Object, error) { // as the API server does
			slice := action.(clienttesting.CreateAction).GetObject().(*resourceapi.ResourceSlice)
			for i := range slice.Spec.Devices {
				for j := range slice.Spec.Devices[i].Taints {
					if taint := &slice.Spec.Devices[i].Taints[j]; taint.TimeAdded == nil {
						taint.TimeAdded = ptr.To(metav1.Now())
					}
				}
			}
			return false, nil, nil
		}
		client.PrependReactor("create", "resourceslices", stamp)
		client.PrependReactor("update", "resourceslices", stamp)
		options := gpuNodes(1, 2)
		options.Kinds[0].Script = []inventory.SimulatedEvent{
			{At: metav1.Duration{Duration: 65 * time.Second}, Device: "gpu-0", Fail: &inventory.SimulatedFailure{Reason: "Ecc"}},
			{At: metav1.Duration{Duration: 85 * time.Second}, Device: "gpu-1", Fail: &inventory.SimulatedFailure{Reason: "Ecc"}},
		}
		run(t, client, options, func(*fleet.Fleet) { // for a minute
			time.Sleep(time.Minute)
			synctest.Wait()
			list, err := client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) != 1 {
				t.Fatalf("%d slices, %v", len(list.Items), err)
			}
			first, second := list.Items[0].Spec.Devices[0].Taints, list.Items[0].Spec.Devices[1].Taints
			if len(first) != 1 || len(second) != 1 || second[0].TimeAdded.Sub(first[0].TimeAdded.Time) != 20*time.Second {
				t.Errorf("taints %v and %v", first, second)
			}
		})
	})
}

// TestScriptWhileAStatusIsWritten: what happens to a node meanwhile is told at once, and not minutes later.
func TestScriptWhileAStatusIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		slow := true
		client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			if slow { // the one after five minutes
				slow = false
				time.Sleep(2 * time.Minute)
			}
			return false, nil, nil
		})
		options := gpuNodes(1, 0)
		options.Kinds[0].Script = []inventory.SimulatedEvent{
			{At: metav1.Duration{Duration: 6 * time.Minute}, NotReady: &inventory.SimulatedNodeFailure{Reason: "Unplugged", Message: "by a script"}},
		}
		run(t, client, options, func(*fleet.Fleet) { // for a minute
			time.Sleep(6*time.Minute + 30*time.Second)
			synctest.Wait()
			if got := readyOf(t, client, "node-0"); slow || got != "False Unplugged by a script" {
				t.Errorf("the status was written %v, and says %s", !slow, got)
			}
		})
	})
}
