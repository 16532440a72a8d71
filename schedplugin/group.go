// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"errors"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
)

// groupCycle is what the pods of a PodGroup share while the group is being scheduled. The
// framework uses it from one goroutine at a time.
type groupCycle struct {
	// reserved has, by claim, the pods for which Reserve took or shared an allocation that
	// is still in flight.
	reserved map[types.UID]sets.Set[types.UID]
	pods     map[types.NamespacedName]*cycle
	// undecided is set once a search for one of the pods was given up.
	undecided atomic.Bool
	// attempt is the last one, or the one that goes on, and the last of attempts.
	attempt  *groupAttempt
	attempts []*groupAttempt
	// wrong is set if what the devices of all pods are to have in common cannot be understood.
	wrong *wrongGroup
}

// groupAttempt is what the pods of one PodGroup share in one placement: a set of nodes, all of them for a group without topology
// constraints. The groups of a composite group have an attempt each.
type groupAttempt struct {
	placement fwk.PlacementCycleState
	pods      map[types.NamespacedName]*cycle
	// nodes are those of the placement, once first is set.
	nodes []fwk.NodeInfo
	// first is the first of the pods that needs devices. Mark is set if the group is to be planned, and plan if it was.
	first *cycle
	mark  *groupMark
	plan  *groupPlan
	// outlook is what is said of the placement if there is no plan.
	outlook outlook
	// common is what the devices of all pods have in common, held the allocated claims of those that have a place. Wrong says
	// what cannot be understood of that.
	common extension.Group
	held   []*resourceapi.ResourceClaim
	wrong  string
}

// Clone implements StateData.
func (g *groupCycle) Clone() fwk.StateData { return g }

func newGroupCycle() *groupCycle {
	return &groupCycle{
		reserved: make(map[types.UID]sets.Set[types.UID]),
		pods:     make(map[types.NamespacedName]*cycle),
	}
}

// groupCycleOf returns the state of the group, nil if the pod is not being scheduled as part
// of one.
func groupCycleOf(state fwk.CycleState) (*groupCycle, error) {
	return readGroupCycle(state.GetPodGroupSchedulingCycle())
}

// readGroupCycle returns nil if there is none yet.
func readGroupCycle(state fwk.PodGroupCycleState) (*groupCycle, error) {
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
	group, ok := stored.(*groupCycle)
	if !ok {
		return nil, fmt.Errorf("state of the pod group is %T", stored)
	}
	return group, nil
}

// joinGroup makes the pod's state known to its group, if it is scheduled as part of one.
func joinGroup(state fwk.CycleState, pod *corev1.Pod, c *cycle) (*groupCycle, error) {
	groupState := state.GetPodGroupSchedulingCycle()
	if groupState == nil {
		return nil, nil
	}
	group, err := readGroupCycle(groupState)
	if err != nil {
		return nil, err
	}
	if group == nil {
		group = newGroupCycle()
		groupState.Write(stateKey, group)
	}
	if placement := state.GetPlacementCycleState(); group.attempt == nil || group.attempt.placement != placement {
		group.attempt = &groupAttempt{placement: placement, pods: make(map[types.NamespacedName]*cycle)}
		group.attempts = append(group.attempts, group.attempt)
	}
	group.pods[nameOf(pod)], group.attempt.pods[nameOf(pod)] = c, c
	c.group, c.attempt, c.undecided = group, group.attempt, &group.undecided
	return group, nil
}

// of returns the cycle of a pod, nil if the pod was not tried.
func (g *groupCycle) of(pod *corev1.Pod) *cycle {
	return g.pods[nameOf(pod)]
}

// shares reports whether a claim is in flight on behalf of pods of the group.
func (g *groupCycle) shares(claim types.UID) bool {
	return g != nil && g.reserved[claim] != nil
}

// reserve notes that a pod has a claim in flight.
func (g *groupCycle) reserve(claim, pod types.UID) {
	if g == nil {
		return
	}
	if g.reserved[claim] == nil {
		g.reserved[claim] = sets.New[types.UID]()
	}
	g.reserved[claim].Insert(pod)
}

// landed notes that a claim is no longer in flight.
func (g *groupCycle) landed(claim types.UID) {
	if g != nil {
		delete(g.reserved, claim)
	}
}

// assignConsumers finds out which of the claims are those of the pod's group.
func (p *Plugin) assignConsumers(pod *corev1.Pod, claims []*claimstate.Claim) error {
	group, err := p.podGroup(pod)
	if err != nil {
		return err
	}
	return p.source.AssignConsumers(pod, group, claims)
}

// podGroup returns the group of a pod, nil if it has none.
func (p *Plugin) podGroup(pod *corev1.Pod) (*schedulingapi.PodGroup, error) {
	if !p.features.EnableDRAWorkloadResourceClaims ||
		pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return nil, nil
	}
	return p.handle.SnapshotSharedLister().PodGroups().Get(pod.Namespace, *pod.Spec.SchedulingGroup.PodGroupName)
}
