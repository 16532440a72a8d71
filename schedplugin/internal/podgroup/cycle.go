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

// Hooks are functions and values of the plugin that planning needs.
type Hooks struct {
	Handle     fwk.Handle
	Source     claimstate.Source
	Preemption *preempt.Preemption
	// Allocators are those for what-ifs, by budget level. Budget is that of the first one.
	Allocators []*allocator.Allocator
	Budget     int64
	// BudgetLevel is how many times the limits of searches were raised for a pod.
	BudgetLevel func(types.UID) int
	// Nodes returns those of all nodes that belong to the placement being tried.
	Nodes func(all []fwk.NodeInfo) []fwk.NodeInfo
	// Collect returns the claims of a pod, and its extended resources if devices can provide any. It is false if the pod has to wait.
	Collect func(klog.Logger, *corev1.Pod, *Cycle) ([]*claimstate.Claim, []corev1.ResourceName, bool)
	// Usable reports whether a node can use the existing allocations of claims.
	Usable func([]*claimstate.Claim, *corev1.Node) bool
	// DryRun returns the claims of a pod with the devices that they would get on a node, nil if they cannot be allocated.
	DryRun func(context.Context, *pools.State, *Member, fwk.NodeInfo) []*resourceapi.ResourceClaim
}

// Groups plans PodGroups, for one scheduler profile. It is safe for concurrent use.
type Groups struct {
	Hooks
	plannedGroups *lru.Cache
}

// New returns Groups without any planned group.
func New(hooks Hooks) *Groups { return &Groups{hooks, lru.New(maxPlannedGroups)} }

// Cycle is the cycle state of a PodGroup: what its pods share while the group is being scheduled. The framework uses it from
// one goroutine at a time. A nil Cycle stands for a group of which no pod was tried, or a pod without a group.
type Cycle struct {
	// reserved has for each claim in flight the pods that reserved it.
	reserved map[types.UID]sets.Set[types.UID]
	members  map[types.NamespacedName]*Member
	// undecided is set once a search for one of the pods was given up.
	undecided atomic.Bool
	// attempt is the current or last attempt, and the last element of attempts.
	attempt  *attempt
	attempts []*attempt
	// invalid is the group if its annotation is invalid, and invalidReason says why. Nil if the annotation is valid.
	invalid       *schedulingapi.PodGroup
	invalidReason string
}

// attempt is what the pods of one PodGroup share in one placement. A placement is a set of nodes: all nodes
// for a group without topology constraints. Each group of a composite group has an attempt of its own.
type attempt struct {
	placement fwk.PlacementCycleState
	members   map[types.NamespacedName]*Member
	// nodes are those of the placement. They are set together with first.
	nodes []fwk.NodeInfo
	// first is the first pod that needs devices. Group is set if the group is to be planned, and plan if a search was made.
	first *Member
	group *plannedGroup
	plan  *plan
	// outlook says how many pods get devices together, if there is no plan for all.
	outlook outlook
	// common is what the devices of all pods must have in common, held the allocated claims of the group's
	// pods. Invalid says what is wrong with the group's annotation.
	common  extension.Group
	held    []*resourceapi.ResourceClaim
	invalid string
}

// State is the cycle state of a pod that is scheduled as part of a group.
type State interface {
	// Preemption is nil if nothing has to be allocated.
	Preemption() *preempt.Cycle
	// Refusals lists for which reasons nodes were refused.
	Refusals() []*refusal.Refusal
}

// Member is a pod that is scheduled as part of a group, in one attempt. A nil Member is a pod without a group.
type Member struct {
	Pod   *corev1.Pod
	State State

	groups  *Groups
	cycle   *Cycle
	attempt *attempt
	// node is the node that was found for the pod, even if the group as a whole could not be placed.
	node string
	// place is the pod's node and devices in the plan. Nil if the pod may go anywhere.
	place *place
	// refused is set once the plugin itself refused the planned node.
	refused atomic.Bool
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

// Of returns the Cycle of a group from its cycle state, nil if there is none.
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

// Join adds a pod to the Cycle of its group. It returns nil if the pod is not scheduled as part of a group.
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

// groupName returns the name of a pod's group, false if it has none.
func groupName(pod *corev1.Pod) (types.NamespacedName, bool) {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: pod.Namespace, Name: *pod.Spec.SchedulingGroup.PodGroupName}, true
}

// Member returns the latest Member for a pod, nil if the pod was not tried.
func (c *Cycle) Member(pod *corev1.Pod) *Member {
	if c == nil {
		return nil
	}
	return c.members[nameOf(pod)]
}

// Refusals lists for which reasons nodes were refused for a pod, in all attempts.
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

// Invalid returns the group if its annotation is invalid, with the reason, else nil.
func (c *Cycle) Invalid() (*schedulingapi.PodGroup, string) {
	if c == nil {
		return nil, ""
	}
	return c.invalid, c.invalidReason
}

// Shares reports whether a pod of the group has the claim in flight.
func (c *Cycle) Shares(claim types.UID) bool {
	return c != nil && c.reserved[claim] != nil
}

// Others lists the pods of the group, except one, that have a claim in flight.
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

// Reserve records that a pod has a claim in flight.
func (c *Cycle) Reserve(claim, pod types.UID) {
	if c == nil {
		return
	}
	if c.reserved[claim] == nil {
		c.reserved[claim] = sets.New[types.UID]()
	}
	c.reserved[claim].Insert(pod)
}

// EndedInFlight records that a claim is no longer in flight.
func (c *Cycle) EndedInFlight(claim types.UID) {
	if c != nil {
		delete(c.reserved, claim)
	}
}

// attemptsWithDevices yields the attempts in which a pod needed devices.
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

// anyAttempt reports whether one of attemptsWithDevices fulfils the predicate.
func (c *Cycle) anyAttempt(holds func(*attempt) bool) bool {
	for a := range c.attemptsWithDevices() {
		if holds(a) {
			return true
		}
	}
	return false
}
