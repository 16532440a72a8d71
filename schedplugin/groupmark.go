// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"iter"
	"math"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/lru"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
)

// manyMarks is how many groups are remembered that did not get devices one pod after the other.
const manyMarks = 1000

// manyTrials is how often a plan is tried in a row, with what the trials before taught.
const manyTrials = 4

// groupMarks are the groups that are to be planned.
type groupMarks struct {
	mu    sync.Mutex
	known *lru.Cache
}

func newGroupMarks() *groupMarks { return &groupMarks{known: lru.New(manyMarks)} }

// groupMark has a group planned. Only the goroutine that schedules uses it.
type groupMark struct {
	name types.NamespacedName
	uid  types.UID
	// order is that in which the framework schedules the pods.
	order map[types.NamespacedName]int
	// limits are how many of the pods nodes take, by what other plugins said.
	limits map[string]int
	// none are the states in which there was no plan, with the nodes of a placement, and what was said then.
	none map[uint64]outlook
	// forced has a plan imposed though the pods would get devices one by one: other plugins were against that.
	forced bool
	// last is the cycle that planned last, but for what-ifs.
	last *groupCycle
}

// of returns the mark of a group, nil if there is none.
func (g *groupMarks) of(name types.NamespacedName) *groupMark {
	g.mu.Lock()
	defer g.mu.Unlock()
	if mark, known := g.known.Get(name); known {
		return mark.(*groupMark)
	}
	return nil
}

// make marks a group, and forgets what other plugins said.
func (g *groupMarks) make(group fwk.PodGroupInfo) *groupMark {
	mark := g.ensure(types.NamespacedName{Namespace: group.GetNamespace(), Name: group.GetName()}, group.GetPodGroup().UID)
	mark.order, mark.limits = make(map[types.NamespacedName]int), make(map[string]int)
	for i, pod := range group.GetUnscheduledPods() {
		mark.order[nameOf(pod)] = i
	}
	return mark
}

// ensure returns the mark of a group, a new one if it has none.
func (g *groupMarks) ensure(name types.NamespacedName, uid types.UID) *groupMark {
	mark := g.of(name)
	if mark == nil || mark.uid != uid {
		mark = &groupMark{name: name, uid: uid, order: make(map[types.NamespacedName]int), limits: make(map[string]int)}
		g.mu.Lock()
		g.known.Add(name, mark)
		g.mu.Unlock()
	}
	return mark
}

// forget drops the mark of a pod's group.
func (g *groupMarks) forget(pod *corev1.Pod) {
	if name, grouped := groupName(pod); grouped {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.known.Remove(name)
	}
}

// manyStates is how many states are remembered in which there was no plan.
const manyStates = 256

// noPlan notes that there was no plan in a state. Zero is a state that is not known.
func (m *groupMark) noPlan(state uint64, said outlook) {
	if state == 0 {
		return
	}
	if m.none == nil || len(m.none) >= manyStates {
		m.none = make(map[uint64]outlook)
	}
	m.none[state] = said
}

// compare puts pods in the order of the last attempt, new ones last.
func (m *groupMark) compare(a, b *corev1.Pod) int {
	position := func(pod *corev1.Pod) int {
		if at, known := m.order[nameOf(pod)]; known {
			return at
		}
		return math.MaxInt
	}
	return cmp.Or(cmp.Compare(position(a), position(b)), compareNames(a, b))
}

// planFor has the scheduling algorithm try a plan for a group that did not get devices, until all plugins agree. It returns the
// nominations for the next attempt, which follows the plan, and says so. Without a plan it says how many pods get devices together, if that is
// known.
func (p *Plugin) planFor(ctx context.Context, cycles *groupCycle, group fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, string) {
	object, pods := group.GetPodGroup(), group.GetUnscheduledPods()
	if !cycles.needDevices() || object == nil || object.Spec.SchedulingPolicy.Gang == nil || schedule == nil || len(pods) == 0 {
		return nil, ""
	}
	mark := p.planAfterFailure(ctx, cycles, group)
	mark.forced = false
	if !cycles.planned() {
		if nodes := p.plannedLater(ctx, cycles, pods); nodes != nil {
			return nominate(pods, nodes), waitsForVictims
		}
		return nil, cycles.outlook()
	}
	for range manyTrials {
		mark.forced, mark.last = true, nil
		assigned, status := schedule(ctx)
		tried := mark.last
		if status.IsSuccess() && tried.planned() {
			return nominate(pods, assignedTo(assigned, pods)), planned
		}
		if !tried.imposed() || !tried.learn(klog.FromContext(ctx)) {
			break
		}
	}
	mark.forced = false
	return nil, ""
}

// planAfterFailure plans in each placement of a cycle in which the group failed, and returns its mark. What other plugins said of
// plans that were tried is learned, or forgotten if nothing new is learned.
func (p *Plugin) planAfterFailure(ctx context.Context, cycles *groupCycle, group fwk.PodGroupInfo) *groupMark {
	mark := cycles.mark()
	switch {
	case mark == nil: // the pods were tried one by one
		mark = p.plans.make(group)
	case !cycles.hasPlan() || cycles.learn(klog.FromContext(ctx)):
		return mark
	default:
		stale := len(mark.limits) > 0 // what was learned earlier may not hold any more
		if p.plans.make(group); !stale {
			return mark
		}
		clear(mark.none)
	}
	for a := range cycles.withDevices() {
		fresh := a.anew(mark)
		a.mark, a.plan = mark, p.plan(ctx, newGroupCycle(), fresh, a.first.view.State)
		a.outlook = fresh.outlook
	}
	return mark
}

// plannedLater returns the nodes of a plan for the time when devices are free of pods that were preempted, nil if there is none.
func (p *Plugin) plannedLater(ctx context.Context, cycles *groupCycle, pods []*corev1.Pod) []string {
	for a := range cycles.withDevices() {
		settled := a.first.preemption.Settled()
		if settled == nil {
			continue
		}
		if later := p.plan(ctx, newGroupCycle(), a.anew(a.mark), settled.State()); later != nil && later.Verdict == allocator.Satisfiable {
			return later.nodes(pods)
		}
	}
	return nil
}

// waitsForVictims is said of pods and groups that preempted others.
const waitsForVictims = "waiting for the devices of pods that were preempted"

// anew is the attempt before any pod was tried, for a group with a mark.
func (g *groupAttempt) anew(mark *groupMark) *groupAttempt {
	return &groupAttempt{first: g.first, nodes: g.nodes, mark: mark, common: g.common, held: g.held}
}

// nodes are the nodes of pods, empty for those that have none.
func (g *groupPlan) nodes(pods []*corev1.Pod) []string {
	nodes := make([]string, len(pods))
	for i, pod := range pods {
		if planned := g.pods[nameOf(pod)]; planned != nil {
			nodes[i] = planned.node
		}
	}
	return nodes
}

// learn finds the first node that took fewer pods than planned because another plugin refused one, and notes how many it took.
func (g *groupAttempt) learn(logger klog.Logger) bool {
	if g.plan == nil {
		return false
	}
	took := make(map[string]int)
	for _, name := range g.plan.order {
		c, planned := g.pods[name], g.plan.pods[name]
		if c == nil {
			return false // it was not tried
		}
		if c.placed == planned.node {
			took[planned.node]++
			continue
		}
		if c.placed != "" || len(c.refusals.List()) > 0 {
			return false
		}
		logger.V(4).Info("A node takes fewer pods of the group than planned", "node", planned.node, "pods", took[planned.node])
		g.mark.limits[planned.node] = took[planned.node]
		return true
	}
	return false
}

// stateKeyOf is equal for attempts that see the same devices in use and the same room on the same nodes. It is 0 for a what-if.
func (p *Plugin) stateKeyOf(a *groupAttempt) uint64 {
	c, common := a.first, a.common
	claims, err := p.dra.ResourceClaims().List()
	if c.preemption.Absent() || err != nil {
		return 0
	}
	var sum uint64
	add := func(texts ...string) {
		h := fnv.New64a()
		for _, text := range texts {
			_, _ = h.Write([]byte(text))
			_, _ = h.Write([]byte{0})
		}
		sum += h.Sum64() // in any order
	}
	if !common.IsZero() {
		add("common", fmt.Sprintf("%+v", common))
	}
	// What is in use is that of the view: the manager may know more by now. Of claims, it also matters which pods share them.
	add("held", strconv.FormatUint(c.view.Held, 16))
	for _, claim := range claims {
		if claim.Status.Allocation != nil {
			add("allocated", string(claim.UID), claim.ResourceVersion)
		}
	}
	p.addAsked(a, add)
	for _, nodeInfo := range a.nodes {
		used := nodeInfo.GetRequested()
		sum += uint64(used.GetMilliCPU())*3 + uint64(used.GetMemory())*5 + uint64(len(nodeInfo.GetPods()))*7
		add(nodeInfo.Node().Name, nodeInfo.Node().ResourceVersion)
	}
	for pool := range c.view.State.Snapshot().Pools() {
		for slice := range pool.Slices() {
			add(string(slice.UID), slice.ResourceVersion)
		}
	}
	return max(1, sum)
}

// addAsked adds what the pods of a group ask for: which pods there are, how many have to start, and what the classes are. The spec of a
// claim does not change.
func (p *Plugin) addAsked(a *groupAttempt, add func(texts ...string)) {
	if classes, err := p.dra.DeviceClasses().List(); err == nil {
		for _, class := range classes {
			add("class", string(class.UID), class.ResourceVersion)
		}
	}
	if a.mark == nil {
		return
	}
	if object, err := p.handle.SnapshotSharedLister().PodGroups().Get(a.mark.name.Namespace, a.mark.name.Name); err == nil && object.Spec.SchedulingPolicy.Gang != nil {
		add("minCount", strconv.Itoa(int(object.Spec.SchedulingPolicy.Gang.MinCount)))
	}
	if live, err := p.handle.PodGroupManager().PodGroupStates().Get(a.mark.name.Namespace, a.mark.name.Name); err == nil {
		add("scheduled", strconv.Itoa(live.ScheduledPodsCount()))
		for _, pod := range live.UnscheduledPods() {
			add("pod", string(pod.UID), strconv.Itoa(len(pod.Spec.SchedulingGates)), strconv.FormatBool(pod.DeletionTimestamp != nil))
		}
	}
}

// obtainable reports whether a device is there and nobody has it.
func obtainable(state *pools.State, result *resourceapi.DeviceRequestAllocationResult) bool {
	pool, found := state.Snapshot().Pool(pools.PoolID{Driver: result.Driver, Name: result.Pool})
	if !found {
		return false
	}
	usage := state.Pool(pool)
	for device := range pool.Lookup(result.Device) {
		if usage.Obtainable(device) {
			return true
		}
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

// withDevices are the attempts in which a pod needed devices.
func (g *groupCycle) withDevices() iter.Seq[*groupAttempt] {
	return func(yield func(*groupAttempt) bool) {
		if g == nil {
			return
		}
		for _, a := range g.attempts {
			if a.first != nil && !yield(a) {
				return
			}
		}
	}
}

// needDevices reports whether a pod needed devices.
func (g *groupCycle) needDevices() bool {
	for range g.withDevices() {
		return true
	}
	return false
}

// mark is that of the group, nil if it was not to be planned.
func (g *groupCycle) mark() *groupMark {
	for a := range g.withDevices() {
		if a.mark != nil {
			return a.mark
		}
	}
	return nil
}

// hasPlan reports whether a plan was looked for in a placement.
func (g *groupCycle) hasPlan() bool {
	for a := range g.withDevices() {
		if a.plan != nil {
			return true
		}
	}
	return false
}

// planned reports whether there is a plan for a placement.
func (g *groupCycle) planned() bool {
	for a := range g.withDevices() {
		if a.plan != nil && a.plan.Verdict == allocator.Satisfiable {
			return true
		}
	}
	return false
}

// imposed reports whether pods had to take the places of a plan.
func (g *groupCycle) imposed() bool {
	for a := range g.withDevices() {
		if a.imposed() {
			return true
		}
	}
	return false
}

// learn has each attempt learn how many pods nodes take.
func (g *groupCycle) learn(logger klog.Logger) bool {
	learned := false
	for a := range g.withDevices() {
		learned = a.learn(logger) || learned
	}
	return learned
}

// outlook is that of the placement in which most pods get devices together: the first one of them by what is said.
func (g *groupCycle) outlook() string {
	var best outlook
	for a := range g.withDevices() {
		if o := a.outlook; best.text == "" || o.text != "" && (o.placed > best.placed || o.placed == best.placed && o.text < best.text) {
			best = o
		}
	}
	return best.text
}

// assignedTo are the nodes that pods were assigned to, empty for those that were not.
func assignedTo(assigned *fwk.PodGroupAssignments, pods []*corev1.Pod) []string {
	to := make(map[types.NamespacedName]string)
	for _, one := range assigned.ProposedAssignments {
		to[nameOf(one.GetPod())] = one.GetNodeName()
	}
	nodes := make([]string, len(pods))
	for i, pod := range pods {
		nodes[i] = to[nameOf(pod)]
	}
	return nodes
}
