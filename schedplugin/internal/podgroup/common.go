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

// A PodGroup may ask that the devices of all its pods have an attribute in common. Such a group is planned in its first
// attempt, and gets no devices without a plan: pods scheduled one by one would get devices with any values.

// Reasons for pods of such a group that has no plan.
const (
	nothingInCommon = "the pods of the group get no devices that have in common what the group asks for"
	maybeInCommon   = "not decided: the pods of the group may get devices that have in common what the group asks for, the search was given up"
)

// whyNoCommonDevices says why pods of a group get no devices although their own claims may fit. It is empty if they may get them.
func (a *attempt) whyNoCommonDevices() string {
	switch {
	case a.common.IsZero():
		return ""
	case a.plan != nil && a.plan.Verdict == allocator.NotDecided:
		return maybeInCommon
	}
	return nothingInCommon
}

// errNoGang is the reason why a constraint across pods is refused.
const errNoGang = "annotation " + extension.Annotation + ": the PodGroup has no gang policy, so its pods are not placed together"

// readCommon reads from the group's annotation what the devices of its pods must have in common, and collects the allocated claims of its pods.
func (g *Groups) readCommon(ctx context.Context, cycle *Cycle, name types.NamespacedName) {
	a := cycle.attempt
	object, err := g.Handle.SnapshotSharedLister().PodGroups().Get(name.Namespace, name.Name)
	if err != nil {
		return // the group does not exist any more
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

// claimsOfGroup lists the claims of all pods of a group, with pending allocations. Complete is false if some
// claims do not exist yet.
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

// extendedOf returns the claim for the extended resources of a pod that is bound.
func (g *Groups) extendedOf(pod *corev1.Pod) []*claimstate.Claim {
	status := pod.Status.ExtendedResourceClaimStatus
	if status == nil {
		return nil
	}
	object, err := g.Source.DRA.ResourceClaims().Get(pod.Namespace, status.ResourceClaimName)
	if err != nil {
		return nil // the claim is deleted, as its pod will be
	}
	return []*claimstate.Claim{{Object: object, Extended: true}}
}

// inDomain lists the values that the devices of a plan have in common.
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
