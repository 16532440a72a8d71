// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/gang"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
)

// A group of which the devices have something in common is planned in its first attempt, and gets nothing without a plan: one pod
// after the other would have devices of any value.

// What is said of the pods of such a group that has no plan.
const (
	nothingInCommon = "the pods of the group get no devices that have in common what the group asks for"
	maybeInCommon   = "not decided: the pods of the group may get devices that have in common what the group asks for, the search was given up"
)

// whyNoCommonDevices says why pods of a group get no devices although their own claims may fit, nothing if they may have them.
func (a *attempt) whyNoCommonDevices() string {
	switch {
	case a.common.IsZero():
		return ""
	case a.plan != nil && a.plan.Verdict == allocator.NotDecided:
		return maybeInCommon
	}
	return nothingInCommon
}

// errNoGang is why constraints across pods cannot be met.
const errNoGang = "annotation " + extension.Annotation + ": the PodGroup has no gang policy, so its pods are not placed together"

// readCommon finds out what the devices of a group have in common, and which claims the pods have that are placed.
func (g *Groups) readCommon(ctx context.Context, cycle *Cycle, name types.NamespacedName) {
	a := cycle.attempt
	object, err := g.Handle.SnapshotSharedLister().PodGroups().Get(name.Namespace, name.Name)
	if err != nil {
		return // there is no plan for it
	}
	setInvalid := func(why string) {
		a.invalid, cycle.invalid, cycle.invalidReason = why, object, why
	}
	if a.common, err = extension.GroupOf(object.Annotations); err != nil {
		setInvalid(err.Error())
	}
	if a.common.IsZero() {
		return
	}
	if object.Spec.SchedulingPolicy.Gang == nil {
		setInvalid(errNoGang)
		return
	}
	claims, complete := g.claimsOfGroup(klog.FromContext(ctx), name)
	if err := a.common.Check(claims); err != nil && complete {
		setInvalid(err.Error())
		return
	}
	for _, claim := range claims {
		if claim.Status.Allocation != nil {
			a.held = append(a.held, claim)
		}
	}
	a.group = g.ensurePlannedGroup(name, object.UID)
}

// claimsOfGroup lists the claims of all pods of a group, with allocations that are in flight. It is not complete if some are not
// known yet.
func (g *Groups) claimsOfGroup(logger klog.Logger, name types.NamespacedName) (claims []*resourceapi.ResourceClaim, complete bool) {
	live, err := g.Handle.PodGroupManager().PodGroupStates().Get(name.Namespace, name.Name)
	if err != nil {
		return nil, false
	}
	pods, seen := live.ScheduledPods(), make(map[types.UID]bool)
	for _, pod := range live.UnscheduledPods() {
		pods = append(pods, pod)
	}
	complete = true
	for _, pod := range pods {
		own, err := g.Source.Resolve(pod)
		if err != nil {
			logger.V(5).Info("The claims of a pod of the group are not known", "member", klog.KObj(pod), "err", err)
			complete = false
			continue
		}
		for _, claim := range append(own, g.extendedOf(pod)...) {
			if seen[claim.Object.UID] {
				continue
			}
			seen[claim.Object.UID] = true
			object := *claim.Object
			if object.Status.Allocation == nil {
				object.Status.Allocation = g.Source.DRA.ResourceClaims().GetPendingAllocation(object.UID)
			}
			claims = append(claims, &object)
		}
	}
	return claims, complete
}

// extendedOf is the claim for the extended resources of a pod that is placed.
func (g *Groups) extendedOf(pod *corev1.Pod) []*claimstate.Claim {
	status := pod.Status.ExtendedResourceClaimStatus
	if status == nil {
		return nil
	}
	object, err := g.Source.DRA.ResourceClaims().Get(pod.Namespace, status.ResourceClaimName)
	if err != nil {
		return nil // it has gone, and so will the pod
	}
	return []*claimstate.Claim{{Object: object, Extended: true}}
}

// inDomain names the values that the devices of a plan have in common.
func inDomain(domains []gang.Domain) string {
	if len(domains) == 0 {
		return ""
	}
	names := make([]string, len(domains))
	for i, domain := range domains {
		names[i] = domain.String()
	}
	return " with " + strings.Join(names, " and ")
}
