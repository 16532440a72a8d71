// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/agent/node/errdefs"
)

const (
	groups   = "/sys/fs/cgroup"
	podGroup = groups + "/dray-pods/poduid"
)

// hasController tells what the machine gives, as the kernel says it.
func hasController(name string) bool {
	given, err := os.ReadFile(filepath.Join(groups, "cgroup.controllers"))
	return err == nil && slices.Contains(strings.Fields(string(given)), name) && os.Geteuid() == 0
}

func limited(script string, policy corev1.RestartPolicy, name corev1.ResourceName, limit string) *corev1.Pod {
	pod := shell(script, policy)
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{name: resource.MustParse(limit)}
	return pod
}

// isRefused is true where a pod cannot have its limit, and was refused for that.
func (f *fixture) isRefused(t *testing.T, pod *corev1.Pod, controller string) bool {
	t.Helper()
	if hasController(controller) {
		return false
	}
	err := f.CreatePod(t.Context(), pod.DeepCopy())
	if want := fmt.Sprintf("resources.limits: %s: is not limited on this machine: ", controller); !errdefs.IsInvalidInput(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("without the controller %s: got %v", controller, err)
	}
	f.expectNothing(t)
	return true
}

func readGroup(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(podGroup, path))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// groupOf is the group of a process.
func groupOf(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if path, v2 := strings.CutPrefix(strings.TrimSpace(line), "0::"); v2 {
			return groups + path
		}
	}
	return ""
}

func expectNoGroup(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(podGroup); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the group of the pod is left: %v", err)
	}
}

// TestCPULimit: a process that wants more CPU than it may have waits, and so do its children.
func TestCPULimit(t *testing.T) {
	f := newFixture(t, nil)
	pod := limited("(while :; do :; done) & while :; do :; done", corev1.RestartPolicyNever, corev1.ResourceCPU, "100m")
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	if f.isRefused(t, pod, "cpu") {
		return
	}
	status := f.run(t, pod)
	command, supervisor := commandOf(t, status), f.processes(t)[0]
	for pid, want := range map[int]string{supervisor: "/supervisor", initOf(t, status): "/supervisor", command: "/containers/main"} {
		if got := groupOf(t, pid); got != podGroup+want {
			t.Errorf("process %d is in %s, want %s", pid, got, want)
		}
	}
	for file, want := range map[string]string{"containers/main/cpu.max": "10000 100000", "containers/cpu.max": "max 100000", "containers/main/cpu.weight": "17", "cpu.weight": "17"} {
		if got := readGroup(t, file); got != want {
			t.Errorf("%s has %q, want %q", file, got, want)
		}
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		stat := make(map[string]int)
		for line := range strings.Lines(readGroup(t, "containers/main/cpu.stat")) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			stat[name], _ = strconv.Atoi(value)
		}
		if stat["nr_throttled"] >= 5 {
			if used, allowed := stat["usage_usec"], 20_000*(stat["nr_periods"]+1); used > allowed {
				t.Errorf("used %d µs of the CPU in %d periods", used, stat["nr_periods"])
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is not held up: %v", stat)
		}
	}
	pod.DeletionGracePeriodSeconds = new(int64)
	if err := f.DeletePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	f.expectNothing(t)
	expectNoGroup(t)
}

// greedy wants all memory.
const greedy = "echo began; x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done"

// TestMemoryLimit: a container that is out of memory ends as a whole, and its status says so. It
// is the limit of the container, or that of the pod.
func TestMemoryLimit(t *testing.T) {
	for _, ofPod := range []bool{false, true} {
		f := newFixture(t, nil)
		pod := limited("setsid sleep 98756 & "+greedy, corev1.RestartPolicyOnFailure, corev1.ResourceMemory, "20Mi")
		if ofPod {
			pod.Spec.Resources = &corev1.ResourceRequirements{Limits: pod.Spec.Containers[0].Resources.Limits}
			pod.Spec.Containers[0].Resources.Limits = nil
		}
		if f.isRefused(t, pod, "memory") {
			continue
		}
		f.run(t, pod)
		status := f.await(t, "a restart", func(s *corev1.PodStatus) bool { return s.ContainerStatuses[0].RestartCount > 0 })
		if ended := status.ContainerStatuses[0].LastTerminationState.Terminated; ended == nil || ended.Reason != "OOMKilled" || ended.ExitCode != 137 {
			t.Errorf("of the pod %v: ended with %v", ofPod, ended)
		}
		limit := map[bool]string{false: "containers/main/memory.max", true: "containers/memory.max"}[ofPod]
		if got := readGroup(t, limit); got != "20971520" {
			t.Errorf("%s has %s", limit, got)
		}
		f.Close(0)
		f.expectNoProcess(t)
		if err := f.DeletePod(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		expectNoGroup(t)
	}
}

// TestGroupAfterKills: the next provider finds the group of a pod whose provider was killed, and
// it goes with the pod, also if the supervisor was killed.
func TestGroupAfterKills(t *testing.T) {
	for _, supervisorToo := range []bool{false, true} {
		pod := shell("setsid sleep 98755 & sleep 98754", corev1.RestartPolicyNever)
		if hasController("cpu") {
			pod = limited("setsid sleep 98755 & sleep 98754", corev1.RestartPolicyNever, corev1.ResourceCPU, "500m")
		}
		f := killed(t, pod)
		f.awaitBegun(t)
		processes := f.processes(t)
		if hasController("cpu") {
			if got := groupOf(t, processes[len(processes)-1]); got != podGroup+"/containers/main" {
				t.Errorf("a process of the pod is in %s", got)
			}
		}
		if supervisorToo {
			kill(t, processes[0])
			f.expectNoProcess(t)
		}
		f.open(t)
		if !supervisorToo {
			pod.DeletionGracePeriodSeconds = new(int64)
			if err := f.DeletePod(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}
		f.expectNothing(t)
		expectNoGroup(t)
		f.Close(0)
	}
}
