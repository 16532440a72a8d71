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

// maxPlannedGroups is how many groups are remembered that did not get devices one pod after the other.
const maxPlannedGroups = 1000

// maxTrials is how often a plan is tried in a row, with what the trials before taught.
const maxTrials = 4

// plannedGroup has a group planned. Only the goroutine that schedules uses it.
type plannedGroup struct {
	name types.NamespacedName
	uid  types.UID
	// order is that in which the framework schedules the pods.
	order map[types.NamespacedName]int
	// limits are how many of the pods nodes take, by what other plugins said.
	limits map[string]int
	// statesWithoutPlan are the states in which there was no plan, with the nodes of a placement, and what was said then.
	statesWithoutPlan map[uint64]outlook
	// forcePlan has a plan imposed though the pods would get devices one by one: other plugins were against that.
	forcePlan bool
	// lastCycle is the cycle that planned last, but for what-ifs.
	lastCycle *Cycle
}

// plannedGroupOf returns the mark of a group, nil if there is none.
func (g *Groups) plannedGroupOf(name types.NamespacedName) *plannedGroup {
	if known, found := g.plannedGroups.Get(name); found {
		return known.(*plannedGroup)
	}
	return nil
}

// resetPlannedGroup marks a group, and forgets what other plugins said.
func (g *Groups) resetPlannedGroup(group fwk.PodGroupInfo) *plannedGroup {
	known := g.ensurePlannedGroup(nameOfGroup(group), group.GetPodGroup().UID)
	known.order, known.limits = make(map[types.NamespacedName]int), make(map[string]int)
	for i, pod := range group.GetUnscheduledPods() {
		known.order[nameOf(pod)] = i
	}
	return known
}

// ensurePlannedGroup returns the mark of a group, a new one if it has none.
func (g *Groups) ensurePlannedGroup(name types.NamespacedName, uid types.UID) *plannedGroup {
	known := g.plannedGroupOf(name)
	if known == nil || known.uid != uid {
		known = &plannedGroup{name: name, uid: uid, order: make(map[types.NamespacedName]int), limits: make(map[string]int)}
		g.plannedGroups.Add(name, known)
	}
	return known
}

// Forget has the group of a pod that is placed for good no longer planned.
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

// maxStates is how many states are remembered in which there was no plan.
const maxStates = 256

// noPlan notes that there was no plan in a state. Zero is a state that is not known.
func (m *plannedGroup) noPlan(state uint64, said outlook) {
	if state == 0 {
		return
	}
	if m.statesWithoutPlan == nil || len(m.statesWithoutPlan) >= maxStates {
		m.statesWithoutPlan = make(map[uint64]outlook)
	}
	m.statesWithoutPlan[state] = said
}

// compare puts pods in the order of the last attempt, new ones last.
func (m *plannedGroup) compare(a, b *corev1.Pod) int {
	position := func(pod *corev1.Pod) int {
		if at, known := m.order[nameOf(pod)]; known {
			return at
		}
		return math.MaxInt
	}
	return cmp.Or(cmp.Compare(position(a), position(b)), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// Replan has the scheduling algorithm try a plan for a group that did not get devices, until all plugins agree. It returns the
// nominations for the next attempt, which follows the plan, and says so. Without a plan it says how many pods get devices together, if that is
// known.
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

// planAfterFailure plans in each placement of a cycle in which the group failed, and returns its mark. What other plugins said of
// plans that were tried is learned, or forgotten if nothing new is learned.
func (g *Groups) planAfterFailure(ctx context.Context, cycle *Cycle, group fwk.PodGroupInfo) *plannedGroup {
	known := cycle.plannedGroup()
	switch {
	case known == nil: // the pods were tried one by one
		known = g.resetPlannedGroup(group)
	case !cycle.anyAttempt(func(a *attempt) bool { return a.plan != nil }) || cycle.learnLimits(klog.FromContext(ctx)):
		return known
	default:
		stale := len(known.limits) > 0 // what was learned earlier may not hold any more
		if g.resetPlannedGroup(group); !stale {
			return known
		}
		clear(known.statesWithoutPlan)
	}
	for a := range cycle.attemptsWithDevices() {
		fresh := a.restarted(known)
		a.group, a.plan = known, g.plan(ctx, newCycle(), fresh, a.first.State.Preemption().View().State)
		a.outlook = fresh.outlook
	}
	return known
}

// planAfterRelease returns the nodes of a plan for the time when devices are free of pods that were preempted, nil if there is none. What is
// in use is looked at once more: when the group was tried, its pods had devices of each other in flight.
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

// WasPlanned is said of a group that has a plan.
const WasPlanned = "planned: the pods of the group get devices together, and are scheduled that way next"

// restarted is the attempt before any pod was tried, for a group with a mark.
func (a *attempt) restarted(group *plannedGroup) *attempt {
	return &attempt{first: a.first, nodes: a.nodes, group: group, common: a.common, held: a.held}
}

// nodes are the nodes of pods, empty for those that have none.
func (l *plan) nodes(pods []*corev1.Pod) []string {
	nodes := make([]string, len(pods))
	for i, pod := range pods {
		if planned := l.places[nameOf(pod)]; planned != nil {
			nodes[i] = planned.node
		}
	}
	return nodes
}

// learnLimits finds the first node that took fewer pods than planned because another plugin refused one, and notes how many it took.
func (a *attempt) learnLimits(logger klog.Logger) bool {
	if a.plan == nil {
		return false
	}
	took := make(map[string]int)
	for _, name := range a.plan.order {
		m, planned := a.members[name], a.plan.places[name]
		if m == nil {
			return false // it was not tried
		}
		if m.node == planned.node {
			took[planned.node]++
			continue
		}
		if m.node != "" || len(m.State.Refusals()) > 0 {
			return false
		}
		logger.V(4).Info("A node takes fewer pods of the group than planned", "node", planned.node, "pods", took[planned.node])
		a.group.limits[planned.node] = took[planned.node]
		return true
	}
	return false
}

// A group with a topology constraint is tried in several placements one after the other: sets of nodes that have one value of a
// label. Each is an attempt, and is planned by itself. The framework chooses among those in which the group fits.

// outlook is how many pods of a group get devices together in a placement, for a group without a plan.
type outlook struct {
	text   string
	placed int
}

// plannedGroup is that of the group, nil if it was not to be planned.
func (c *Cycle) plannedGroup() *plannedGroup {
	for a := range c.attemptsWithDevices() {
		if a.group != nil {
			return a.group
		}
	}
	return nil
}

// learnLimits has each attempt learn how many pods nodes take.
func (c *Cycle) learnLimits(logger klog.Logger) bool {
	learned := false
	for a := range c.attemptsWithDevices() {
		learned = a.learnLimits(logger) || learned
	}
	return learned
}

// Outlook is that of the placement in which most pods get devices together: the first one of them by what is said.
func (c *Cycle) Outlook() string {
	var best outlook
	for a := range c.attemptsWithDevices() {
		if o := a.outlook; best.text == "" || o.text != "" && (o.placed > best.placed || o.placed == best.placed && o.text < best.text) {
			best = o
		}
	}
	return best.text
}
