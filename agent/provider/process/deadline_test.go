// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// TestShorterGrace: a second deletion may shorten the grace, and does not prolong it.
func TestShorterGrace(t *testing.T) {
	for _, graces := range [][]int64{{3600, 1}, {1, 3600}} {
		f := newFixture(t, nil)
		pod := shell(`trap 'echo told' TERM; echo began; while :; do sleep 0.1; done`, corev1.RestartPolicyNever)
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](7200)
		f.run(t, pod)
		f.awaitLog(t, "began")
		for i, grace := range graces {
			pod.DeletionGracePeriodSeconds = &grace
			if err := f.DeletePod(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			if i == 0 && grace > 1 { // else it may be killed before it says so
				f.awaitLog(t, "told")
			}
		}
		if ended := f.await(t, "the end", isPhase(corev1.PodFailed)).ContainerStatuses[0].State.Terminated; ended.Signal != 9 {
			t.Errorf("ended with %v", ended)
		}
		f.expectNoProcess(t)
	}
}

// TestActiveDeadline: a pod has so long, counted from its start.
func TestActiveDeadline(t *testing.T) {
	f := newFixture(t, nil)
	pod := shell("trap '' TERM; echo began; while :; do sleep 0.1; done", corev1.RestartPolicyAlways)
	pod.Spec.ActiveDeadlineSeconds, pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](3600), ptr.To[int64](1)
	f.run(t, pod)
	f.awaitLog(t, "began")
	f.NotifyPods(t.Context(), func(pod *corev1.Pod) {
		if left := f.processes(t); pod.Status.Phase == corev1.PodFailed && len(left) > 0 {
			t.Errorf("failed, and the processes %v run", left)
		}
		f.reports <- pod
	})
	pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](1) // it may be shortened
	if err := f.UpdatePod(t.Context(), pod.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	status := f.await(t, "the end", isPhase(corev1.PodFailed))
	if status.Reason != "DeadlineExceeded" || status.Message == "" || status.ContainerStatuses[0].State.Terminated == nil {
		t.Errorf("status %v", status)
	}
	f.expectNoProcess(t)
}

// TestActiveDeadlineWithGrace: a pod whose time is over is told to end, and has its grace period for that.
func TestActiveDeadlineWithGrace(t *testing.T) {
	f, recorder := withEvents(t)
	pod := shell(`trap 'echo told to end; sleep 0.5; echo done; exit 4' TERM; echo began; while :; do sleep 0.1; done`, corev1.RestartPolicyAlways)
	pod.Spec.ActiveDeadlineSeconds, pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](3600), ptr.To[int64](3600)
	f.run(t, pod)
	f.awaitLog(t, "began") // and listens to the signal from now on, however slow the machine is
	pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](1)
	if err := f.UpdatePod(t.Context(), pod.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	f.await(t, "a pod that fails, and runs", func(s *corev1.PodStatus) bool {
		ready := conditionOf(s, corev1.PodReady)
		return s.Phase == corev1.PodRunning && s.ContainerStatuses[0].State.Running != nil && ready.Status == corev1.ConditionFalse && ready.Reason == "PodFailed"
	})
	status := f.await(t, "the end", isPhase(corev1.PodFailed))
	if ended := status.ContainerStatuses[0].State.Terminated; status.Reason != "DeadlineExceeded" || ended == nil || ended.ExitCode != 4 {
		t.Errorf("status %v", status)
	}
	awaitEvent(t, recorder, "Normal DeadlineExceeded Pod was active on the node longer than the specified deadline")
	f.awaitLog(t, "stdout F done")
	f.expectNoProcess(t)
}
