// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/klog/v2"
)

// notify stores the status of a pod that the provider reported, and queues it. A later report
// replaces it.
func (pc *PodController) notify(ctx context.Context, pod *corev1.Pod) {
	if pod == nil || ctx.Err() != nil {
		return
	}
	key := keyOf(pod)
	stored, err := pc.lookUp(ctx, key)
	if err != nil || stored == nil || isAnother(pod, stored) {
		klog.FromContext(ctx).V(2).Info("Status of a pod that is not in Kubernetes", "pod", key, "err", err)
		return
	}
	pc.StorePod(key, stored)
	known := pc.knownOf(stored)
	if known == nil {
		return // the pod was deleted meanwhile
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	if known.status != nil && equality.Semantic.DeepEqual(*known.status, pod.Status) {
		known.skipped = true
		return
	}
	known.status, known.skipped = pod.Status.DeepCopy(), false
	pc.SyncPodStatusFromProviderEnqueue(ctx, key)
}

// syncStatus writes the latest status that the provider reported for a pod.
func (pc *PodController) syncStatus(ctx context.Context, key string) error {
	pod, err := pc.lookUp(ctx, key)
	if err != nil {
		return err
	}
	if pod == nil {
		pc.known.Delete(key) // a report may arrive after the deletion
		return nil
	}
	known := pc.knownOf(pod)
	if known == nil {
		return nil
	}
	known.mu.Lock()
	status := known.status
	known.mu.Unlock()
	if status == nil || hasEnded(&pod.Status) {
		return nil
	}
	if err := pc.writeStatus(ctx, pod, status); err != nil {
		return err
	}
	if pod.DeletionTimestamp != nil && hasEnded(status) {
		pc.deletions.EnqueueAfter(ctx, deletionKey(pod), 0)
	}
	return nil
}

// writeStatus patches the status of a pod, and keeps fields of other writers. It sends nothing if
// nothing changes. It is no error if the pod is gone. The patch is made from the last status that was
// written if the informer has not seen that yet. Else it would lack what changes back.
func (pc *PodController) writeStatus(ctx context.Context, pod *corev1.Pod, status *corev1.PodStatus) error {
	known := pc.knownOf(pod)
	if known == nil { // it was deleted meanwhile
		known = new(knownPod)
	}
	known.writing.Lock()
	defer known.writing.Unlock()
	pod = known.latest(pod)
	patch, err := podStatusPatch(pod, withOthers(pod, status))
	if err != nil {
		return fmt.Errorf("pod %s: status: %w", keyOf(pod), err)
	}
	if patch == nil {
		return nil
	}
	written, err := pc.config.PodClient.Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case err == nil:
		known.written = written
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("pod %s: status: %w", keyOf(pod), err)
	}
	return nil
}

// podStatusPatch returns the patch, or nil if nothing changes. The patch contains the UID, so that
// it fails for a later pod of the same name.
func podStatusPatch(pod *corev1.Pod, status *corev1.PodStatus) ([]byte, error) {
	type version struct {
		Metadata map[string]types.UID `json:"metadata,omitempty"`
		Status   *corev1.PodStatus    `json:"status"`
	}
	before, err := json.Marshal(version{Status: &pod.Status})
	if err != nil {
		return nil, err
	}
	same, err := json.Marshal(version{Status: status})
	if err != nil || slices.Equal(before, same) {
		return nil, err
	}
	after, err := json.Marshal(version{map[string]types.UID{"uid": pod.UID}, status})
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{})
}

// nodeConditions are the conditions of a pod that its node writes. Others belong to the scheduler,
// to controllers, or to readiness gates.
var nodeConditions = []corev1.PodConditionType{
	corev1.PodInitialized, corev1.PodReadyToStartContainers, corev1.ContainersReady, corev1.PodReady,
	corev1.PodResizePending, corev1.PodResizeInProgress,
}

// withOthers returns the status with the fields of other writers, taken from the stored pod. It
// also keeps fields that do not change once set. Generations that the provider does not tell are those
// of the pod.
func withOthers(pod *corev1.Pod, status *corev1.PodStatus) *corev1.PodStatus {
	out := status.DeepCopy()
	old := &pod.Status
	if out.ObservedGeneration == 0 {
		out.ObservedGeneration = max(old.ObservedGeneration, pod.Generation)
	}
	for i := range out.Conditions {
		out.Conditions[i].ObservedGeneration = cmp.Or(out.Conditions[i].ObservedGeneration, out.ObservedGeneration)
	}
	for _, condition := range old.Conditions {
		given := slices.ContainsFunc(out.Conditions, func(c corev1.PodCondition) bool { return c.Type == condition.Type })
		if !given && !slices.Contains(nodeConditions, condition.Type) {
			out.Conditions = append(out.Conditions, condition)
		}
	}
	out.NominatedNodeName = old.NominatedNodeName
	out.ResourceClaimStatuses = old.ResourceClaimStatuses
	out.ExtendedResourceClaimStatus = old.ExtendedResourceClaimStatus
	out.NodeAllocatableResourceClaimStatuses = old.NodeAllocatableResourceClaimStatuses
	if out.QOSClass == "" {
		out.QOSClass = old.QOSClass
	}
	if out.StartTime == nil {
		out.StartTime = old.StartTime
	}
	return out
}

// exitCodeUnknown is the exit code of containers whose end was not observed. Kubelet uses the same.
const exitCodeUnknown = 137

// lostStatus returns the status of a pod that the provider lost.
func lostStatus(pod *corev1.Pod) corev1.PodStatus {
	return endedStatus(pod, corev1.PodFailed, corev1.ContainerStateTerminated{
		ExitCode: exitCodeUnknown, Reason: reasonNotFound, Message: "the provider does not have the pod any more",
	})
}

// terminatedStatus returns the status of a pod that was deleted from a provider without NotifyPods,
// which reports no exit codes.
func terminatedStatus(pod *corev1.Pod) corev1.PodStatus {
	return endedStatus(pod, corev1.PodSucceeded, corev1.ContainerStateTerminated{
		Reason: "Terminated", Message: "the provider does not tell with which exit code",
	})
}

// endedStatus returns the status of a pod whose containers have all terminated. It does not change
// those that had before.
func endedStatus(pod *corev1.Pod, phase corev1.PodPhase, how corev1.ContainerStateTerminated) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.Phase, status.Reason, status.Message = phase, how.Reason, how.Message
	how.FinishedAt = metav1.Now()
	for _, containers := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range containers {
			if containers[i].State.Terminated != nil {
				continue
			}
			terminated := how
			terminated.ContainerID = containers[i].ContainerID
			if running := containers[i].State.Running; running != nil {
				terminated.StartedAt = running.StartedAt
			}
			containers[i].State = corev1.ContainerState{Terminated: &terminated}
			containers[i].Ready = false
		}
	}
	for i, condition := range status.Conditions {
		if condition.Status == corev1.ConditionTrue && (condition.Type == corev1.PodReady || condition.Type == corev1.ContainersReady) {
			status.Conditions[i].Status = corev1.ConditionFalse
			status.Conditions[i].Reason = how.Reason
			status.Conditions[i].LastTransitionTime = how.FinishedAt
		}
	}
	return status
}
