// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var (
	startedAt = metav1.NewTime(time.Unix(1000, 0))
	endedAt   = metav1.NewTime(time.Unix(2000, 0))
	now       = metav1.NewTime(time.Unix(3000, 0))
	main      = &corev1.Container{Name: "main", Image: "example.com/main:1"}
	setup     = &corev1.Container{Name: "setup", Image: "example.com/setup:1"}
	proxy     = &corev1.Container{Name: "proxy", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}
)

// TestContainerStatus has all fields of a container's status in each state.
func TestContainerStatus(t *testing.T) {
	last := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}
	running := Running(main, 2, startedAt)
	running.ContainerID, running.LastTerminationState = "process://1", last
	crashed := Ended(main, 2, 1, 0, startedAt, endedAt)
	killed := corev1.ContainerStatus{
		Name: "main", Image: "example.com/main:1", RestartCount: 2, Started: ptr.To(false), ContainerID: "process://1", LastTerminationState: last,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Signal: 9, Reason: "Error", StartedAt: startedAt, FinishedAt: now}},
	}
	broken := *killed.DeepCopy()
	broken.State.Terminated.Reason, broken.State.Terminated.Message = "StartError", "no such program"
	waiting := Waiting(main, 1, "PodInitializing")
	for name, c := range map[string]struct{ got, want corev1.ContainerStatus }{
		"waiting": {waiting, corev1.ContainerStatus{
			Name: "main", Image: "example.com/main:1", RestartCount: 1, Started: ptr.To(false),
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}},
		}},
		"waits for its first restart": {crashing(main), corev1.ContainerStatus{
			Name: "main", Image: "example.com/main:1", Started: ptr.To(false), ContainerID: "process://1",
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 1m20s restarting failed container=main pod=a_ns(uid)"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", StartedAt: startedAt, FinishedAt: endedAt}},
		}},
		"running": {Running(main, 2, startedAt), corev1.ContainerStatus{
			Name: "main", Image: "example.com/main:1", RestartCount: 2, Started: ptr.To(true), Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: startedAt}},
		}},
		"completed": {Ended(main, 0, 0, 0, startedAt, endedAt), corev1.ContainerStatus{
			Name: "main", Image: "example.com/main:1", Started: ptr.To(false),
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: startedAt, FinishedAt: endedAt}},
		}},
		"failed": {Ended(main, 4, 143, 15, startedAt, endedAt), corev1.ContainerStatus{
			Name: "main", Image: "example.com/main:1", RestartCount: 4, Started: ptr.To(false),
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143, Signal: 15, Reason: "Error", StartedAt: startedAt, FinishedAt: endedAt}},
		}},
		"killed while it ran":             {Killed(main, &running, now, ""), killed},
		"killed as its supervisor failed": {Killed(main, &running, now, "no such program"), broken},
		"killed after its end":            {Killed(main, &crashed, now, "no such program"), crashed},
		"killed before its start": {Killed(main, &waiting, now, ""), corev1.ContainerStatus{
			Name: "main", Image: "example.com/main:1", RestartCount: 1, Started: ptr.To(false),
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Signal: 9, Reason: "Error", StartedAt: now, FinishedAt: now}},
		}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: want -, got +\n%s", name, diff)
		}
	}
}

// crashing is a container that waits for its first restart.
func crashing(container *corev1.Container) corev1.ContainerStatus {
	ended := Ended(container, 0, 1, 0, startedAt, endedAt)
	ended.ContainerID = "process://1"
	return BackOff(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "uid"}}, container, &ended, 80*time.Second)
}

func TestRestarts(t *testing.T) {
	for policy, want := range map[corev1.RestartPolicy][2]bool{ // after success and after a failure
		"":                            {true, true},
		corev1.RestartPolicyAlways:    {true, true},
		corev1.RestartPolicyOnFailure: {false, true},
		corev1.RestartPolicyNever:     {false, false},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: policy}}
		if got := [2]bool{Restarts(pod, 0), Restarts(pod, 1)}; got != want {
			t.Errorf("policy %q: got %v, want %v", policy, got, want)
		}
	}
	for name, c := range map[string]struct {
		container *corev1.Container
		sidecar   bool
	}{
		"no policy":         {setup, false},
		"the policy Always": {proxy, true},
		"the policy Never":  {&corev1.Container{RestartPolicy: ptr.To(corev1.ContainerRestartPolicyNever)}, false},
	} {
		if got := IsSidecar(c.container); got != c.sidecar {
			t.Errorf("%s: sidecar %v", name, got)
		}
	}
	if got := FirstReason(podOf(nil, main)); got != "ContainerCreating" {
		t.Errorf("without init containers: %s", got)
	}
	if got := FirstReason(podOf([]*corev1.Container{setup}, main)); got != "PodInitializing" {
		t.Errorf("with init containers: %s", got)
	}
}

func podOf(inits []*corev1.Container, containers ...*corev1.Container) *corev1.Pod {
	pod := &corev1.Pod{}
	for _, c := range inits {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, *c)
	}
	for _, c := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, *c)
	}
	return pod
}

// never gives a pod that was seen to run the restart policy Never.
func never(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.RestartPolicy, pod.Status.Phase = corev1.RestartPolicyNever, corev1.PodRunning
	return pod
}

// phases are pods with the statuses of their containers, and the phase and the conditions that
// kubelet reports for them.
var phases = map[string]struct {
	pod               *corev1.Pod
	inits, containers []corev1.ContainerStatus
	over              bool
	phase             corev1.PodPhase
	// initialized and ready are the status, the reason and the message of the conditions.
	initialized, ready [3]string
}{
	"a container waits": {
		pod: podOf(nil, main), containers: []corev1.ContainerStatus{Waiting(main, 0, "ContainerCreating")},
		phase: corev1.PodPending, initialized: [3]string{"True"}, ready: [3]string{"False", "ContainersNotReady", "containers with unready status: [main]"},
	},
	"an init container runs": {
		pod:   podOf([]*corev1.Container{setup}, main),
		inits: []corev1.ContainerStatus{Running(setup, 0, startedAt)}, containers: []corev1.ContainerStatus{Waiting(main, 0, "PodInitializing")},
		phase: corev1.PodPending, initialized: [3]string{"False", "ContainersNotInitialized", "containers with incomplete status: [setup]"},
		ready: [3]string{"False", "ContainersNotReady", "containers with unready status: [main]"},
	},
	"an init container failed and is restarted": {
		pod:   podOf([]*corev1.Container{setup}, main),
		inits: []corev1.ContainerStatus{Ended(setup, 0, 1, 0, startedAt, endedAt)}, containers: []corev1.ContainerStatus{Waiting(main, 0, "PodInitializing")},
		phase: corev1.PodPending, initialized: [3]string{"False", "ContainersNotInitialized", "containers with incomplete status: [setup]"},
		ready: [3]string{"False", "ContainersNotReady", "containers with unready status: [main]"},
	},
	"an init container is done": {
		pod:   podOf([]*corev1.Container{setup}, main),
		inits: []corev1.ContainerStatus{Ended(setup, 0, 0, 0, startedAt, endedAt)}, containers: []corev1.ContainerStatus{Waiting(main, 0, "PodInitializing")},
		phase: corev1.PodPending, initialized: [3]string{"True"}, ready: [3]string{"False", "ContainersNotReady", "containers with unready status: [main]"},
	},
	"a sidecar has not started": {
		pod:   podOf([]*corev1.Container{proxy}, main),
		inits: []corev1.ContainerStatus{Waiting(proxy, 0, "PodInitializing")}, containers: []corev1.ContainerStatus{Waiting(main, 0, "PodInitializing")},
		phase: corev1.PodPending, initialized: [3]string{"False", "ContainersNotInitialized", "containers with incomplete status: [proxy]"},
		ready: [3]string{"False", "ContainersNotReady", "containers with unready status: [proxy main]"},
	},
	"a sidecar runs": {
		pod:   podOf([]*corev1.Container{proxy}, main),
		inits: []corev1.ContainerStatus{Running(proxy, 0, startedAt)}, containers: []corev1.ContainerStatus{Waiting(main, 0, "PodInitializing")},
		phase: corev1.PodPending, initialized: [3]string{"True"}, ready: [3]string{"False", "ContainersNotReady", "containers with unready status: [main]"},
	},
	"a sidecar crashed beside a container that runs": {
		pod:   podOf([]*corev1.Container{proxy}, main),
		inits: []corev1.ContainerStatus{crashing(proxy)}, containers: []corev1.ContainerStatus{Running(main, 0, startedAt)},
		phase: corev1.PodRunning, initialized: [3]string{"True"}, ready: [3]string{"False", "ContainersNotReady", "containers with unready status: [proxy]"},
	},
	"all run": {
		pod: podOf(nil, main), containers: []corev1.ContainerStatus{Running(main, 0, startedAt)},
		phase: corev1.PodRunning, initialized: [3]string{"True"}, ready: [3]string{"True"},
	},
	"one of two runs": {
		pod: podOf(nil, main, setup), containers: []corev1.ContainerStatus{Running(main, 0, startedAt), Waiting(setup, 0, "ContainerCreating")},
		phase: corev1.PodRunning, initialized: [3]string{"True"}, ready: [3]string{"False", "ContainersNotReady", "containers with unready status: [setup]"},
	},
	"a container waits for its restart": {
		pod: podOf(nil, main), containers: []corev1.ContainerStatus{crashing(main)},
		phase: corev1.PodRunning, initialized: [3]string{"True"}, ready: [3]string{"False", "ContainersNotReady", "containers with unready status: [main]"},
	},
	"a container is to be restarted": {
		pod: podOf(nil, main), containers: []corev1.ContainerStatus{Ended(main, 0, 1, 0, startedAt, endedAt)},
		phase: corev1.PodRunning, initialized: [3]string{"True"}, ready: [3]string{"False", "ContainersNotReady", "containers with unready status: [main]"},
	},
	"all have ended, and the pod is not over": {
		pod:   never(podOf([]*corev1.Container{setup}, main)),
		inits: []corev1.ContainerStatus{Ended(setup, 0, 0, 0, startedAt, endedAt)}, containers: []corev1.ContainerStatus{Ended(main, 0, 0, 0, startedAt, endedAt)},
		phase: corev1.PodRunning, initialized: [3]string{"True", "PodCompleted"}, ready: [3]string{"False", "PodCompleted"},
	},
	"one has failed, one has not ended": {
		pod: never(podOf(nil, main, setup)), containers: []corev1.ContainerStatus{Ended(main, 0, 1, 0, startedAt, endedAt), Running(setup, 0, startedAt)},
		phase: corev1.PodRunning, initialized: [3]string{"True"}, ready: [3]string{"False", "ContainersNotReady", "containers with unready status: [main]"},
	},
	"all have ended, and the sidecar runs": {
		pod:   never(podOf([]*corev1.Container{proxy}, main)),
		inits: []corev1.ContainerStatus{Running(proxy, 0, startedAt)}, containers: []corev1.ContainerStatus{Ended(main, 0, 0, 0, startedAt, endedAt)},
		phase: corev1.PodRunning, initialized: [3]string{"True"}, ready: [3]string{"False", "ContainersNotReady", "containers with unready status: [main]"},
	},
	"an init container failed for good, and the pod is not over": {
		pod:   never(podOf([]*corev1.Container{setup, setup}, main)),
		inits: []corev1.ContainerStatus{Ended(setup, 0, 1, 0, startedAt, endedAt), Waiting(setup, 0, "PodInitializing")}, containers: []corev1.ContainerStatus{Waiting(main, 0, "PodInitializing")},
		phase: corev1.PodRunning, initialized: [3]string{"False", "ContainersNotInitialized", "containers with incomplete status: [setup setup]"}, ready: [3]string{"False", "PodFailed"},
	},
	"there are no containers": {
		pod: podOf(nil), phase: corev1.PodPending, initialized: [3]string{"True"}, ready: [3]string{"False"},
	},
	"all are done": {
		pod: podOf([]*corev1.Container{setup}, main), over: true,
		inits: []corev1.ContainerStatus{Ended(setup, 0, 0, 0, startedAt, endedAt)}, containers: []corev1.ContainerStatus{Ended(main, 0, 0, 0, startedAt, endedAt)},
		phase: corev1.PodSucceeded, initialized: [3]string{"True", "PodCompleted"}, ready: [3]string{"False", "PodCompleted"},
	},
	"all are done, and the sidecar was endedAt by a signal": {
		pod: podOf([]*corev1.Container{proxy}, main), over: true,
		inits: []corev1.ContainerStatus{Ended(proxy, 0, 143, 15, startedAt, endedAt)}, containers: []corev1.ContainerStatus{Ended(main, 0, 0, 0, startedAt, endedAt)},
		phase: corev1.PodSucceeded, initialized: [3]string{"True", "PodCompleted"}, ready: [3]string{"False", "PodCompleted"},
	},
	"one of two failed": {
		pod: podOf(nil, main, setup), over: true, containers: []corev1.ContainerStatus{Ended(main, 0, 0, 0, startedAt, endedAt), Ended(setup, 0, 2, 0, startedAt, endedAt)},
		phase: corev1.PodFailed, initialized: [3]string{"True"}, ready: [3]string{"False", "PodFailed"},
	},
	"an init container failed": {
		pod: podOf([]*corev1.Container{setup}, main), over: true,
		inits: []corev1.ContainerStatus{Ended(setup, 0, 1, 0, startedAt, endedAt)}, containers: []corev1.ContainerStatus{Waiting(main, 0, "PodInitializing")},
		phase: corev1.PodFailed, initialized: [3]string{"False", "ContainersNotInitialized", "containers with incomplete status: [setup]"}, ready: [3]string{"False", "PodFailed"},
	},
	"it ends before a container has started": {
		pod: podOf(nil, main), over: true, containers: []corev1.ContainerStatus{Waiting(main, 0, "ContainerCreating")},
		phase: corev1.PodFailed, initialized: [3]string{"True"}, ready: [3]string{"False", "PodFailed"},
	},
}

func TestPodStatus(t *testing.T) {
	for name, c := range phases {
		status := Of(c.pod, startedAt, c.inits, c.containers, c.over, now)
		if status.Phase != c.phase || status.StartTime == nil || !status.StartTime.Equal(&startedAt) {
			t.Errorf("%s: phase %s since %v, want %s since %v", name, status.Phase, status.StartTime, c.phase, startedAt)
		}
		if diff := cmp.Diff([][]corev1.ContainerStatus{c.inits, c.containers}, [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses}); diff != "" {
			t.Errorf("%s: containers: want -, got +\n%s", name, diff)
		}
		condition := func(kind corev1.PodConditionType, of [3]string) corev1.PodCondition {
			return corev1.PodCondition{Type: kind, Status: corev1.ConditionStatus(of[0]), Reason: of[1], Message: of[2], LastTransitionTime: now}
		}
		sandbox := [3]string{"True"}
		if c.over {
			sandbox = [3]string{"False", "PodSandboxNotReady", "the pod has ended"}
		}
		// The conditions are sorted by type.
		want := []corev1.PodCondition{
			condition(corev1.ContainersReady, c.ready), condition(corev1.PodInitialized, c.initialized),
			condition(corev1.PodReadyToStartContainers, sandbox), condition(corev1.PodScheduled, [3]string{"True"}), condition(corev1.PodReady, c.ready),
		}
		if diff := cmp.Diff(want, status.Conditions); diff != "" {
			t.Errorf("%s: conditions: want -, got +\n%s", name, diff)
		}
	}
}

// TestTransitionTime has a condition keep its time while its status stays, whatever its reason.
func TestTransitionTime(t *testing.T) {
	pod := podOf(nil, main)
	pod.Status = Of(pod, startedAt, nil, []corev1.ContainerStatus{Waiting(main, 0, "ContainerCreating")}, false, startedAt)
	times := func(containers []corev1.ContainerStatus, over bool) map[corev1.PodConditionType]metav1.Time {
		out := make(map[corev1.PodConditionType]metav1.Time)
		for _, c := range Of(pod, startedAt, nil, containers, over, now).Conditions {
			out[c.Type] = c.LastTransitionTime
		}
		return out
	}
	for name, c := range map[string]struct {
		containers []corev1.ContainerStatus
		over       bool
		ready      metav1.Time
	}{
		"it gets ready":          {[]corev1.ContainerStatus{Running(main, 0, startedAt)}, false, now},
		"it fails, never ready":  {[]corev1.ContainerStatus{Ended(main, 0, 1, 0, startedAt, endedAt)}, true, startedAt},
		"nothing happens to it":  {[]corev1.ContainerStatus{Waiting(main, 0, "ContainerCreating")}, false, startedAt},
		"it waits for a restart": {[]corev1.ContainerStatus{crashing(main)}, false, startedAt},
	} {
		want := map[corev1.PodConditionType]metav1.Time{
			corev1.PodInitialized: startedAt, corev1.PodScheduled: startedAt, corev1.ContainersReady: c.ready, corev1.PodReady: c.ready,
			corev1.PodReadyToStartContainers: map[bool]metav1.Time{false: startedAt, true: now}[c.over],
		}
		if diff := cmp.Diff(want, times(c.containers, c.over)); diff != "" {
			t.Errorf("%s: want -, got +\n%s", name, diff)
		}
	}
}

// TestFail has a pod whose time is over: while its container runs, and when that has ended well.
func TestFail(t *testing.T) {
	pod := podOf(nil, main)
	for over, container := range map[bool]corev1.ContainerStatus{false: Running(main, 0, startedAt), true: Ended(main, 0, 0, 0, startedAt, endedAt)} {
		status := Of(pod, startedAt, nil, []corev1.ContainerStatus{container}, over, now)
		phase := status.Phase
		Fail(pod, &status, "TooLate", "it took too long", over, now)
		want := corev1.PodStatus{Phase: phase}
		if over {
			want = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "TooLate", Message: "it took too long"}
		}
		if status.Phase != want.Phase || status.Reason != want.Reason || status.Message != want.Message {
			t.Errorf("over %v: %s %s %s, want %s %s %s", over, status.Phase, status.Reason, status.Message, want.Phase, want.Reason, want.Message)
		}
		for _, c := range status.Conditions {
			ready := c.Type == corev1.PodReady || c.Type == corev1.ContainersReady
			if failed := c.Status == corev1.ConditionFalse && c.Reason == "PodFailed"; ready != failed || c.Reason == "PodCompleted" {
				t.Errorf("over %v: condition %v", over, c)
			}
		}
	}
}

// TestTerminationMessage: containers have equal shares of 12 KiB, and no part of a character.
func TestTerminationMessage(t *testing.T) {
	long := strings.Repeat("é", 1024)
	for containers, want := range map[int]string{1: long, 6: long, 7: long[:1754], 0: long} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, containers)}}
		if got := TerminationMessage(pod, long); got != want {
			t.Errorf("%d containers: %d bytes, want %d", containers, len(got), len(want))
		}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: make([]corev1.Container, 8), Containers: make([]corev1.Container, 1)}}
	if got, want := TerminationMessage(pod, "x"+long), "x"+long[:1364]; got != want {
		t.Errorf("nine containers: %d bytes, want %d", len(got), len(want))
	}
}
