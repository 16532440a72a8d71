// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
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

// withoutCommon says why pods of a group get no devices although their own claims may fit, nothing if they may have them.
func (a *groupAttempt) withoutCommon() string {
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

// wrongGroup is a PodGroup of which the annotation cannot be understood, and why.
type wrongGroup struct {
	object *schedulingapi.PodGroup
	why    string
}

// readCommon finds out what the devices of a group have in common, and which claims the pods have that are placed.
func (p *Plugin) readCommon(ctx context.Context, group *groupCycle, name types.NamespacedName) {
	a := group.attempt
	object, err := p.handle.SnapshotSharedLister().PodGroups().Get(name.Namespace, name.Name)
	if err != nil {
		return // there is no plan for it
	}
	wrong := func(why string) {
		a.wrong, group.wrong = why, &wrongGroup{object, why}
	}
	if a.common, err = extension.GroupOf(object.Annotations); err != nil {
		wrong(err.Error())
	}
	if a.common.IsZero() {
		return
	}
	if object.Spec.SchedulingPolicy.Gang == nil {
		wrong(errNoGang)
		return
	}
	claims, complete := p.claimsOfGroup(klog.FromContext(ctx), name)
	if err := a.common.Check(claims); err != nil && complete {
		wrong(err.Error())
		return
	}
	for _, claim := range claims {
		if claim.Status.Allocation != nil {
			a.held = append(a.held, claim)
		}
	}
	a.mark = p.plans.ensure(name, object.UID)
}

// claimsOfGroup lists the claims of all pods of a group, with allocations that are in flight. It is not complete if some are not
// known yet.
func (p *Plugin) claimsOfGroup(logger klog.Logger, name types.NamespacedName) (claims []*resourceapi.ResourceClaim, complete bool) {
	live, err := p.handle.PodGroupManager().PodGroupStates().Get(name.Namespace, name.Name)
	if err != nil {
		return nil, false
	}
	pods, seen := live.ScheduledPods(), make(map[types.UID]bool)
	for _, pod := range live.UnscheduledPods() {
		pods = append(pods, pod)
	}
	complete = true
	for _, pod := range pods {
		own, err := p.source.Resolve(pod)
		if err != nil {
			logger.V(5).Info("The claims of a pod of the group are not known", "member", klog.KObj(pod), "err", err)
			complete = false
			continue
		}
		for _, claim := range append(own, p.extendedOf(pod)...) {
			if seen[claim.Object.UID] {
				continue
			}
			seen[claim.Object.UID] = true
			object := *claim.Object
			if object.Status.Allocation == nil {
				object.Status.Allocation = p.dra.ResourceClaims().GetPendingAllocation(object.UID)
			}
			claims = append(claims, &object)
		}
	}
	return claims, complete
}

// extendedOf is the claim for the extended resources of a pod that is placed.
func (p *Plugin) extendedOf(pod *corev1.Pod) []*claimstate.Claim {
	status := pod.Status.ExtendedResourceClaimStatus
	if status == nil {
		return nil
	}
	object, err := p.dra.ResourceClaims().Get(pod.Namespace, status.ResourceClaimName)
	if err != nil {
		return nil // it has gone, and so will the pod
	}
	return []*claimstate.Claim{{Object: object, Extended: true}}
}

// tellWrong says what is wrong with the annotation of a group.
func (p *Plugin) tellWrong(ctx context.Context, wrong *wrongGroup) {
	recorder, group := p.handle.EventRecorder(), wrong.object
	if recorder == nil || !p.settings.Events {
		return
	}
	about := corev1.ObjectReference{
		APIVersion: schedulingapi.SchemeGroupVersion.String(), Kind: "PodGroup", Namespace: group.Namespace, Name: group.Name, UID: group.UID,
	}
	recorder.WithLogger(klog.FromContext(ctx)).Eventf(&about, nil, corev1.EventTypeWarning, "InvalidConstraint", "Scheduling", "%s", wrong.why)
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
