// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package wake

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/dray-project/dray/allocator/extension"
)

// GroupEvent is an update of a PodGroup, with the hint for what it asks of the devices of its pods.
func GroupEvent() fwk.ClusterEventWithHint {
	return fwk.ClusterEventWithHint{
		Event:          fwk.ClusterEvent{Resource: fwk.PodGroup, ActionType: fwk.Update},
		QueueingHintFn: afterGroupUpdate,
	}
}

func afterGroupUpdate(logger klog.Logger, pod *corev1.Pod, oldObject, newObject any) (fwk.QueueingHint, error) {
	before, after, err := schedutil.As[*schedulingapi.PodGroup](oldObject, newObject)
	if err != nil {
		return fwk.Queue, fmt.Errorf("event of a PodGroup: %w", err)
	}
	group := pod.Spec.SchedulingGroup
	if group == nil || group.PodGroupName == nil || before == nil || after == nil || after.Namespace != pod.Namespace || after.Name != *group.PodGroupName ||
		before.Annotations[extension.Annotation] == after.Annotations[extension.Annotation] {
		return fwk.QueueSkip, nil
	}
	logger.V(5).Info("The PodGroup asks for something else", "pod", klog.KObj(pod), "podGroup", klog.KObj(after))
	return fwk.Queue, nil
}
