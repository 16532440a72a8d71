// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
)

// probed is a pod with a volume, whose container has probes that look at it.
func probed(t *testing.T, script string, policy corev1.RestartPolicy) (pod *corev1.Pod, exec func(command string) *corev1.Probe) {
	t.Helper()
	pod = shell(script, policy)
	path := withVolume(t, pod, corev1.EmptyDirVolumeSource{})
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "V", Value: path}}
	return pod, func(command string) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/sh", "-c", strings.ReplaceAll(command, "$V", "$(V)")}}},
			PeriodSeconds: 1, TimeoutSeconds: 60, SuccessThreshold: 1, FailureThreshold: 1,
		}
	}
}

// withEvents has a fixture record events.
func withEvents(t *testing.T) (*fixture, *record.FakeRecorder) {
	t.Helper()
	f := newFixture(t, nil)
	f.Close(0)
	recorder := record.NewFakeRecorder(1000)
	f.options.Recorder = recorder
	f.open(t)
	return f, recorder
}

func awaitEvent(t *testing.T, recorder *record.FakeRecorder, want string) {
	t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case got := <-recorder.Events:
			if strings.HasPrefix(got, want) {
				return
			}
		case <-deadline:
			t.Fatalf("no event %q", want)
		}
	}
}

// TestReadiness: a container is ready as its probe says, and the pod as its containers are.
func TestReadiness(t *testing.T) {
	f, recorder := withEvents(t)
	pod, exec := probed(t, "until test -e $V/failed; do sleep 0.1; done; touch $V/ready; sleep 600", corev1.RestartPolicyNever)
	pod.Spec.Containers[0].ReadinessProbe = exec("id -u; test -e $V/ready || { touch $V/failed; exit 1; }")
	f.run(t, pod)
	ready := func(is corev1.ConditionStatus) func(*corev1.PodStatus) bool {
		return func(s *corev1.PodStatus) bool { return conditionOf(s, corev1.PodReady).Status == is }
	}
	status := f.await(t, "a pod that is not ready", ready(corev1.ConditionFalse))
	if is := conditionOf(status, corev1.ContainersReady); is.Reason != "ContainersNotReady" || is.Message != "containers with unready status: [main]" {
		t.Errorf("condition %v", is)
	}
	user := 65534
	if own := os.Geteuid(); own != 0 {
		user = own // which is all that processes can be
	}
	awaitEvent(t, recorder, fmt.Sprintf("Warning Unhealthy Readiness probe failed: %d\n", user))
	status = f.await(t, "a pod that is ready", ready(corev1.ConditionTrue))
	if is := status.ContainerStatuses[0]; !is.Ready || is.Started == nil || !*is.Started || is.RestartCount != 0 {
		t.Errorf("container %v", is)
	}
	if err := os.Remove(f.volumeFile(t, "ready")); err != nil {
		t.Fatal(err)
	}
	f.await(t, "a pod that is not ready any more", ready(corev1.ConditionFalse))
}

// TestProbesThatTakeTooLong: what a probe runs ends when its time is over. Else each period would leave some behind.
func TestProbesThatTakeTooLong(t *testing.T) {
	f, recorder := withEvents(t)
	pod, exec := probed(t, `until test "$(cat $V/asked 2>/dev/null | wc -l)" -ge 4; do sleep 0.1; done; echo asked often; sleep 600`, corev1.RestartPolicyNever)
	pod.Spec.Containers[0].ReadinessProbe = exec("echo asked >> $V/asked; sleep 98765")
	pod.Spec.Containers[0].ReadinessProbe.TimeoutSeconds = 1
	f.run(t, pod)
	f.awaitLog(t, "asked often")
	awaitEvent(t, recorder, "Warning Unhealthy Readiness probe failed: ")
	asking := 0
	for _, pid := range f.processes(t) {
		if arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.HasPrefix(string(arguments), "sleep\x0098765") {
			asking++
		}
	}
	if asking > 1 {
		t.Errorf("%d probes run at once", asking)
	}
}

// TestLiveness: a container that fails ends, and runs again.
func TestLiveness(t *testing.T) {
	f, recorder := withEvents(t)
	pod, exec := probed(t, "trap 'exit 7' TERM; touch $V/alive $V/began; while :; do sleep 0.1; done", corev1.RestartPolicyAlways)
	pod.Spec.Containers[0].LivenessProbe = exec("test ! -e $V/began || rm $V/alive")
	pod.Spec.Containers[0].LivenessProbe.FailureThreshold = 2
	f.run(t, pod)
	status := f.await(t, "a restart", func(s *corev1.PodStatus) bool {
		return s.ContainerStatuses[0].RestartCount == 1 && s.ContainerStatuses[0].State.Running != nil
	})
	if last := status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ExitCode != 7 {
		t.Errorf("it ended with %v", last)
	}
	awaitEvent(t, recorder, "Warning Unhealthy Liveness probe failed: ")
	awaitEvent(t, recorder, "Normal Killing Container main failed liveness probe, will be restarted")
}

// TestStartup: the other probes wait for it, and a container that does not start is killed after
// the probe's own grace.
func TestStartup(t *testing.T) {
	f, recorder := withEvents(t)
	pod, exec := probed(t, "trap '' TERM; while :; do sleep 0.1; done", corev1.RestartPolicyNever)
	main := &pod.Spec.Containers[0]
	main.StartupProbe, main.LivenessProbe, main.ReadinessProbe = exec("sleep 600"), exec("touch $V/too-early; false"), exec("true")
	main.StartupProbe.TimeoutSeconds, main.StartupProbe.FailureThreshold, main.StartupProbe.TerminationGracePeriodSeconds = 1, 2, ptr.To[int64](1)
	status := f.run(t, pod)
	if is := status.ContainerStatuses[0]; is.Ready || is.Started == nil || *is.Started {
		t.Errorf("container %v", is)
	}
	awaitEvent(t, recorder, "Warning Unhealthy Startup probe failed: command timed out: \"/bin/sh -c sleep 600\" timed out after 1s")
	awaitEvent(t, recorder, "Normal Killing Container main failed startup probe")
	if ended := f.await(t, "the end", isPhase(corev1.PodFailed)).ContainerStatuses[0].State.Terminated; ended.ExitCode != 137 {
		t.Errorf("ended with %v", ended)
	}
	f.expectNoProcess(t)
	for {
		select {
		case event := <-recorder.Events:
			if strings.Contains(event, "Liveness") || strings.Contains(event, "Readiness") {
				t.Errorf("event %s before the container started", event)
			}
			continue
		default:
		}
		break
	}
}

// TestStarted: the other probes begin when the startup probe has succeeded.
func TestStarted(t *testing.T) {
	f := newFixture(t, nil)
	pod, exec := probed(t, "sleep 0.5; touch $V/started; sleep 600", corev1.RestartPolicyNever)
	main := &pod.Spec.Containers[0]
	main.StartupProbe, main.LivenessProbe, main.ReadinessProbe = exec("test -e $V/started"), exec("test -e $V/started"), exec("true")
	main.StartupProbe.FailureThreshold = 60
	f.run(t, pod)
	status := f.await(t, "a container that is ready", func(s *corev1.PodStatus) bool { return s.ContainerStatuses[0].Ready })
	if is := status.ContainerStatuses[0]; is.Started == nil || !*is.Started || is.RestartCount != 0 {
		t.Errorf("container %v", is)
	}
}
