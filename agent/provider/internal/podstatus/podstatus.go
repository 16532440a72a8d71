// Package podstatus makes the status of a pod from the states of its containers, as
// kubelet does.
package podstatus

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Waiting is the status of a container that did not begin, or not again.
func Waiting(container *corev1.Container, restarts int32, reason string) corev1.ContainerStatus {
	status := of(container, restarts)
	status.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason}
	return status
}

// Running is the status of a container that runs, and is ready.
func Running(container *corev1.Container, restarts int32, since metav1.Time) corev1.ContainerStatus {
	status := of(container, restarts)
	status.State.Running = &corev1.ContainerStateRunning{StartedAt: since}
	status.Ready, status.Started = true, ptr.To(true)
	return status
}

// Ended is the status of a container that has ended with an exit code, or by a signal
// if that is not 0.
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

func of(container *corev1.Container, restarts int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: container.Name, Image: container.Image, RestartCount: restarts, Started: ptr.To(false)}
}

// Restarts tells whether a container of the pod that ended is to run again.
func Restarts(pod *corev1.Pod, exitCode int32) bool {
	return pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || pod.Spec.RestartPolicy == "" ||
		pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure && exitCode != 0
}

// Of is the status of a pod whose init containers and containers have these. The pod is
// over when none of them will run again.
func Of(pod *corev1.Pod, since metav1.Time, inits, containers []corev1.ContainerStatus, over bool, now metav1.Time) corev1.PodStatus {
	status := corev1.PodStatus{
		Phase: phase(inits, containers, over), StartTime: &since,
		InitContainerStatuses: slices.Clone(inits), ContainerStatuses: slices.Clone(containers),
	}
	ready := !over && len(containers) > 0 && !slices.ContainsFunc(containers, func(c corev1.ContainerStatus) bool { return !c.Ready })
	initialized := !slices.ContainsFunc(inits, func(c corev1.ContainerStatus) bool {
		return c.State.Terminated == nil || c.State.Terminated.ExitCode != 0
	})
	for kind, is := range map[corev1.PodConditionType]bool{
		corev1.PodInitialized: initialized, corev1.ContainersReady: ready, corev1.PodReady: ready,
	} {
		status.Conditions = append(status.Conditions, condition(pod, kind, is, now))
	}
	slices.SortFunc(status.Conditions, func(a, b corev1.PodCondition) int {
		if a.Type < b.Type {
			return -1
		}
		return 1
	})
	return status
}

func phase(inits, containers []corev1.ContainerStatus, over bool) corev1.PodPhase {
	failed := func(c corev1.ContainerStatus) bool {
		return c.State.Terminated != nil && c.State.Terminated.ExitCode != 0
	}
	began := func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil || c.State.Terminated != nil || c.RestartCount > 0
	}
	switch {
	case over && (slices.ContainsFunc(inits, failed) || slices.ContainsFunc(containers, failed)):
		return corev1.PodFailed
	case over:
		return corev1.PodSucceeded
	case slices.ContainsFunc(containers, began):
		return corev1.PodRunning
	}
	return corev1.PodPending
}

// condition keeps the time of the last transition if there was none.
func condition(pod *corev1.Pod, kind corev1.PodConditionType, is bool, now metav1.Time) corev1.PodCondition {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, LastTransitionTime: now}
	if is {
		c.Status = corev1.ConditionTrue
	}
	for _, before := range pod.Status.Conditions {
		if before.Type == kind && before.Status == c.Status {
			c.LastTransitionTime = before.LastTransitionTime
		}
	}
	return c
}
