// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"context"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"
)

// Gang is a group of a composite group, and its last cycle.
type Gang struct {
	Group fwk.PodGroupInfo
	Cycle *Cycle
}

// PlanEach plans each group of a composite group from now on. If some were not planned before, it has the framework schedule
// them by their plans. If that works it returns the nominations for the next attempt, else the groups that were tried. The
// framework places one group after the other. So each plan only uses what the groups before it left.
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

// gangsOf lists the groups with a gang policy in a composite group.
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

// Outlooks lists how many pods of each group get devices together. Known is false if that is known of no group.
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
