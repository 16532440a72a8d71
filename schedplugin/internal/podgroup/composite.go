// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"context"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"
)

// Gang is one of the groups in a composite one, and the cycle in which it was tried last.
type Gang struct {
	Group fwk.PodGroupInfo
	Cycle *Cycle
}

// PlanEach has the groups of a composite one planned from now on, and tries that if they were not. It returns the nominations for the next
// attempt, which follows the plans, or else the groups of which a pod was tried. The framework places the groups one after the
// other, and so each is planned in what those before it have left: nothing reconsiders their devices.
func (g *Groups) PlanEach(ctx context.Context, composite fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, []Gang) {
	groups, planned, added := gangsOf(composite), []*plannedGroup(nil), false
	for _, group := range groups {
		known := g.plannedGroupOf(nameOfGroup(group))
		if known == nil || known.uid != group.GetPodGroup().UID {
			known, added = g.resetPlannedGroup(group), true
		}
		planned = append(planned, known)
	}
	if added && schedule != nil {
		if assigned, status := schedule(ctx); status.IsSuccess() {
			return nominate(composite.GetUnscheduledPods(), assigned), nil
		}
	}
	var tried []Gang
	for i, group := range groups {
		if planned[i].lastCycle != nil {
			tried = append(tried, Gang{group, planned[i].lastCycle})
		}
	}
	return nil, tried
}

// gangsOf lists the groups in a composite one of which enough pods start together, or none.
func gangsOf(group fwk.PodGroupInfo) []fwk.PodGroupInfo {
	if object := group.GetPodGroup(); object != nil {
		if object.Spec.SchedulingPolicy.Gang == nil || len(group.GetUnscheduledPods()) == 0 {
			return nil
		}
		return []fwk.PodGroupInfo{group}
	}
	var list []fwk.PodGroupInfo
	for _, child := range group.GetChildren() {
		list = append(list, gangsOf(child)...)
	}
	return list
}

// Outlooks says how many pods of each group get devices together. It is false if that is known of none.
func Outlooks(gangs []Gang) (said string, known bool) {
	var parts []string
	for _, gang := range gangs {
		if outlook := gang.Cycle.Outlook(); outlook != "" {
			parts = append(parts, "PodGroup "+gang.Group.GetName()+": "+outlook)
		}
	}
	const notJointly = "the groups of a CompositePodGroup are planned one after the other, not together"
	return strings.Join(append(parts, notJointly), "; "), len(parts) > 0
}
