// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	priority "k8s.io/component-helpers/scheduling/corev1"

	"github.com/dray-project/dray/schedplugin/internal/claimstate"
)

// abandoned reports whether nobody needs an allocated claim any more. Lasting says that this holds as long as
// neither the claim nor the pods on nodes change. A claim without consumers that is not being deleted keeps
// its devices for the next pod. InPreBind reports whether a pod is in PreBind, and whether it was preempted there: it gives up
// its claims then, and stays.
func abandoned(pods *podIndex, known claimstate.Index, claim *resourceapi.ResourceClaim, inPreBind func(types.UID) (is, preempted bool)) (abandoned, lasting bool) {
	if claim.Status.Allocation == nil { // in flight, without consumers yet
		owner := metav1.GetControllerOfNoCopy(claim)
		if owner == nil {
			return false, false
		}
		_, preempted := inPreBind(owner.UID)
		return preempted, false
	}
	if len(claim.Status.ReservedFor) == 0 {
		return claim.DeletionTimestamp != nil, true
	}
	lasting = true
	for i := range claim.Status.ReservedFor {
		consumer := &claim.Status.ReservedFor[i]
		pod := pods.Pod(consumer.UID)
		binds, preempted := inPreBind(consumer.UID)
		switch {
		case preempted:
			lasting = false
			continue
		case pod != nil && claimstate.Leaves(pod):
			continue
		case pod != nil && pod.DeletionTimestamp == nil:
			return false, !binds
		}
		lasting = false
		if !known.Left(claim.Namespace, consumer) {
			return false, false
		}
	}
	return true, lasting
}

// allConsumersBelow reports whether all consumers of a claim are pods of lower priority. A claim in flight
// has no consumers yet: then its owner counts, if it has one.
func allConsumersBelow(pods *podIndex, claim *resourceapi.ResourceClaim, least int32) bool {
	evicts := func(uid types.UID) bool {
		pod := pods.Pod(uid)
		return pod != nil && priority.PodPriority(pod) < least
	}
	if len(claim.Status.ReservedFor) == 0 {
		owner := metav1.GetControllerOfNoCopy(claim)
		return owner != nil && evicts(owner.UID)
	}
	for i := range claim.Status.ReservedFor {
		if !evicts(claim.Status.ReservedFor[i].UID) {
			return false
		}
	}
	return true
}
