// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/provider/simulated"
	"github.com/dray-project/dray/agent/provider/simulated/fleet"
)

const driver = "gpu.example.com"

// addClaim adds a claim that is allocated, and reserved for pods. Devices are pool/device.
func addClaim(t *testing.T, client *fake.Clientset, name string, pods []string, devices ...string) {
	t.Helper()
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("claim-" + name)}}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	for _, device := range devices {
		pool, device, _ := strings.Cut(device, "/")
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: "a", Driver: driver, Pool: pool, Device: device},
			resourceapi.DeviceRequestAllocationResult{Request: "b", Driver: "other.example.com", Pool: "p", Device: "d"})
	}
	for _, pod := range pods {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID("pod-" + pod)})
	}
	if _, err := client.ResourceV1().ResourceClaims("ns").Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func addPod(t *testing.T, client *fake.Clientset, name, node string, claims ...string) {
	t.Helper()
	addPodWith(t, client, name, node, func(*corev1.Pod) {}, claims...)
}

// addPodWith adds a pod that is not restarted, with changes.
func addPodWith(t *testing.T, client *fake.Clientset, name, node string, change func(*corev1.Pod), claims ...string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("pod-" + name)},
		Spec:       corev1.PodSpec{NodeName: node, RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main"}}},
	}
	change(pod)
	for _, claim := range claims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim, ResourceClaimName: ptr.To(claim)})
	}
	if _, err := client.CoreV1().Pods("ns").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func phaseOf(t *testing.T, client *fake.Clientset, name string) corev1.PodPhase {
	t.Helper()
	pod, err := client.CoreV1().Pods("ns").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod.Status.Phase
}

// devicesOf describes status.devices of a claim: "gpu-0 Ready=True Healthy=True".
func devicesOf(t *testing.T, client *fake.Clientset, name string) string {
	t.Helper()
	claim, err := client.ResourceV1().ResourceClaims("ns").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, device := range claim.Status.Devices {
		text := device.Driver + "/" + device.Device
		for _, condition := range device.Conditions {
			text += fmt.Sprintf(" %s=%s(%s)", condition.Type, condition.Status, condition.Reason)
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

// soon is time for what is due at once.
func soon() {
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

func TestClaimsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		options := gpuNodes(2, 2)
		options.Kinds[0].Script = []inventory.SimulatedEvent{
			{At: metav1.Duration{Duration: 2 * time.Minute}, Node: "node-1", Device: "gpu-0", Fail: &inventory.SimulatedFailure{Reason: "Ecc", Message: "2 bits"}},
			{At: metav1.Duration{Duration: 3 * time.Minute}, Node: "node-1", Device: "gpu-0", Remove: true},
			{At: metav1.Duration{Duration: 4 * time.Minute}, Node: "node-1", Device: "gpu-0", Add: true},
		}
		run(t, client, options, func(*fleet.Fleet) { // after a minute
			addClaim(t, client, "one", []string{"a", "b"}, "node-1/gpu-0")
			addPod(t, client, "a", "node-1", "one")
			addPod(t, client, "b", "node-1", "one")
			expect := func(want string) {
				t.Helper()
				soon()
				if got := devicesOf(t, client, "one"); got != want {
					t.Errorf("status.devices is %q, want %q", got, want)
				}
			}
			const well = "gpu.example.com/gpu-0 Ready=True(Prepared) Healthy=True(Healthy)"
			expect(well)
			if a, b := phaseOf(t, client, "a"), phaseOf(t, client, "b"); a != corev1.PodRunning || b != corev1.PodRunning {
				t.Errorf("pods are %s and %s", a, b)
			}
			time.Sleep(time.Minute)
			expect("gpu.example.com/gpu-0 Ready=True(Prepared) Healthy=False(Ecc)")
			time.Sleep(time.Minute)
			expect("gpu.example.com/gpu-0 Ready=True(Prepared) Healthy=Unknown(DeviceGone)")
			time.Sleep(time.Minute)
			expect(well)
			addClaim(t, client, "two", []string{"c"}, "node-1/gpu-0")
			for i, want := range []string{well, ""} {
				if err := client.CoreV1().Pods("ns").Delete(t.Context(), []string{"a", "b"}[i], metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				expect(want)
				if i > 0 {
					continue
				}
				// The other pod of the claim has the device.
				addPod(t, client, "c", "node-1", "two")
				soon()
				if phase := phaseOf(t, client, "c"); phase == corev1.PodRunning {
					t.Errorf("the next pod is %s too early", phase)
				}
			}
			// The device is free again.
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if phase := phaseOf(t, client, "c"); phase != corev1.PodRunning {
				t.Errorf("the next pod is %s", phase)
			}
			// Each is written once, that of the other claim, too.
			if patches := requests(client)["patch resourceclaims"]; patches != 6 {
				t.Errorf("%d requests, want 6", patches)
			}
		})
	})
}

// TestPodsWithoutTheirDevices has claims with which a pod cannot run.
func TestPodsWithoutTheirDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		options := gpuNodes(2, 2)
		options.Kinds = append(options.Kinds, inventory.SimulatedNodes{Name: "shared", SimulatedDevices: inventory.SimulatedDevices{
			Groups: []inventory.SimulatedGroup{{Driver: driver, Name: "nic", Count: 1, Shares: 4}},
		}})
		run(t, client, options, func(*fleet.Fleet) {
			addClaim(t, client, "first", []string{"first"}, "node-0/gpu-0", "node-0/gpu-1")
			addClaim(t, client, "taken", []string{"taken"}, "node-0/gpu-1")
			addClaim(t, client, "elsewhere", []string{"elsewhere"}, "node-1/gpu-1")
			addClaim(t, client, "nothing", []string{"nothing"}, "node-0/gpu-7")
			addClaim(t, client, "others", []string{"first"}, "node-1/gpu-0")
			addClaim(t, client, "shared-1", []string{"shared-1"}, "shared/nic-0")
			addClaim(t, client, "shared-2", []string{"shared-2"}, "shared/nic-0")
			for pod, node := range map[string]string{"first": "node-0", "shared-1": "shared", "shared-2": "shared"} {
				addPod(t, client, pod, node, pod)
			}
			soon()
			for _, pod := range []string{"taken", "elsewhere", "nothing"} {
				addPod(t, client, pod, "node-0", pod)
			}
			addPod(t, client, "others", "node-1", "others")
			addPod(t, client, "none", "node-1", "none")
			soon()
			for pod, want := range map[string]string{
				"first": "", "shared-1": "", "shared-2": "",
				"taken":     "claim ns/taken: device gpu.example.com/node-0/gpu-1: another claim has it: ns/first",
				"elsewhere": "claim ns/elsewhere: device gpu.example.com/node-1/gpu-1: node node-0 does not have it",
				"nothing":   "claim ns/nothing: device gpu.example.com/node-0/gpu-7: node node-0 does not have it",
				"others":    "claim ns/others: not reserved for pod ns/others",
				"none":      `claim ns/none: resourceclaims.resource.k8s.io "none" not found`,
			} {
				got, err := client.CoreV1().Pods("ns").Get(t.Context(), pod, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if want == "" && got.Status.Phase != corev1.PodRunning || want != "" && (got.Status.Phase != corev1.PodPending || !strings.Contains(got.Status.Message, want)) {
					t.Errorf("pod %s is %s: %s", pod, got.Status.Phase, got.Status.Message)
				}
			}
			events, _ := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
			if !slices.ContainsFunc(events.Items, func(event corev1.Event) bool {
				return event.Reason == "FailedPrepareDynamicResources" && event.InvolvedObject.Name == "taken"
			}) {
				t.Error("no Event says what is wrong")
			}
			// The pod that waits runs when the device is free.
			if err := client.CoreV1().Pods("ns").Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Second)
			synctest.Wait()
			if phase := phaseOf(t, client, "taken"); phase != corev1.PodRunning {
				t.Errorf("the pod that waited is %s", phase)
			}
		})
	})
}

func TestClaimsAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		options := gpuNodes(1, 1)
		options.IgnoreClaims = true
		run(t, client, options, func(*fleet.Fleet) {
			addPod(t, client, "a", "node-0", "none")
			soon()
			if phase := phaseOf(t, client, "a"); phase != corev1.PodRunning {
				t.Errorf("the pod is %s", phase)
			}
			if got := requests(client); got["get resourceclaims"]+got["patch resourceclaims"] > 0 {
				t.Errorf("requests %v", got)
			}
		})
	})
}

// TestPodsOfAnEarlierRun go on, with their claims, though they must not be restarted.
func TestPodsOfAnEarlierRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		run(t, client, gpuNodes(1, 2), func(*fleet.Fleet) {
			addClaim(t, client, "a", []string{"a"}, "node-0/gpu-0")
			addPodWith(t, client, "a", "node-0", func(pod *corev1.Pod) {
				pod.Annotations = map[string]string{simulated.AnnotationRunFor: "5m", simulated.AnnotationExitCode: "3"}
			}, "a")
			soon()
			if phase := phaseOf(t, client, "a"); phase != corev1.PodRunning {
				t.Fatalf("the pod is %s", phase)
			}
			time.Sleep(2 * time.Minute)
		})
		before := devicesOf(t, client, "a")
		client.ClearActions()
		run(t, client, gpuNodes(1, 2), func(*fleet.Fleet) { // for another minute
			if phase := phaseOf(t, client, "a"); phase != corev1.PodRunning {
				t.Errorf("the pod is %s", phase)
			}
			if got := requests(client); got["patch resourceclaims"] > 0 || devicesOf(t, client, "a") != before {
				t.Errorf("status.devices is %q, before %q, requests %v", devicesOf(t, client, "a"), before, got)
			}
			addClaim(t, client, "b", []string{"b"}, "node-0/gpu-0")
			addPod(t, client, "b", "node-0", "b")
			soon()
			if phase := phaseOf(t, client, "b"); phase != corev1.PodPending {
				t.Errorf("a pod with the same device is %s", phase)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if phase := phaseOf(t, client, "a"); phase != corev1.PodRunning {
				t.Errorf("the pod is %s before its time", phase)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if phase := phaseOf(t, client, "a"); phase != corev1.PodFailed {
				t.Errorf("the pod is %s after five minutes", phase)
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if phase := phaseOf(t, client, "b"); phase != corev1.PodRunning {
				t.Errorf("the pod that waited is %s", phase)
			}
		})
	})
}

// TestAdminAccess: a claim for administration shares a device with the one that has it, and does not free it.
func TestAdminAccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		run(t, client, gpuNodes(1, 1), func(*fleet.Fleet) {
			addClaim(t, client, "user", []string{"user"}, "node-0/gpu-0")
			addClaim(t, client, "admin", []string{"admin"}, "node-0/gpu-0")
			addClaim(t, client, "next", []string{"next"}, "node-0/gpu-0")
			admin, err := client.ResourceV1().ResourceClaims("ns").Get(t.Context(), "admin", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			admin.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
			if _, err := client.ResourceV1().ResourceClaims("ns").Update(t.Context(), admin, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			for _, pod := range []string{"user", "admin"} {
				addPod(t, client, pod, "node-0", pod)
				soon()
				if phase := phaseOf(t, client, pod); phase != corev1.PodRunning {
					t.Errorf("pod %s is %s", pod, phase)
				}
			}
			if err := client.CoreV1().Pods("ns").Delete(t.Context(), "admin", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			addPod(t, client, "next", "node-0", "next")
			soon()
			if phase := phaseOf(t, client, "next"); phase == corev1.PodRunning {
				t.Errorf("the device of a pod that runs is given to another one, which is %s", phase)
			}
		})
	})
}

// TestAPodThatIsRefused has no device.
func TestAPodThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		run(t, client, gpuNodes(1, 1), func(*fleet.Fleet) {
			addClaim(t, client, "bad", []string{"bad"}, "node-0/gpu-0")
			addClaim(t, client, "good", []string{"good"}, "node-0/gpu-0")
			addPodWith(t, client, "bad", "node-0", func(pod *corev1.Pod) {
				pod.Annotations = map[string]string{simulated.AnnotationRunFor: "long"}
			}, "bad")
			soon()
			addPod(t, client, "good", "node-0", "good")
			soon()
			if bad, good := phaseOf(t, client, "bad"), phaseOf(t, client, "good"); bad != corev1.PodFailed || good != corev1.PodRunning {
				t.Errorf("the pod that is refused is %s, the other one is %s", bad, good)
			}
		})
	})
}

// TestReportsThatFail are tried some times, and not for ever.
func TestReportsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		client.PrependReactor("patch", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewInternalError(errors.New("always"))
		})
		run(t, client, gpuNodes(1, 1), func(*fleet.Fleet) {
			addClaim(t, client, "a", []string{"a"}, "node-0/gpu-0")
			addPod(t, client, "a", "node-0", "a")
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			tried := requests(client)["patch resourceclaims"]
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if again := requests(client)["patch resourceclaims"]; tried < 2 || again != tried {
				t.Errorf("%d attempts, and %d ten minutes later", tried, again)
			}
		})
	})
}
