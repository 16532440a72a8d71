// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"cmp"
	"context"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/schedplugin/internal/preempt"
)

// maxPlannedGroups is how many groups are remembered for planning.
const maxPlannedGroups = 1000

// maxTrials is how many plans are tried in a row, each with the limits of nodes that the ones before found out.
const maxTrials = 4

// plannedGroup is a group that is planned as a whole, as its pods did not get devices one by one. Only the scheduling goroutine uses it.
type plannedGroup struct {
	name types.NamespacedName
	uid  types.UID
	// order is the position of each pod in the framework's scheduling order.
	order map[types.NamespacedName]int
	// limits is how many pods of the group a node takes, where other plugins refused more.
	limits map[string]int
	// statesWithoutPlan are the states in which no plan was found without limits, by clusterKeyOf, with the outlook. So there is none with limits.
	statesWithoutPlan map[clusterKey]outlook
	// forcePlan is set if pods have to follow the plan although they would get devices one by one too: other plugins refused those nodes.
	forcePlan bool
	// lastCycle is the last cycle in which the group was planned, except what-ifs.
	lastCycle *Cycle
}

// plannedGroupOf returns a planned group, nil if the group is not to be planned.
func (g *Groups) plannedGroupOf(name types.NamespacedName) *plannedGroup {
	if known, found := g.plannedGroups.Get(name); found {
		return known.(*plannedGroup)
	}
	return nil
}

// resetPlannedGroup has a group planned from now on, and drops what was learned of it before.
func (g *Groups) resetPlannedGroup(group fwk.PodGroupInfo) *plannedGroup {
	known := g.ensurePlannedGroup(nameOfGroup(group), group.GetPodGroup().UID)
	known.order, known.limits = make(map[types.NamespacedName]int), make(map[string]int)
	for i, pod := range group.GetUnscheduledPods() {
		known.order[nameOf(pod)] = i
	}
	return known
}

// ensurePlannedGroup returns a planned group, a new one if there is none.
func (g *Groups) ensurePlannedGroup(name types.NamespacedName, uid types.UID) *plannedGroup {
	known := g.plannedGroupOf(name)
	if known == nil || known.uid != uid {
		known = &plannedGroup{name: name, uid: uid, order: make(map[types.NamespacedName]int), limits: make(map[string]int)}
		g.plannedGroups.Add(name, known)
	}
	return known
}

// Forget ends the planning of a pod's group, once a pod of it is reserved for good.
func (m *Member) Forget() {
	if m == nil {
		return
	}
	if name, grouped := groupName(m.Pod); grouped {
		m.groups.plannedGroups.Remove(name)
	}
}

func nameOfGroup(group fwk.PodGroupInfo) types.NamespacedName {
	return types.NamespacedName{Namespace: group.GetNamespace(), Name: group.GetName()}
}

// maxStates is how many states without a plan are remembered.
const maxStates = 256

// noPlan records that there is no plan in a state. With limits, nothing is recorded: what other
// plugins refuse, and why, is not in the key.
func (m *plannedGroup) noPlan(state clusterKey, said outlook) {
	if state == (clusterKey{}) || len(m.limits) > 0 {
		return
	}
	if m.statesWithoutPlan == nil || len(m.statesWithoutPlan) >= maxStates {
		m.statesWithoutPlan = make(map[clusterKey]outlook)
	}
	m.statesWithoutPlan[state] = said
}

// compare orders pods as in the last attempt, new ones last.
func (m *plannedGroup) compare(a, b *corev1.Pod) int {
	position := func(pod *corev1.Pod) int {
		if at, known := m.order[nameOf(pod)]; known {
			return at
		}
		return math.MaxInt
	}
	return cmp.Or(cmp.Compare(position(a), position(b)), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// Replan has the framework schedule a failed group by a plan, until all plugins accept one. It returns the
// nominations for the next attempt, which follows the plan, and a message. Without a plan, the message says
// how many pods get devices together, if that is known.
func (g *Groups) Replan(ctx context.Context, cycle *Cycle, group fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, string) {
	object, pods := group.GetPodGroup(), group.GetUnscheduledPods()
	if !cycle.anyAttempt(func(*attempt) bool { return true }) || object == nil || object.Spec.SchedulingPolicy.Gang == nil || schedule == nil || len(pods) == 0 {
		return nil, ""
	}
	known := g.planAfterFailure(ctx, cycle, group)
	known.forcePlan = false
	if !cycle.anyAttempt((*attempt).hasPlan) {
		if nodes := g.planAfterRelease(ctx, cycle, pods); nodes != nil {
			return nominations(pods, nodes), preempt.Waits
		}
		return nil, cycle.Outlook()
	}
	for range maxTrials {
		known.forcePlan, known.lastCycle = true, nil
		assigned, status := schedule(ctx)
		tried := known.lastCycle
		if status.IsSuccess() && tried.anyAttempt((*attempt).hasPlan) {
			return nominate(pods, assigned), WasPlanned
		}
		if !tried.anyAttempt((*attempt).mustFollowPlan) || !tried.learnLimits(klog.FromContext(ctx)) {
			break
		}
	}
	known.forcePlan = false
	return nil, ""
}

// planAfterFailure searches a plan in each placement of a failed cycle, and returns the planned group. If a plan was tried before, it
// learns from nodes that took fewer pods. If there is nothing to learn, it drops old limits and searches once more.
func (g *Groups) planAfterFailure(ctx context.Context, cycle *Cycle, group fwk.PodGroupInfo) *plannedGroup {
	known := cycle.plannedGroup()
	switch {
	case known == nil: // its pods were scheduled one by one
		known = g.resetPlannedGroup(group)
	case !cycle.anyAttempt(func(a *attempt) bool { return a.plan != nil }) || cycle.learnLimits(klog.FromContext(ctx)):
		return known
	default:
		stale := len(known.limits) > 0 // earlier limits may not hold any more
		if g.resetPlannedGroup(group); !stale {
			return known
		}
	}
	for a := range cycle.attemptsWithDevices() {
		fresh := a.restarted(known)
		a.group, a.plan = known, g.plan(ctx, newCycle(), fresh, a.first.State.Preemption().View().State)
		a.outlook = fresh.outlook
	}
	return known
}

// planAfterRelease searches a plan for the time when the devices of victims are free. It returns the nodes of the pods, nil
// if there is none. It observes the model anew: during the attempt, pods of the group had devices in flight.
func (g *Groups) planAfterRelease(ctx context.Context, cycle *Cycle, pods []*corev1.Pod) []string {
	view, err := g.Preemption.Model.Observe()
	if err != nil {
		return nil
	}
	for a := range cycle.attemptsWithDevices() {
		again, err := a.first.State.Preemption().Restart(view)
		if err != nil || again.Settled() == nil {
			continue
		}
		if later := g.plan(ctx, newCycle(), a.restarted(a.group), again.Settled().State()); later != nil && later.Verdict == allocator.Satisfiable {
			return later.nodes(pods)
		}
	}
	return nil
}

// WasPlanned is the status message for a group that has a plan.
const WasPlanned = "planned: the pods of the group get devices together, and are scheduled that way next"

// restarted returns an attempt with the same nodes, in which no pod was tried yet.
func (a *attempt) restarted(group *plannedGroup) *attempt {
	return &attempt{first: a.first, nodes: a.nodes, group: group, common: a.common, held: a.held}
}

// nodes returns the planned node of each pod, empty for those without one.
func (l *plan) nodes(pods []*corev1.Pod) []string {
	nodes := make([]string, len(pods))
	for i, pod := range pods {
		if planned := l.places[nameOf(pod)]; planned != nil {
			nodes[i] = planned.node
		}
	}
	return nodes
}

// learnLimits records how many pods the first node took that another plugin refused for a planned pod. It is false if there is none.
func (a *attempt) learnLimits(logger klog.Logger) bool {
	if a.plan == nil {
		return false
	}
	took := make(map[string]int)
	for _, name := range a.plan.order {
		m, planned := a.members[name], a.plan.places[name]
		if m == nil {
			return false // the pod was not tried
		}
		if m.node == planned.node {
			took[planned.node]++
			continue
		}
		if m.node != "" || m.refused.Load() {
			return false
		}
		logger.V(4).Info("A node takes fewer pods of the group than planned", "node", planned.node, "pods", took[planned.node])
		a.group.limits[planned.node] = took[planned.node]
		return true
	}
	return false
}

// A group with topology constraints is tried in several placements one after the other: sets of nodes with one value of a
// label. Each placement is an attempt with its own plan. The framework chooses among those in which the group fits.

// outlook says how many pods of a group get devices together in a placement that has no plan for all.
type outlook struct {
	text   string
	placed int
}

// plannedGroup returns the planned group, nil if the group is not planned.
func (c *Cycle) plannedGroup() *plannedGroup {
	for a := range c.attemptsWithDevices() {
		if a.group != nil {
			return a.group
		}
	}
	return nil
}

// learnLimits calls learnLimits for each attempt, and reports whether one learned something.
func (c *Cycle) learnLimits(logger klog.Logger) bool {
	learned := false
	for a := range c.attemptsWithDevices() {
		learned = a.learnLimits(logger) || learned
	}
	return learned
}

// Outlook returns the text for the placement in which most pods get devices together. Among several, it takes the first text in alphabetical order.
func (c *Cycle) Outlook() string {
	var best outlook
	for a := range c.attemptsWithDevices() {
		if o := a.outlook; best.text == "" || o.text != "" && (o.placed > best.placed || o.placed == best.placed && o.text < best.text) {
			best = o
		}
	}
	return best.text
}
