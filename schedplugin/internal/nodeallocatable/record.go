// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeallocatable

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

var errDiffers = errors.New("what the scheduler accounts for differs from what the devices take of the node")

// Record writes into the pod's status what the devices of an assumed pod take of its node. It reports whether
// they take anything.
func Record(ctx context.Context, client kubernetes.Interface, state fwk.CycleState, pod *corev1.Pod, node string) (bool, error) {
	taken := dynamicresources.ExtractPodNodeAllocatableResourceClaimStatus(klog.FromContext(ctx), state, node)
	if !equality.Semantic.DeepEqual(taken, pod.Status.NodeAllocatableResourceClaimStatuses) {
		return false, fmt.Errorf("pod %s: nodeAllocatableResourceClaimStatuses: %w", klog.KObj(pod), errDiffers)
	}
	if len(taken) == 0 {
		return false, nil
	}
	before, after := pod.Status.DeepCopy(), pod.Status.DeepCopy()
	before.NodeAllocatableResourceClaimStatuses = nil
	if err := schedutil.PatchPodStatus(ctx, client, pod.Name, pod.Namespace, before, after); err != nil {
		return false, fmt.Errorf("pod %s: update nodeAllocatableResourceClaimStatuses: %w", klog.KObj(pod), err)
	}
	return true, nil
}

// Clear removes what Record wrote. The UID in the patch protects a new pod of the same name.
func Clear(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"nodeAllocatableResourceClaimStatuses":[]}}`, pod.UID)
	if _, err := client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		klog.FromContext(ctx).Error(err, "Node-allocatable resources could not be removed from the status", "pod", klog.KObj(pod))
	}
}
