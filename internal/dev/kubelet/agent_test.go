// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/dray-project/dray/internal/dev/kubelet"
)

var one = apiresource.MustParse("1")

// environment is what the container runtimes' own library makes of CDI devices.
func environment(t *testing.T, folder string, devices []string) []string {
	t.Helper()
	cache, err := cdi.NewCache(cdi.WithSpecDirs(folder), cdi.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	spec := &specs.Spec{}
	if missing, err := cache.InjectDevices(spec, devices...); err != nil {
		t.Fatalf("CDI devices %q: %v, not there: %q", devices, err, missing)
	}
	if spec.Process == nil {
		return nil
	}
	return spec.Process.Env
}

// TestClaim prepares a claim, has it prepared once more by kubelets and agents that were
// restarted, and unprepares it. A kubelet that was restarted asks the driver again.
func TestClaim(t *testing.T) {
	m := newMachine(t)
	pod := m.podWithClaim("a", m.claim("a", "gpu-1", "gpu-2"))
	var first []string
	prepare := func(what string) {
		t.Helper()
		devices := m.mustAdmit(pod).Containers["main"].CDI
		if first == nil {
			first = devices
		}
		if !slices.Equal(devices, first) {
			t.Errorf("%s: CDI devices %q, first %q", what, devices, first)
		}
		got := slices.Sorted(slices.Values(environment(t, m.cdi, devices)))
		if want := []string{"GPU_gpu-1=given", "GPU_gpu-2=given"}; !slices.Equal(got, want) {
			t.Errorf("%s: CDI devices %q give the environment %q, want %q", what, devices, got, want)
		}
	}
	prepare("the first time")
	prepare("the same kubelet")
	m.restartKubelet()
	m.tellPods()
	m.awaitCapacity(2)
	prepare("after a restart of kubelet")
	if err := m.agent.Kill(); err != nil {
		t.Fatal(err)
	}
	m.startAgent()
	m.restartKubelet()
	m.tellPods()
	m.awaitCapacity(2)
	prepare("after a SIGKILL of the agent and a restart of kubelet")
	m.reboot()
	m.awaitCapacity(2)
	prepare("after a reboot")
	m.end(pod)
	m.awaitCapacity(4)
	if files, err := os.ReadDir(m.cdi); err != nil || slices.ContainsFunc(files, func(f os.DirEntry) bool { return strings.HasPrefix(f.Name(), driver+"_") }) {
		t.Errorf("left of the claim: %v, %v", files, err)
	}
}

// TestPlugin has a device of the plugin keep claims away until its pod has ended, and a
// claim keep kubelet away.
func TestPlugin(t *testing.T) {
	m := newMachine(t)
	pod := m.pod("plugged", func(pod *corev1.Pod) { withPlugin(&pod.Spec.Containers[0]) })
	device := plugged(t, m.mustAdmit(pod), "main")
	rival := m.podWithClaim("rival", m.claim("rival", device))
	m.mustRefuse(rival, device, time.Second)
	m.end(pod)
	m.mustAdmit(rival)
	m.awaitCapacity(3)
}

// TestInitContainer has the only container with a device be one that kubelet does not report
// over its pod-resources socket. The device stays with its pod for longer than any grace.
func TestInitContainer(t *testing.T) {
	m := newMachine(t)
	pod := m.pod("init", func(pod *corev1.Pod) {
		pod.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "example.com/first"}}
		withPlugin(&pod.Spec.InitContainers[0])
	})
	device := plugged(t, m.mustAdmit(pod), "first")
	rival := m.podWithClaim("rival", m.claim("rival", device))
	m.mustRefuse(rival, device, 75*time.Second)
	m.end(pod)
	m.mustAdmit(rival)
}

// TestKubeletThatKnowsNoPods has kubelet be restarted while a pod has a device of the plugin.
// Until it knows its pods, it reports none.
func TestKubeletThatKnowsNoPods(t *testing.T) {
	m := newMachine(t)
	pod := m.pod("plugged", func(pod *corev1.Pod) { withPlugin(&pod.Spec.Containers[0]) })
	device := plugged(t, m.mustAdmit(pod), "main")
	rival := m.podWithClaim("rival", m.claim("rival", device))
	m.restartKubelet()
	m.mustRefuse(rival, device, 75*time.Second)
	m.tellPods()
	m.awaitCapacity(4)
	m.end(pod)
	m.mustAdmit(rival)
}

// TestExtendedResourceOfClaim has the scheduler serve a pod's extended resource by a claim, though it has the name of the
// plugin's. While the pod runs, devices of the plugin become free.
func TestExtendedResourceOfClaim(t *testing.T) {
	m := newMachine(t)
	claim := m.claim("extended", "gpu-3")
	pod := m.podWithClaim("extended", claim, func(pod *corev1.Pod) {
		pod.Spec.ResourceClaims = nil
		withPlugin(&pod.Spec.Containers[0])
	})
	pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
		ResourceClaimName: claim.Name, RequestMappings: []corev1.ContainerExtendedResourceRequest{{ContainerName: "main", ResourceName: resource, RequestName: "gpu"}},
	}
	pod, err := client.CoreV1().Pods(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.mustAdmit(pod).Containers["main"]; len(got.Devices) > 0 {
		t.Errorf("kubelet allocates %q of the plugin, too", got.Devices)
	}
	other := m.pod("plugged", func(pod *corev1.Pod) { withPlugin(&pod.Spec.Containers[0]) })
	device := plugged(t, m.mustAdmit(other), "main")
	m.end(other)
	m.mustAdmit(m.podWithClaim("next", m.claim("next", device)))
}

// TestReboot has a device of the plugin stay with its pod over a reboot, with what a container gets, and claims stay away.
func TestReboot(t *testing.T) {
	m := newMachine(t)
	pod := m.pod("plugged", func(pod *corev1.Pod) { withPlugin(&pod.Spec.Containers[0]) })
	gets := func() []string {
		t.Helper()
		main := m.mustAdmit(pod).Containers["main"]
		out := slices.Concat(main.Devices[resource], main.CDI, environment(t, m.cdi, main.CDI))
		for name, value := range main.Environment {
			out = append(out, name+"="+value)
		}
		slices.Sort(out)
		return out
	}
	device, before := plugged(t, m.mustAdmit(pod), "main"), gets()
	m.reboot()
	m.awaitCapacity(4)
	if after := gets(); !slices.Equal(before, after) || !slices.Contains(after, "GPU_"+device+"=given") {
		t.Errorf("after the reboot, the container gets %q, before %q", after, before)
	}
	rival := m.podWithClaim("rival", m.claim("rival", device))
	m.mustRefuse(rival, device, time.Second)
	m.end(pod)
	m.mustAdmit(rival)
}

// TestKilledAgent has the agent be killed right after it handed out a device of the plugin.
func TestKilledAgent(t *testing.T) {
	m := newMachine(t)
	pod := m.pod("plugged", func(pod *corev1.Pod) { withPlugin(&pod.Spec.Containers[0]) })
	device := plugged(t, m.mustAdmit(pod), "main")
	if err := m.agent.Kill(); err != nil {
		t.Fatal(err)
	}
	m.startAgent()
	rival := m.podWithClaim("rival", m.claim("rival", device))
	m.mustRefuse(rival, device, 30*time.Second)
	m.end(pod)
	m.mustAdmit(rival)
}

// TestHealth has kubelet show in the pod's status that a device of its claim failed.
func TestHealth(t *testing.T) {
	m := newMachine(t)
	pod := m.podWithClaim("a", m.claim("a", "gpu-3"))
	m.mustAdmit(pod)
	failing := hardware + "script:\n- at: 0s\n  device: gpu-3\n  fail: {reason: DoubleBitEccError, message: an error}\n"
	if err := os.WriteFile(m.dir+"/hardware.yaml", []byte(failing), 0o600); err != nil {
		t.Fatal(err)
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main"}}
	m.until("the pod's status says that gpu-3 is unhealthy", func() bool {
		for _, status := range m.tell(kubelet.Request{Operation: kubelet.Health, Pod: pod}).Statuses {
			for _, resource := range status.AllocatedResourcesStatus {
				for _, health := range resource.Resources {
					if health.Health == corev1.ResourceHealthStatusUnhealthy {
						return true
					}
				}
			}
		}
		return false
	})
}
