// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podstatus computes the status of a pod from the states of its containers, as kubelet
// does.
package podstatus

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Waiting returns the status of a container that has not started, or waits for its restart.
func Waiting(container *corev1.Container, restarts int32, reason string) corev1.ContainerStatus {
	status := of(container, restarts)
	status.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason}
	return status
}

// BackOff returns the status of a container that ended, and waits for its restart for pause. As with
// kubelet, RestartCount counts a restart when it has happened.
func BackOff(pod *corev1.Pod, container *corev1.Container, ended *corev1.ContainerStatus, pause time.Duration) corev1.ContainerStatus {
	status := Waiting(container, ended.RestartCount, "CrashLoopBackOff")
	status.State.Waiting.Message = fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", pause, container.Name, nameOf(pod))
	status.ContainerID, status.LastTerminationState = ended.ContainerID, ended.State
	return status
}

// BackOffEvent returns the message of the Event BackOff, which kubelet records for such a container.
func BackOffEvent(pod *corev1.Pod, container *corev1.Container) string {
	return fmt.Sprintf("Back-off restarting failed container %s in pod %s", container.Name, nameOf(pod))
}

// nameOf returns the name of a pod as kubelet writes it in messages.
func nameOf(pod *corev1.Pod) string {
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}

// NextRestarts returns the RestartCount of a container when it starts next, given its last status.
func NextRestarts(last *corev1.ContainerStatus) int32 {
	if last.State.Waiting != nil && last.LastTerminationState.Terminated == nil {
		return last.RestartCount // it has not started yet
	}
	return last.RestartCount + 1
}

// Running returns the status of a running and ready container.
func Running(container *corev1.Container, restarts int32, since metav1.Time) corev1.ContainerStatus {
	status := of(container, restarts)
	status.State.Running = &corev1.ContainerStateRunning{StartedAt: since}
	status.Ready, status.Started = true, ptr.To(true)
	return status
}

// Ended returns the status of a container that has terminated, with an exit code and, if not 0, the
// number of the signal.
func Ended(container *corev1.Container, restarts int32, exitCode, signal int32, began, ended metav1.Time) corev1.ContainerStatus {
	status := of(container, restarts)
	reason := "Completed"
	if exitCode != 0 {
		reason = "Error"
	}
	status.State.Terminated = &corev1.ContainerStateTerminated{
		ExitCode: exitCode, Signal: signal, Reason: reason, StartedAt: began, FinishedAt: ended,
	}
	return status
}

// maxTerminationMessages is how many bytes the messages of a pod's containers that ended may have together.
const maxTerminationMessages = 12 << 10

// TerminationMessage returns what the status of a container has of its termination message. Each container of a
// pod has the same share of what kubelet allows.
func TerminationMessage(pod *corev1.Pod, message string) string {
	containers := len(pod.Spec.InitContainers) + len(pod.Spec.Containers) + len(pod.Spec.EphemeralContainers)
	return strings.ToValidUTF8(message[:min(len(message), maxTerminationMessages/max(1, containers))], "")
}

func of(container *corev1.Container, restarts int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: container.Name, Image: container.Image, RestartCount: restarts, Started: ptr.To(false)}
}

// Restarts tells whether the pod's restart policy restarts a container after this exit code.
func Restarts(pod *corev1.Pod, exitCode int32) bool {
	return pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || pod.Spec.RestartPolicy == "" ||
		pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure && exitCode != 0
}

// IsSidecar tells whether an init container is a sidecar, which has the restart policy Always.
func IsSidecar(container *corev1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// FirstReason returns the reason of the Waiting state of the pod's containers before the first
// start.
func FirstReason(pod *corev1.Pod) string {
	if len(pod.Spec.InitContainers) > 0 {
		return "PodInitializing"
	}
	return "ContainerCreating"
}

// The exit code of a process that SIGKILL ended, and the signal's number.
const exitKilled, signalKill = 137, 9

// Killed returns the status of a container whose end was not observed, given its last status.
// failure says why its supervisor failed, or is empty.
func Killed(container *corev1.Container, last *corev1.ContainerStatus, now metav1.Time, failure string) corev1.ContainerStatus {
	if last.State.Terminated != nil {
		return *last
	}
	began := now
	if last.State.Running != nil {
		began = last.State.Running.StartedAt
	}
	status := Ended(container, last.RestartCount, exitKilled, signalKill, began, now)
	status.ContainerID, status.LastTerminationState = last.ContainerID, last.LastTerminationState
	if failure != "" {
		status.State.Terminated.Reason, status.State.Terminated.Message = "StartError", failure
	}
	return status
}

// Of returns the status of a pod with these statuses of containers. over says that none of them
// will be restarted, and that nothing is left of the pod. As with kubelet, the conditions tell that
// the pod ended when its last container has, and the phase tells it when it is over.
func Of(pod *corev1.Pod, since metav1.Time, inits, containers []corev1.ContainerStatus, over bool, now metav1.Time) corev1.PodStatus {
	end := phase(pod, inits, containers, over || haveEnded(pod, inits, containers))
	status := corev1.PodStatus{
		Phase: end, StartTime: &since,
		InitContainerStatuses: slices.Clone(inits), ContainerStatuses: slices.Clone(containers),
	}
	if isEnd(end) && !over {
		status.Phase = cmp.Or(pod.Status.Phase, corev1.PodPending)
	}
	kinds := []corev1.PodCondition{initialized(pod, inits, containers, end), {Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, namespaces(over)}
	ready := readiness(pod, inits, containers, end)
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		ready.Type = kind
		kinds = append(kinds, ready)
	}
	for _, each := range kinds {
		status.Conditions = append(status.Conditions, condition(pod, each, now))
	}
	slices.SortFunc(status.Conditions, func(a, b corev1.PodCondition) int { return cmp.Compare(a.Type, b.Type) })
	return status
}

// Fail changes the status of a pod that fails for this reason, whatever its containers say. While it
// is not over, only its conditions say so.
func Fail(pod *corev1.Pod, status *corev1.PodStatus, reason, message string, over bool, now metav1.Time) {
	for i := range status.Conditions {
		c := corev1.PodCondition{Type: status.Conditions[i].Type, Status: corev1.ConditionFalse, Reason: reasonFailed}
		switch {
		case c.Type == corev1.PodReady || c.Type == corev1.ContainersReady:
			status.Conditions[i] = condition(pod, c, now)
		case status.Conditions[i].Reason == reasonCompleted:
			status.Conditions[i].Reason = ""
		}
	}
	if over {
		status.Phase, status.Reason, status.Message = corev1.PodFailed, reason, message
	}
}

// Reasons of the conditions of a pod that ended. They are kubelet's.
const (
	reasonCompleted = "PodCompleted"
	reasonFailed    = "PodFailed"
)

func isEnd(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// haveEnded tells whether the statuses of containers say that the pod goes no further: no container
// runs, and none is to be started.
func haveEnded(pod *corev1.Pod, inits, containers []corev1.ContainerStatus) bool {
	stopped := false // an init container failed, and those after it do not start
	for i := range inits {
		ended := inits[i].State.Terminated
		switch {
		case inits[i].State.Running != nil:
			return false
		case stopped || i < len(pod.Spec.InitContainers) && IsSidecar(&pod.Spec.InitContainers[i]):
		case ended == nil:
			return false
		case ended.ExitCode != 0:
			stopped = pod.Spec.RestartPolicy == corev1.RestartPolicyNever
			if !stopped {
				return false
			}
		}
	}
	return stopped || len(containers) > 0 && !slices.ContainsFunc(containers, func(c corev1.ContainerStatus) bool {
		return c.State.Terminated == nil || Restarts(pod, c.State.Terminated.ExitCode)
	})
}

// namespaces returns the condition that says whether containers can be started in the pod.
func namespaces(over bool) corev1.PodCondition {
	if over {
		return corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, Reason: "PodSandboxNotReady", Message: "the pod has ended"}
	}
	return corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}
}

// initialized returns the condition Initialized, with kubelet's reason and message.
func initialized(pod *corev1.Pod, inits, containers []corev1.ContainerStatus, phase corev1.PodPhase) corev1.PodCondition {
	out := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	if phase == corev1.PodSucceeded {
		out.Reason = reasonCompleted
		return out
	}
	var incomplete []string
	for i := range inits {
		if !isComplete(pod, i, &inits[i]) {
			incomplete = append(incomplete, inits[i].Name)
		}
	}
	if len(incomplete) > 0 && !slices.ContainsFunc(containers, began) {
		out.Status, out.Reason = corev1.ConditionFalse, "ContainersNotInitialized"
		out.Message = fmt.Sprintf("containers with incomplete status: %s", incomplete)
	}
	return out
}

// isComplete tells whether an init container no longer blocks those after it.
func isComplete(pod *corev1.Pod, i int, status *corev1.ContainerStatus) bool {
	if i < len(pod.Spec.InitContainers) && IsSidecar(&pod.Spec.InitContainers[i]) {
		return ptr.Deref(status.Started, false)
	}
	return status.State.Terminated != nil && status.State.Terminated.ExitCode == 0
}

// readiness returns the condition ContainersReady, with kubelet's reason and message. Ready has the
// same.
func readiness(pod *corev1.Pod, inits, containers []corev1.ContainerStatus, phase corev1.PodPhase) corev1.PodCondition {
	out := corev1.PodCondition{Status: corev1.ConditionFalse}
	var unready []string
	for i := range inits {
		if i < len(pod.Spec.InitContainers) && IsSidecar(&pod.Spec.InitContainers[i]) && !inits[i].Ready {
			unready = append(unready, inits[i].Name)
		}
	}
	for i := range containers {
		if !containers[i].Ready {
			unready = append(unready, containers[i].Name)
		}
	}
	switch {
	case phase == corev1.PodSucceeded:
		out.Reason = reasonCompleted
	case phase == corev1.PodFailed:
		out.Reason = reasonFailed
	case len(unready) > 0:
		out.Reason, out.Message = "ContainersNotReady", fmt.Sprintf("containers with unready status: %s", unready)
	case len(containers) > 0:
		out.Status = corev1.ConditionTrue
	}
	return out
}

func began(c corev1.ContainerStatus) bool {
	return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
}

func phase(pod *corev1.Pod, inits, containers []corev1.ContainerStatus, over bool) corev1.PodPhase {
	failed := func(c corev1.ContainerStatus) bool {
		return c.State.Terminated != nil && c.State.Terminated.ExitCode != 0
	}
	neverRan := func(c corev1.ContainerStatus) bool { return c.State.Terminated == nil }
	initFailed := false
	for i := range inits {
		sidecar := i < len(pod.Spec.InitContainers) && IsSidecar(&pod.Spec.InitContainers[i])
		initFailed = initFailed || !sidecar && failed(inits[i])
	}
	switch {
	case over && (initFailed || slices.ContainsFunc(containers, failed) || slices.ContainsFunc(containers, neverRan)):
		return corev1.PodFailed
	case over:
		return corev1.PodSucceeded
	case slices.ContainsFunc(containers, began):
		return corev1.PodRunning
	}
	return corev1.PodPending
}

// condition completes a condition. It keeps the time of the last transition if the status is
// unchanged.
func condition(pod *corev1.Pod, now corev1.PodCondition, at metav1.Time) corev1.PodCondition {
	now.LastTransitionTime = at
	for _, before := range pod.Status.Conditions {
		if before.Type == now.Type && before.Status == now.Status {
			now.LastTransitionTime = before.LastTransitionTime
		}
	}
	return now
}
