// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/gang"
	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/podclaims"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/metrics"
)

// plan is the result of a search for the pods of a group together.
type plan struct {
	*gang.Result
	places map[types.NamespacedName]*place
	// order lists the pods of the plan in the order in which they are scheduled.
	order []types.NamespacedName
}

// mustFollowPlan reports whether Filter admits only the planned nodes.
func (a *attempt) mustFollowPlan() bool {
	return a.hasPlan() && (!a.plan.OneByOne || a.group.forcePlan || !a.common.IsZero())
}

// hasPlan reports whether a plan was found.
func (a *attempt) hasPlan() bool { return a.plan != nil && a.plan.Verdict == allocator.Satisfiable }

// planFirst searches a plan at the first pod of an attempt that needs devices, if its group is to be planned.
func (g *Groups) planFirst(ctx context.Context, m *Member) {
	a := m.attempt
	name, grouped := groupName(m.Pod)
	if !grouped {
		return
	}
	a.group = g.plannedGroupOf(name)
	g.readCommon(ctx, m.cycle, name)
	if a.group == nil || a.invalid != "" {
		return
	}
	if !m.State.Preemption().InGroupPreemption() {
		a.group.lastCycle = m.cycle
	}
	a.plan = g.plan(ctx, m.cycle, a, m.State.Preemption().View().State)
}

// plan searches places for all waiting pods of a group. State is what is in use: that of the first pod, or a
// later one. It returns nil if the group cannot be planned, or if there was no plan in an equal state.
func (g *Groups) plan(ctx context.Context, cycle *Cycle, a *attempt, state *pools.State) *plan {
	logger := klog.FromContext(ctx)
	known, name := a.group, a.group.name
	object, err := g.Handle.SnapshotSharedLister().PodGroups().Get(name.Namespace, name.Name)
	if err != nil || object.Spec.SchedulingPolicy.Gang == nil {
		return nil
	}
	pods, idle := g.waiting(logger, cycle, a, name)
	if len(pods) == 0 {
		return nil
	}
	least := max(1, int(object.Spec.SchedulingPolicy.Gang.MinCount)-idle)
	if least > len(pods) {
		return nil
	}
	var key clusterKey
	if state == a.first.State.Preemption().View().State {
		key = g.clusterKeyOf(a, pods, least)
	}
	if said, known := known.statesWithoutPlan[key]; known {
		a.outlook = said
		return nil
	}
	q := g.question(a, pods)
	q.State, q.Min = state, least
	q.Together, q.Group, q.Held = known.forcePlan, a.common, a.held
	r, err := gang.Ask(ctx, q)
	if err != nil {
		logger.V(3).Info("The group cannot be planned", "podGroup", klog.KRef(name.Namespace, name.Name), "err", err)
		return nil
	}
	logger.V(4).Info("Planned the pods of a group", "podGroup", klog.KRef(name.Namespace, name.Name), "verdict", r.Verdict, "placed", r.Placed(), "pods", len(pods), "steps", r.Steps)
	found := &plan{Result: r, places: make(map[types.NamespacedName]*place)}
	for i, w := range pods {
		if r.Places[i].Node >= 0 {
			found.order = append(found.order, nameOf(w.pod))
			found.places[nameOf(w.pod)] = w.place(&r.Places[i], a.nodes)
		}
	}
	metrics.Planned(metrics.Outcome(ctx, r.Verdict, nil))
	if key != (clusterKey{}) && r.Verdict != allocator.Satisfiable {
		a.outlook = outlook{found.outlook(object, len(pods)) + shortfall(ctx, q, r, pods), r.Placed()}
	}
	switch r.Verdict {
	case allocator.NotDecided:
		a.first.giveUp()
	case allocator.NotSatisfiable:
		known.noPlan(key, a.outlook)
	}
	return found
}

// shortfall explains which pods compete for what, and what would have to change.
func shortfall(ctx context.Context, q gang.Question, r *gang.Result, pods []*waitingPod) string {
	found, err := gang.Explain(ctx, q, r, false)
	if err != nil || found == nil {
		return ""
	}
	sentences := found.Sentences(func(pod int) string { return pods[pod].pod.Name }, func(node int) string { return q.Nodes[node].Name })
	return strings.Join(append([]string{""}, sentences...), "; ")
}

// waitingPod is a pod of a group that still needs devices.
type waitingPod struct {
	pod *corev1.Pod
	// claims are in the order of the pod's spec. The one for extended resources comes last.
	claims   []*claimstate.Claim
	extended []corev1.ResourceName
	// variants has a list of claims for each set of extended resources that devices have to provide.
	variants [][]*resourceapi.ResourceClaim
	// kindKey is the result of key.
	kindKey string
	kind    *kind
}

// kind is an equivalence class of pods: with equal requests, constraints and claims.
type kind struct {
	variantByNode []int                   // variant by node, -1 where the pods cannot run
	names         [][]corev1.ResourceName // extended resources, by variant
	needs         map[corev1.ResourceName]int64
}

// waiting lists the pods of a group that need devices, in scheduling order, and counts those that are placed or need none.
func (g *Groups) waiting(logger klog.Logger, cycle *Cycle, a *attempt, name types.NamespacedName) (pods []*waitingPod, others int) {
	live, err := g.Handle.PodGroupManager().PodGroupStates().Get(name.Namespace, name.Name)
	if err != nil {
		return nil, 0
	}
	others = live.ScheduledPodsCount()
	for _, pod := range live.UnscheduledPods() {
		if tried := a.members[nameOf(pod)]; tried != nil && tried != a.first {
			if tried.node != "" {
				others++
			}
			continue
		}
		if len(pod.Spec.SchedulingGates) > 0 || pod.DeletionTimestamp != nil {
			continue
		}
		claims, extended, known := g.Collect(logger, pod, cycle)
		switch {
		case !known:
		case len(claimstate.Unallocated(claims)) == 0:
			others++
		default:
			w := &waitingPod{pod: pod, claims: claims, extended: extended}
			w.kindKey = g.key(w)
			pods = append(pods, w)
		}
	}
	slices.SortFunc(pods, func(x, y *waitingPod) int { return a.group.compare(x.pod, y.pod) })
	return pods, others
}

// question returns the question for package gang: places for pods on the nodes of an attempt.
func (g *Groups) question(a *attempt, pods []*waitingPod) gang.Question {
	level := 0
	for _, w := range pods {
		level = max(level, g.BudgetLevel(w.pod.UID))
	}
	q := gang.Question{
		Compile: func(claims []*resourceapi.ResourceClaim) (*allocator.Problem, error) {
			return g.Allocators[level].Compile(claims, g.Source.DRA.DeviceClasses())
		},
		Budget: 2 * g.Budget << (2 * level), // like the allocators' budgets, it is four times as large for each level
	}
	for _, nodeInfo := range a.nodes {
		q.Nodes = append(q.Nodes, nodeInfo.Node())
	}
	kinds := make(map[string]*kind)
	for _, w := range pods {
		if w.kind = kinds[w.kindKey]; w.kind == nil {
			w.kind = g.kindOf(w, a.nodes)
			kinds[w.kindKey] = w.kind
		}
		g.setVariants(w)
		q.Pods = append(q.Pods, gang.Pod{Kind: w.kindKey, Variants: w.variants, Variant: func(node int) int { return w.kind.variantByNode[node] }})
	}
	q.Room = func(node int, some []int) bool {
		if limit, known := a.group.limits[q.Nodes[node].Name]; known && len(some) > limit {
			return false
		}
		return hasRoom(a.nodes[node], pods, some)
	}
	return q
}

// key returns the pod's kind: equal keys mean that package gang may exchange the pods, and use what one asks for in place of what the other
// does. Claims that others may use, too, have their names in it.
func (g *Groups) key(w *waitingPod) string {
	type asked struct {
		claimstate.Asked
		Claim string
	}
	var claims []asked
	for _, claim := range w.claims {
		one := asked{Asked: claim.Asked()}
		if claim.Extended || claim.Allocated() != nil || !claim.IsOwn(w.pod) {
			one.Claim = claim.Object.Name
		}
		claims = append(claims, one)
	}
	requests, _ := podclaims.AllExtendedRequests(w.pod, w.extended, g.Source.ClassOf)
	text, err := json.Marshal([]any{nodefit.Key(w.pod), nodefit.Needs(w.pod), claims, requests})
	if err != nil {
		panic("pod " + w.pod.Name + " cannot be encoded: " + err.Error()) // it is plain data
	}
	return string(text)
}

// kindOf computes the needs and the possible nodes of a kind, from one of its pods.
func (g *Groups) kindOf(w *waitingPod, nodes []fwk.NodeInfo) *kind {
	k := &kind{variantByNode: make([]int, len(nodes)), needs: make(map[corev1.ResourceName]int64)}
	for name, quantity := range nodefit.Needs(w.pod) {
		if slices.Contains(w.extended, name) {
			continue // NodeResourcesFit checks what device plugins provide
		}
		if k.needs[name] = quantity.Value(); name == corev1.ResourceCPU {
			k.needs[name] = quantity.MilliValue()
		}
	}
	for n, nodeInfo := range nodes {
		k.variantByNode[n] = k.variantOn(g, w, nodeInfo.Node())
	}
	return k
}

func (k *kind) variantOn(g *Groups, w *waitingPod, node *corev1.Node) int {
	if fits, err := nodefit.Fits(w.pod, node); err != nil || !fits {
		return -1
	}
	if !g.Usable(w.claims, node) {
		return -1
	}
	var names []corev1.ResourceName
	if w.extended != nil {
		var missing corev1.ResourceName
		names, missing = podclaims.FromDevices(w.extended, node, g.Source.ClassOf)
		if missing != "" || !w.claims[len(w.claims)-1].InMemoryOnly() {
			return -1
		}
	}
	at := slices.IndexFunc(k.names, func(known []corev1.ResourceName) bool { return slices.Equal(known, names) })
	if at < 0 {
		at = len(k.names)
		k.names = append(k.names, names)
	}
	return at
}

// setVariants sets the claims to allocate for each variant.
func (g *Groups) setVariants(w *waitingPod) {
	for _, names := range w.kind.names {
		var list []*resourceapi.ResourceClaim
		for _, claim := range claimstate.Unallocated(w.claims) {
			switch {
			case claim.Pending != nil: // it is in flight, and limits the nodes by its node selector
			case !claim.Extended:
				list = append(list, claim.Object)
			case len(names) > 0:
				special := *claim.Object
				special.Name = claim.Object.Name + " of " + w.pod.Name // each pod has its own claim
				special.Spec.Devices.Requests, _ = podclaims.AllExtendedRequests(w.pod, names, g.Source.ClassOf)
				list = append(list, &special)
			}
		}
		w.variants = append(w.variants, list)
	}
	if len(w.variants) == 0 {
		w.variants = [][]*resourceapi.ResourceClaim{nil} // the pod cannot run on any node
	}
}

// place converts a place that package gang found.
func (w *waitingPod) place(found *gang.Place, nodes []fwk.NodeInfo) *place {
	place := &place{node: nodes[found.Node].Node().Name, claims: make(map[types.UID]*resourceapi.AllocationResult)}
	for _, claim := range found.Claims {
		if _, extended := claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation]; extended {
			place.extended = claim.Status.Allocation
			continue
		}
		place.claims[claim.UID] = claim.Status.Allocation
	}
	return place
}

// hasRoom reports whether a node has enough free resources, other than devices, for some pods together.
func hasRoom(nodeInfo fwk.NodeInfo, pods []*waitingPod, some []int) bool {
	needs := make(map[corev1.ResourceName]int64)
	for _, pod := range some {
		for name, amount := range pods[pod].kind.needs {
			needs[name] += amount
		}
	}
	for name, amount := range needs {
		if amount > 0 && amount > freeOn(nodeInfo, name) {
			return false
		}
	}
	return true
}

func freeOn(nodeInfo fwk.NodeInfo, name corev1.ResourceName) int64 {
	all, used := nodeInfo.GetAllocatable(), nodeInfo.GetRequested()
	switch name {
	case corev1.ResourcePods:
		return int64(all.GetAllowedPodNumber() - len(nodeInfo.GetPods()))
	case corev1.ResourceCPU:
		return all.GetMilliCPU() - used.GetMilliCPU()
	case corev1.ResourceMemory:
		return all.GetMemory() - used.GetMemory()
	case corev1.ResourceEphemeralStorage:
		return all.GetEphemeralStorage() - used.GetEphemeralStorage()
	}
	return all.GetScalarResources()[name] - used.GetScalarResources()[name]
}

// outlook returns a text with the number of pods of a group that get devices together.
func (l *plan) outlook(group *schedulingapi.PodGroup, waiting int) string {
	text := fmt.Sprintf("together, %d of %d pods get devices%s and the group needs %d", l.Placed(), waiting, inDomain(l.Domain), group.Spec.SchedulingPolicy.Gang.MinCount)
	switch {
	case l.Verdict == allocator.NotDecided:
		return text + ": more may fit, the search was given up"
	case !l.Exact:
		return text + ": no way was found for more"
	}
	return text
}
