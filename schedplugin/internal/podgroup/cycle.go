// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/lru"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/preempt"
	"github.com/dray-project/dray/schedplugin/internal/refusal"
)

// Hooks are what planning needs of the extension points.
type Hooks struct {
	Handle     fwk.Handle
	Source     claimstate.Source
	Preemption *preempt.Preemption
	// Allocators are asked what would be, by how often the limits of a search are raised. Budget is that of the first one.
	Allocators []*allocator.Allocator
	Budget     int64
	// BudgetLevel is how often the limits are raised for a pod.
	BudgetLevel func(types.UID) int
	// Nodes are those on which the pods of a group are being tried, of all nodes.
	Nodes func(all []fwk.NodeInfo) []fwk.NodeInfo
	// Collect returns the claims of a pod, and its extended resources that devices can serve. It is false if the pod has to wait.
	Collect func(klog.Logger, *corev1.Pod, *Cycle) ([]*claimstate.Claim, []corev1.ResourceName, bool)
	// Usable reports whether a node can use what is allocated for claims.
	Usable func([]*claimstate.Claim, *corev1.Node) bool
	// DryRun returns the claims of a pod with the devices that they would get on a node, nil if there are none.
	DryRun func(context.Context, *pools.State, *Member, fwk.NodeInfo) []*resourceapi.ResourceClaim
}

// Groups knows what is the same for all groups of a profile. It is safe for concurrent use.
type Groups struct {
	Hooks
	plannedGroups *lru.Cache
}

// New returns Groups of which none is to be planned.
func New(hooks Hooks) *Groups { return &Groups{hooks, lru.New(maxPlannedGroups)} }

// Cycle is what the pods of a PodGroup share while the group is being scheduled. The framework uses it from one goroutine at a
// time. A nil Cycle is that of a group of which no pod was tried, or of a pod by itself.
type Cycle struct {
	// reserved has, by claim, the pods for which Reserve took or shared an allocation that
	// is still in flight.
	reserved map[types.UID]sets.Set[types.UID]
	members  map[types.NamespacedName]*Member
	// undecided is set once a search for one of the pods was given up.
	undecided atomic.Bool
	// attempt is the last one, or the one that goes on, and the last of attempts.
	attempt  *attempt
	attempts []*attempt
	// invalid is set if what the devices of all pods are to have in common cannot be understood. Why says so.
	invalid       *schedulingapi.PodGroup
	invalidReason string
}

// attempt is what the pods of one PodGroup share in one placement: a set of nodes, all of them for a group without topology
// constraints. The groups of a composite group have an attempt each.
type attempt struct {
	placement fwk.PlacementCycleState
	members   map[types.NamespacedName]*Member
	// nodes are those of the placement, once first is set.
	nodes []fwk.NodeInfo
	// first is the first of the pods that needs devices. Mark is set if the group is to be planned, and plan if it was.
	first *Member
	group *plannedGroup
	plan  *plan
	// outlook is what is said of the placement if there is no plan.
	outlook outlook
	// common is what the devices of all pods have in common, held the allocated claims of those that have a place. Wrong says
	// what cannot be understood of that.
	common  extension.Group
	held    []*resourceapi.ResourceClaim
	invalid string
}

// State is what the extension points know of a pod that is scheduled as part of a group.
type State interface {
	// Preemption is nil if nothing has to be allocated.
	Preemption() *preempt.Cycle
	// Refusals are why nodes do not have the devices.
	Refusals() []*refusal.Refusal
}

// Member is a pod that is scheduled as part of a group, in one attempt. A nil Member is a pod that is scheduled by itself.
type Member struct {
	Pod   *corev1.Pod
	State State

	groups  *Groups
	cycle   *Cycle
	attempt *attempt
	// node is the one that was found for the pod, also if the group could not be placed.
	node string
	// place is what the pod has to take for its group to get devices. Nil is any.
	place *place
}

// Clone implements StateData.
func (c *Cycle) Clone() fwk.StateData { return c }

func newCycle() *Cycle {
	return &Cycle{
		reserved: make(map[types.UID]sets.Set[types.UID]),
		members:  make(map[types.NamespacedName]*Member),
	}
}

const stateKey fwk.StateKey = "Dray"

// Of returns the cycle of a group, nil if there is none.
func Of(state fwk.PodGroupCycleState) (*Cycle, error) {
	if state == nil {
		return nil, nil
	}
	stored, err := state.Read(stateKey)
	if errors.Is(err, fwk.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state of the pod group: %w", err)
	}
	cycle, ok := stored.(*Cycle)
	if !ok {
		return nil, fmt.Errorf("state of the pod group is %T", stored)
	}
	return cycle, nil
}

// Join makes what is known of a pod known to its group. It returns nil if the pod is not scheduled as part of one.
func (g *Groups) Join(state fwk.CycleState, pod *corev1.Pod, known State) (*Member, error) {
	groupState := state.GetPodGroupSchedulingCycle()
	if groupState == nil {
		return nil, nil
	}
	cycle, err := Of(groupState)
	if err != nil {
		return nil, err
	}
	if cycle == nil {
		cycle = newCycle()
		groupState.Write(stateKey, cycle)
	}
	if placement := state.GetPlacementCycleState(); cycle.attempt == nil || cycle.attempt.placement != placement {
		cycle.attempt = &attempt{placement: placement, members: make(map[types.NamespacedName]*Member)}
		cycle.attempts = append(cycle.attempts, cycle.attempt)
	}
	m := &Member{Pod: pod, State: known, groups: g, cycle: cycle, attempt: cycle.attempt}
	cycle.members[nameOf(pod)], cycle.attempt.members[nameOf(pod)] = m, m
	return m, nil
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

// Member returns what is known of a pod of the group, nil if the pod was not tried.
func (c *Cycle) Member(pod *corev1.Pod) *Member {
	if c == nil {
		return nil
	}
	return c.members[nameOf(pod)]
}

// Refusals are why nodes do not have devices for a pod, in all attempts.
func (c *Cycle) Refusals(pod *corev1.Pod) []*refusal.Refusal {
	var list []*refusal.Refusal
	for _, a := range c.attempts {
		if m := a.members[nameOf(pod)]; m != nil {
			list = append(list, m.State.Refusals()...)
		}
	}
	return list
}

// Undecided reports whether a search for one of the pods was given up.
func (c *Cycle) Undecided() bool { return c != nil && c.undecided.Load() }

// Invalid returns the group if what it asks for cannot be understood, and why, else nil.
func (c *Cycle) Invalid() (*schedulingapi.PodGroup, string) {
	if c == nil {
		return nil, ""
	}
	return c.invalid, c.invalidReason
}

// Shares reports whether a claim is in flight on behalf of pods of the group.
func (c *Cycle) Shares(claim types.UID) bool {
	return c != nil && c.reserved[claim] != nil
}

// Others are the pods of the group, but for one, for which a claim is in flight.
func (c *Cycle) Others(claim, but types.UID) []resourceapi.ResourceClaimConsumerReference {
	if c == nil {
		return nil
	}
	var list []resourceapi.ResourceClaimConsumerReference
	for pod := range c.reserved[claim] {
		if pod != but {
			list = append(list, resourceapi.ResourceClaimConsumerReference{Resource: "pods", UID: pod})
		}
	}
	return list
}

// Reserve notes that a pod has a claim in flight.
func (c *Cycle) Reserve(claim, pod types.UID) {
	if c == nil {
		return
	}
	if c.reserved[claim] == nil {
		c.reserved[claim] = sets.New[types.UID]()
	}
	c.reserved[claim].Insert(pod)
}

// EndedInFlight notes that a claim is no longer in flight.
func (c *Cycle) EndedInFlight(claim types.UID) {
	if c != nil {
		delete(c.reserved, claim)
	}
}

// attemptsWithDevices are the attempts in which a pod needed devices.
func (c *Cycle) attemptsWithDevices() iter.Seq[*attempt] {
	return func(yield func(*attempt) bool) {
		if c == nil {
			return
		}
		for _, a := range c.attempts {
			if a.first != nil && !yield(a) {
				return
			}
		}
	}
}

// anyAttempt reports whether something holds of an attempt in which a pod needed devices.
func (c *Cycle) anyAttempt(holds func(*attempt) bool) bool {
	for a := range c.attemptsWithDevices() {
		if holds(a) {
			return true
		}
	}
	return false
}
