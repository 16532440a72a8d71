// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// withClaim is a pod that has a claim of its own and runs until it is deleted. It shows its environment as it was given: shells drop
// variables with a dash.
const withClaim = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %[1]s}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  restartPolicy: Always
  resourceClaims: [{name: gpu, resourceClaimName: %[1]s}]
  containers:
  - {name: main, command: [sh, -c, "tr '\\0' '\\n' < /proc/1/environ; sleep inf"], resources: {claims: [{name: gpu}]}}
`

// withDevice is a pod that has a device of the plugin and runs until it is deleted.
const withDevice = `
apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  restartPolicy: Always
  containers:
  - {name: main, command: [sh, -c, "tr '\\0' '\\n' < /proc/1/environ; sleep inf"], resources: {limits: {gpu.example.com/gpu: 1}}}
`

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func restartAgent(t *testing.T) {
	t.Helper()
	must(t, agent.Kill())
	must(t, startAgent())
}

func restartKubelet(t *testing.T) {
	t.Helper()
	must(t, node.Kubelet.Kill())
	must(t, node.StartKubelet())
}

func restartContainerd(t *testing.T) {
	t.Helper()
	must(t, node.Containerd.Kill())
	must(t, node.StartContainerd(t.Context()))
}

// mustGo starts pods of both kinds, and returns the device that each has.
func (s *space) mustGo(texts map[string]string) map[string]string {
	s.Helper()
	devices := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		s.create(fmt.Sprintf(texts[name], name))
		s.await(name, corev1.PodRunning)
		until(s.T, name+" has a device", func() bool { return len(s.environment(name, "main")) == 1 })
		devices[name] = s.environment(name, "main")[0]
	}
	return devices
}

// TestRestarts has agent, kubelet and containerd be killed and started again under pods with devices. The pods run on, and
// new ones get other devices.
func TestRestarts(t *testing.T) {
	steps := map[string][]func(*testing.T){
		"agent": {restartAgent}, "kubelet": {restartKubelet}, "containerd": {restartContainerd},
		"all": {restartContainerd, restartKubelet, restartAgent},
	}
	s := newSpace(t)
	kept := s.mustGo(map[string]string{"claimed": withClaim, "plugged": withDevice})
	for _, name := range []string{"agent", "kubelet", "containerd", "all"} {
		for _, step := range steps[name] {
			step(t)
		}
		must(t, node.AwaitReady(t.Context()))
		began := time.Now()
		fresh := s.mustGo(map[string]string{"claimed-" + name: withClaim, "plugged-" + name: withDevice})
		t.Logf("%s: %v after %v", name, fresh, time.Since(began))
		used := map[string]bool{}
		for _, devices := range []map[string]string{kept, fresh} {
			for pod, device := range devices {
				if used[device] {
					t.Errorf("after %s: %s has %s, as another: %v, %v", name, pod, device, kept, fresh)
				}
				used[device] = true
			}
		}
		for _, pod := range []string{"claimed", "plugged"} {
			if restarts := s.pod(pod).Status.ContainerStatuses[0].RestartCount; restarts != 0 {
				t.Errorf("after %s: %s was started again %d times", name, pod, restarts)
			}
		}
		for pod := range fresh {
			s.delete(pod)
		}
		awaitFree(t, 3)
	}
	s.delete("claimed")
	s.delete("plugged")
	s.mustLeaveNothing()
}

// TestDriverAfterPod has a pod wait for a driver that is not there.
func TestDriverAfterPod(t *testing.T) {
	s := newSpace(t)
	must(t, agent.Stop())
	s.create(fmt.Sprintf(withClaim, "early"))
	time.Sleep(10 * time.Second)
	must(t, startAgent())
	began := time.Now()
	s.await("early", corev1.PodRunning)
	t.Logf("it runs %v after the agent was started", time.Since(began))
	s.delete("early")
	s.mustLeaveNothing()
}

// TestNewDriver has a pod be created as soon as the devices of a new driver are published. Kubelet knows the driver then: it
// would try again after more than a minute only.
func TestNewDriver(t *testing.T) {
	s := newSpace(t)
	for i := range 3 {
		must(t, agent.Stop())
		must(t, client.ResourceV1().ResourceSlices().DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
		must(t, startAgent())
		awaitFree(t, gpus)
		name := fmt.Sprintf("early-%d", i)
		s.create(fmt.Sprintf(withClaim, name))
		began := time.Now()
		s.await(name, corev1.PodRunning)
		if took := time.Since(began); took > 45*time.Second {
			t.Errorf("%s runs %v after it was created", name, took)
		}
		s.delete(name)
		s.mustLeaveNothing()
	}
}

// TestDriverAway has a pod be deleted while its driver is away.
func TestDriverAway(t *testing.T) {
	s := newSpace(t)
	s.mustGo(map[string]string{"claimed": withClaim, "plugged": withDevice})
	must(t, agent.Kill())
	for _, name := range []string{"claimed", "plugged"} {
		must(t, client.CoreV1().Pods(s.name).Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	time.Sleep(10 * time.Second)
	must(t, startAgent())
	began := time.Now()
	s.mustLeaveNothing()
	t.Logf("nothing is left %v after the agent was started", time.Since(began))
}

// TestForce has pods that ignore SIGTERM be deleted by force, and others get their devices.
func TestForce(t *testing.T) {
	s := newSpace(t)
	s.mustGo(map[string]string{"claimed": withClaim, "plugged": withDevice})
	for _, name := range []string{"claimed", "plugged"} {
		must(t, client.CoreV1().Pods(s.name).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}))
	}
	must(t, client.ResourceV1().ResourceClaims(s.name).Delete(t.Context(), "claimed", metav1.DeleteOptions{}))
	s.create(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: all}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, allocationMode: All}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: all}
spec:
  restartPolicy: Never
  resourceClaims: [{name: gpu, resourceClaimName: all}]
  containers:
  - {name: main, command: [env], resources: {claims: [{name: gpu}]}}
`)
	began := time.Now()
	s.await("all", corev1.PodSucceeded)
	t.Logf("all devices are free after %v", time.Since(began))
	s.mustHave("all", "main", "GPU_gpu-0", "GPU_gpu-1", "GPU_gpu-2", "GPU_gpu-3")
	s.delete("all")
	s.mustLeaveNothing()
}

// TestStaticPod has a static pod have a device of the plugin.
func TestStaticPod(t *testing.T) {
	s := newSpace(t)
	path := filepath.Join(node.Folder(), "static", "pod.yaml")
	text := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "static", "namespace": "` + s.name + `"}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main",
		"image": "busybox:1", "imagePullPolicy": "Never", "command": ["sh", "-c", "tr '\\0' '\\n' < /proc/1/environ; sleep inf"], "resources": {"limits": {"gpu.example.com/gpu": "1"}}}]}}`
	must(t, os.WriteFile(path, []byte(text), 0o600))
	t.Cleanup(func() { _ = os.Remove(path) }) // or the test did
	s.await("static-"+node.Name(), corev1.PodRunning)
	var device []string
	until(t, "the static pod has a device", func() bool {
		device = s.environment("static-"+node.Name(), "main")
		return len(device) == 1
	})
	restartAgent(t)
	restartKubelet(t)
	must(t, node.AwaitReady(t.Context()))
	awaitFree(t, 3)
	rivals := s.mustGo(map[string]string{"a": withClaim, "b": withClaim, "c": withClaim})
	for _, has := range rivals {
		if has == device[0] {
			t.Errorf("the static pod has %s, and others have %v", device, rivals)
		}
	}
	must(t, os.Remove(path))
	for name := range rivals {
		s.delete(name)
	}
	s.mustLeaveNothing()
}

// awaitFree waits until that many GPUs are published without a taint.
func awaitFree(t *testing.T, want int) {
	t.Helper()
	until(t, fmt.Sprintf("%d GPUs are free", want), func() bool {
		list, err := client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.driver=" + driver})
		have := 0
		for _, slice := range list.Items {
			for _, device := range slice.Spec.Devices {
				if len(device.Taints) == 0 {
					have++
				}
			}
		}
		return err == nil && have == want
	})
}
