// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/gang"
	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/metrics"
)

// The pods of a group are scheduled one by one, each on the best node and with its first devices. If they do not all get devices that
// way, the group is planned: in the first PreFilter of each later attempt, in the state that the attempt sees, be it
// real or a what-if of preemption. Filter then admits the planned node only, and Reserve takes the planned
// devices. All plugins check the plan, since it goes through a scheduling attempt like any other.

// groupPlan is what was found for the pods of a group at once.
type groupPlan struct {
	*gang.Result
	pods map[types.NamespacedName]*podPlan
	// order are the pods of the plan, in the order in which they are scheduled.
	order []types.NamespacedName
}

// podPlan is the place of a pod in a plan.
type podPlan struct {
	node string
	// claims are the allocations by claim, extended that of the claim for extended resources.
	claims   map[types.UID]*resourceapi.AllocationResult
	extended *resourceapi.AllocationResult
}

// imposed reports whether pods have to take the places of a plan.
func (g *groupAttempt) imposed() bool {
	return g.plan != nil && g.plan.Verdict == allocator.Satisfiable && (!g.plan.OneByOne || g.mark.forced || !g.common.IsZero())
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// groupName is the name of a pod's group, false if it has none.
func groupName(pod *corev1.Pod) (types.NamespacedName, bool) {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: pod.Namespace, Name: *pod.Spec.SchedulingGroup.PodGroupName}, true
}

// planned looks for a plan at the first pod of an attempt that needs devices, if the group did not get them before. It says why a pod
// has to wait for which there is no place in the plan, and whether that is for good.
func (p *Plugin) planned(ctx context.Context, c *cycle, pod *corev1.Pod) (string, fwk.Code) {
	a := c.attempt
	if a == nil || c.view == nil {
		return "", fwk.Success
	}
	if a.first == nil {
		a.first, a.nodes = c, p.nodesInPlacement(c.nodes)
		if name, grouped := groupName(pod); grouped {
			a.mark = p.plans.of(name)
			p.readCommon(ctx, c.group, name)
			if a.mark != nil && a.wrong == "" {
				if !c.preemption.Absent() {
					a.mark.last = c.group
				}
				a.plan = p.plan(ctx, c.group, a, c.view.State)
			}
		}
	}
	switch {
	case a.wrong != "":
		return a.wrong, fwk.UnschedulableAndUnresolvable
	case !a.imposed():
		return a.withoutCommon(), fwk.Unschedulable
	}
	if c.planned = a.plan.pods[nameOf(pod)]; c.planned == nil {
		return "the other pods of the group get devices together only if this one waits", fwk.UnschedulableAndUnresolvable
	}
	return "", fwk.Success
}

// plan asks for places for all pods of a group that wait, in a state: that of the first pod, or one that will be. It returns nil if the group
// cannot be planned, or nothing changed since there was no plan.
func (p *Plugin) plan(ctx context.Context, group *groupCycle, a *groupAttempt, state *pools.State) *groupPlan {
	logger := klog.FromContext(ctx)
	c, mark, name := a.first, a.mark, a.mark.name
	key := uint64(0)
	if state == c.view.State {
		key = p.stateKeyOf(a)
	}
	if said, known := mark.none[key]; known {
		a.outlook = said
		return nil
	}
	object, err := p.handle.SnapshotSharedLister().PodGroups().Get(name.Namespace, name.Name)
	if err != nil || object.Spec.SchedulingPolicy.Gang == nil {
		return nil
	}
	members, idle := p.members(logger, group, a, name)
	if len(members) == 0 {
		return nil
	}
	q := p.groupQuestion(a, members)
	q.State = state
	q.Min = max(1, int(object.Spec.SchedulingPolicy.Gang.MinCount)-idle)
	if q.Min > len(members) {
		return nil
	}
	q.Together, q.Group, q.Held = mark.forced, a.common, a.held
	r, err := gang.Ask(ctx, q)
	if err != nil {
		logger.V(3).Info("The group cannot be planned", "podGroup", klog.KRef(name.Namespace, name.Name), "err", err)
		return nil
	}
	logger.V(4).Info("Planned the pods of a group", "podGroup", klog.KRef(name.Namespace, name.Name), "verdict", r.Verdict, "placed", r.Placed(), "pods", len(members), "steps", r.Steps)
	plan := &groupPlan{Result: r, pods: make(map[types.NamespacedName]*podPlan)}
	for i, m := range members {
		if r.Places[i].Node >= 0 {
			plan.order = append(plan.order, nameOf(m.pod))
			plan.pods[nameOf(m.pod)] = m.place(&r.Places[i], a.nodes)
		}
	}
	metrics.Planned(answerOf(ctx, r.Verdict, nil))
	if key != 0 && r.Verdict != allocator.Satisfiable {
		a.outlook = outlook{plan.outlook(object, len(members)) + p.shortfall(ctx, q, r, members), r.Placed()}
	}
	switch r.Verdict {
	case allocator.NotDecided:
		c.giveUpSearch()
	case allocator.NotSatisfiable:
		mark.noPlan(key, a.outlook)
	}
	return plan
}

// shortfall says what the pods of a group without a plan compete for, and what would have to change.
func (p *Plugin) shortfall(ctx context.Context, q gang.Question, r *gang.Result, members []*groupMember) string {
	found, err := gang.Explain(ctx, q, r, false)
	if err != nil || found == nil {
		return ""
	}
	sentences := found.Sentences(func(pod int) string { return members[pod].pod.Name }, func(node int) string { return q.Nodes[node].Name })
	return strings.Join(append([]string{""}, sentences...), "; ")
}

// groupMember is a pod of a group that waits for devices.
type groupMember struct {
	pod *corev1.Pod
	c   *cycle
	// variants are the lists of claims, by the extended resources that devices have to provide.
	variants [][]*resourceapi.ResourceClaim
	kind     *memberKind
}

// memberKind is what equal pods have in common.
type memberKind struct {
	on    []int                   // variant by node, -1 where the pods cannot run
	names [][]corev1.ResourceName // extended resources, by variant
	needs map[corev1.ResourceName]int64
}

// members lists the pods of a group that need devices, in order, and counts those that run, or need none.
func (p *Plugin) members(logger klog.Logger, group *groupCycle, a *groupAttempt, name types.NamespacedName) (members []*groupMember, others int) {
	live, err := p.handle.PodGroupManager().PodGroupStates().Get(name.Namespace, name.Name)
	if err != nil {
		return nil, 0
	}
	others = live.ScheduledPodsCount()
	for _, pod := range live.UnscheduledPods() {
		if tried := a.pods[nameOf(pod)]; tried != nil && tried != a.first {
			if tried.placed != "" {
				others++
			}
			continue
		}
		if len(pod.Spec.SchedulingGates) > 0 || pod.DeletionTimestamp != nil {
			continue
		}
		c := newCycle()
		c.group = group
		var refused *fwk.Status
		if c.claims, refused = p.collect(logger, pod, c, group); refused != nil {
			continue
		}
		if len(c.unallocated()) == 0 {
			others++
			continue
		}
		members = append(members, &groupMember{pod: pod, c: c})
	}
	slices.SortFunc(members, func(x, y *groupMember) int { return a.mark.compare(x.pod, y.pod) })
	return members, others
}

// groupQuestion asks for places for members on the nodes of an attempt.
func (p *Plugin) groupQuestion(a *groupAttempt, members []*groupMember) gang.Question {
	patience := 0
	for _, m := range members {
		patience = max(patience, p.patience(m.pod.UID))
	}
	supposing := p.supposing
	if patience > 0 {
		supposing = p.patient[patience-1]
	}
	q := gang.Question{
		Compile: func(claims []*resourceapi.ResourceClaim) (*allocator.Problem, error) {
			return supposing.Compile(claims, p.dra.DeviceClasses())
		},
		Budget: 2 * p.settings.FilterBudget << (2 * patience), // as that of the allocator
	}
	for _, nodeInfo := range a.nodes {
		q.Nodes = append(q.Nodes, nodeInfo.Node())
	}
	kinds := make(map[string]*memberKind)
	for _, m := range members {
		key := m.key()
		if m.kind = kinds[key]; m.kind == nil {
			m.kind = p.memberKind(m, a.nodes)
			kinds[key] = m.kind
		}
		p.setVariants(m)
		q.Pods = append(q.Pods, gang.Pod{Kind: key, Variants: m.variants, Variant: func(node int) int { return m.kind.on[node] }})
	}
	q.Room = func(node int, pods []int) bool {
		if limit, known := a.mark.limits[q.Nodes[node].Name]; known && len(pods) > limit {
			return false
		}
		return hasRoom(a.nodes[node], members, pods)
	}
	return q
}

// key is equal for members that are alike.
func (m *groupMember) key() string {
	type asked struct {
		Name, Claim string
		Spec        *resourceapi.ResourceClaimSpec
	}
	var claims []asked
	for i, claim := range m.c.claims {
		one := asked{Name: claim.Name, Spec: &claim.Object.Spec}
		if own := i < len(m.pod.Spec.ResourceClaims) && m.pod.Spec.ResourceClaims[i].ResourceClaimTemplateName != nil; !own || claim.Allocated() != nil {
			one.Claim = claim.Object.Name
		}
		claims = append(claims, one)
	}
	text, err := json.Marshal([]any{nodefit.Key(m.pod), nodefit.Needs(m.pod), claims})
	if err != nil {
		panic("pod " + m.pod.Name + " cannot be encoded: " + err.Error()) // it is plain data
	}
	return string(text)
}

// memberKind finds out what pods like a member need, and where they can run.
func (p *Plugin) memberKind(m *groupMember, nodes []fwk.NodeInfo) *memberKind {
	k := &memberKind{on: make([]int, len(nodes)), needs: make(map[corev1.ResourceName]int64)}
	for name, quantity := range nodefit.Needs(m.pod) {
		if slices.Contains(m.c.extended, name) {
			continue // Filter of another plugin counts what a device plugin provides
		}
		if k.needs[name] = quantity.Value(); name == corev1.ResourceCPU {
			k.needs[name] = quantity.MilliValue()
		}
	}
	for n, nodeInfo := range nodes {
		k.on[n] = k.variantOn(p, m, nodeInfo)
	}
	return k
}

func (k *memberKind) variantOn(p *Plugin, m *groupMember, nodeInfo fwk.NodeInfo) int {
	node := nodeInfo.Node()
	if fits, err := nodefit.Fits(m.pod, node); err != nil || !fits {
		return -1
	}
	if unusable, _ := p.unusable(m.c, node); len(unusable) > 0 {
		return -1
	}
	var names []corev1.ResourceName
	if m.c.extended != nil {
		var missing corev1.ResourceName
		names, missing = p.source.FromDevices(m.c.extended, node)
		if missing != "" || !m.c.claims[len(m.c.claims)-1].Unmade() {
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

// setVariants lists the claims of a member for each kind of node.
func (p *Plugin) setVariants(m *groupMember) {
	for _, names := range m.kind.names {
		var list []*resourceapi.ResourceClaim
		for _, claim := range m.c.unallocated() {
			switch {
			case claim.Pending != nil: // it is one of those that decide where the pod can run
			case !claim.Extended:
				list = append(list, claim.Object)
			case len(names) > 0:
				special := *claim.Object
				special.Name = claim.Object.Name + " of " + m.pod.Name // there is one for each pod
				special.Spec.Devices.Requests, _ = p.source.DeviceRequests(m.pod, names)
				list = append(list, &special)
			}
		}
		m.variants = append(m.variants, list)
	}
	if len(m.variants) == 0 {
		m.variants = [][]*resourceapi.ResourceClaim{nil} // it cannot run on any node
	}
}

// place translates what was found.
func (m *groupMember) place(found *gang.Place, nodes []fwk.NodeInfo) *podPlan {
	place := &podPlan{node: nodes[found.Node].Node().Name, claims: make(map[types.UID]*resourceapi.AllocationResult)}
	for _, claim := range found.Claims {
		if _, extended := claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation]; extended {
			place.extended = claim.Status.Allocation
			continue
		}
		place.claims[claim.UID] = claim.Status.Allocation
	}
	return place
}

// hasRoom reports whether a node has what some members need together, but for devices.
func hasRoom(nodeInfo fwk.NodeInfo, members []*groupMember, pods []int) bool {
	needs := make(map[corev1.ResourceName]int64)
	for _, pod := range pods {
		for name, amount := range members[pod].kind.needs {
			needs[name] += amount
		}
	}
	for name, amount := range needs {
		if amount > 0 && amount > free(nodeInfo, name) {
			return false
		}
	}
	return true
}

func free(nodeInfo fwk.NodeInfo, name corev1.ResourceName) int64 {
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

// suitsPlan says why a pod of a planned group does not go to a node, nothing if it does.
func (p *Plugin) suitsPlan(c *cycle, node *corev1.Node) string {
	switch {
	case c.planned == nil && c.attempt != nil:
		return c.attempt.withoutCommon()
	case c.planned == nil:
		return ""
	case c.planned.node != node.Name:
		return "the pods of the group get devices together only if this one goes to node " + c.planned.node
	case !p.untaken(c):
		return "devices that were planned for the pods of the group were taken meanwhile"
	}
	return ""
}

// untaken reports whether the devices of a plan can still be had, as the cycle sees it: a pod that preemption puts back is spared only
// if the plan does without its devices.
func (p *Plugin) untaken(c *cycle) bool {
	state := c.usage()
	for _, claim := range c.claims {
		allocation := c.planned.of(claim)
		if claim.Allocated() != nil || allocation == nil {
			continue
		}
		for i := range allocation.Devices.Results {
			result := &allocation.Devices.Results[i]
			if result.ShareID != nil || result.AdminAccess != nil {
				continue
			}
			if !obtainable(state, result) {
				return false
			}
			alone := &resourceapi.ResourceClaim{ // several may draw on one counter
				ObjectMeta: metav1.ObjectMeta{Namespace: claim.Object.Namespace, Name: result.Device, UID: claim.Object.UID + types.UID(result.Pool)},
				Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{
					Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{*result}},
				}},
			}
			var err error
			if state, err = state.Assume(alone); err != nil {
				return false
			}
		}
	}
	return true
}

// shares reports whether shares of devices are planned, of which it is not known whether they are left in a what-if.
func (l *podPlan) shares() bool {
	for _, allocation := range append(slices.Collect(maps.Values(l.claims)), l.extended) {
		if allocation != nil && slices.ContainsFunc(allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool { return r.ShareID != nil }) {
			return true
		}
	}
	return false
}

// of returns what is planned for a claim, nil if that is nothing.
func (l *podPlan) of(claim *claimstate.Claim) *resourceapi.AllocationResult {
	if claim.Extended {
		return l.extended
	}
	return l.claims[claim.Object.UID]
}

// takePlanned gives claims what was planned. It is false if there is no plan for one of them.
func (l *podPlan) takePlanned(claims []*claimstate.Claim, v *variant) bool {
	for _, claim := range claims {
		if l.of(claim) == nil {
			return false
		}
	}
	for _, claim := range claims {
		claim.Pending = l.of(claim)
		if claim.Extended {
			claim.Object = v.special
		}
	}
	return true
}

// results are what is planned for the claims of a variant, in order; false if something is missing.
func (l *podPlan) results(v *variant) ([]resourceapi.AllocationResult, bool) {
	var list []resourceapi.AllocationResult
	for _, claim := range v.claims {
		allocation := l.of(claim)
		if allocation == nil {
			return nil, false
		}
		list = append(list, *allocation)
	}
	return list, true
}

// outlook says how many pods of a group get devices together.
func (g *groupPlan) outlook(group *schedulingapi.PodGroup, waiting int) string {
	text := fmt.Sprintf("together, %d of %d pods get devices%s and the group needs %d", g.Placed(), waiting, inDomain(g.Domain), group.Spec.SchedulingPolicy.Gang.MinCount)
	switch {
	case g.Verdict == allocator.NotDecided:
		return text + ": more may fit, the search was given up"
	case !g.Exact:
		return text + ": no way was found for more"
	}
	return text
}

// compareNames is an order of pods.
func compareNames(a, b *corev1.Pod) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
