// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/model"
)

// target is a node on which devices are set aside, and what is in use there.
type target struct {
	// View is the snapshot for the pod being scheduled. Settled is the same without claims that nobody needs
	// any more, nil if there are none.
	View    *model.View
	Settled *pools.Ledger
	Node    fwk.NodeInfo
	// Own are the UIDs of the claims of the pod being scheduled.
	Own sets.Set[types.UID]
	// ClaimsOf returns the claims that a pod holds.
	ClaimsOf func(*corev1.Pod) []*resourceapi.ResourceClaim
	// Problem has the claims of the nominated pod, compiled with the present DeviceClasses. Nil: they get no devices.
	Problem *allocator.Problem
	// Allocate returns claims with devices on the node, nil if they cannot be allocated.
	Allocate func(claims []*resourceapi.ResourceClaim, usage *pools.State) []*resourceapi.ResourceClaim
}

func (p *target) settled() *pools.State {
	if p.Settled != nil {
		return p.Settled.State()
	}
	return p.View.State
}

// owns reports whether the pod being scheduled shares one of the claims.
func (p *target) owns(claims []*resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(claims, func(claim *resourceapi.ResourceClaim) bool { return p.Own.Has(claim.UID) })
}

// SetAside marks as in use the devices which the open claims of a nominated pod will get once its victims are
// gone. If there are none for it on the node, nothing is set aside. The result is cached for as long as
// neither the node, its devices and what is in use of them, nor a DeviceClass changes. The list of claims is
// copied.
func (a *asideCache) SetAside(w *whatIf, at *target, pod types.UID, open []*resourceapi.ResourceClaim) error {
	if w.now == nil {
		if known := a.find(at, w.steps, pod, open); known != nil {
			w.adopt(known)
			return nil
		}
	}
	state, next := nodeStateOf(at), step{pod: pod, claims: slices.Clone(open), problem: at.Problem}
	if err := w.charge(at, state, &next); err != nil {
		return err
	}
	// What-ifs with removed pods rarely repeat, so they are not cached.
	if w.gone.Len() == 0 {
		next.aside, next.usage = slices.Clip(w.aside), w.now.ledger.State()
		w.steps = append(slices.Clip(w.steps), next)
		a.remember(at.View, state, w.steps)
	}
	return nil
}

// charge allocates the claims of a step, and marks their devices as in use.
func (w *whatIf) charge(at *target, on *nodeState, next *step) error {
	if err := w.Begin(at.View); err != nil {
		return err
	}
	if err := w.Settle(at.Settled); err != nil {
		return err
	}
	after := w
	if len(on.terminating) > 0 {
		after = after.Clone()
		for _, pod := range on.terminating {
			after.Remove(pod, at.ClaimsOf(pod), at.Own)
		}
	}
	for _, claim := range at.Allocate(next.claims, after.settled.ledger.State()) {
		// The devices of terminating pods count twice until these are gone.
		if err := w.reserve(claim); err != nil {
			return err
		}
	}
	return nil
}

// step is what was set aside for one nominated pod, and for those before it on the node. It is immutable.
type step struct {
	pod types.UID
	// claims are the open claims of the pod at that time, problem what they compiled to.
	claims  []*resourceapi.ResourceClaim
	problem *allocator.Problem
	// aside are the claims of all these pods that got devices.
	aside []*resourceapi.ResourceClaim
	// usage is what is in use afterwards. It is valid for this node only.
	usage *pools.State
}

func (s *step) same(pod types.UID, claims []*resourceapi.ResourceClaim, problem *allocator.Problem) bool {
	return s.pod == pod && s.problem == problem && slices.Equal(s.claims, claims)
}

// adopt continues with the state after the last of cached steps.
func (w *whatIf) adopt(steps []step) {
	last := &steps[len(steps)-1]
	w.steps, w.aside, w.remembered = steps, last.aside, last.usage
}

// asideCache has what was set aside on each node. It is safe for concurrent use.
type asideCache struct {
	mu sync.RWMutex
	// snapshot is the latest one. Round counts snapshots.
	snapshot *pools.Snapshot
	round    uint64
	nodes    map[string]*nodeHistory
}

// nodeHistory is what was set aside on a node, in one state of it.
type nodeHistory struct {
	*nodeState
	steps []step
	// round is the last snapshot for which it was checked that the same pools reach the node.
	round atomic.Uint64
}

// maxAsides is the number of nodes in the cache.
const maxAsides = 10_000

// find returns the cached steps up to and including the one for this pod, nil if they are not cached.
func (a *asideCache) find(at *target, steps []step, pod types.UID, claims []*resourceapi.ResourceClaim) []step {
	known, round := a.of(at.View.State.Snapshot(), at.Node.Node().Name)
	if known == nil || len(known.steps) <= len(steps) || !known.steps[len(steps)].same(pod, claims, at.Problem) || !known.same(at) {
		return nil
	}
	if known.round.Load() != round {
		if !known.samePools(at.View) {
			return nil
		}
		known.round.Store(round)
	}
	for i := range steps {
		if !known.steps[i].same(steps[i].pod, steps[i].claims, steps[i].problem) {
			return nil
		}
	}
	return known.steps[: len(steps)+1 : len(steps)+1]
}

// of returns what is cached for a node, nil for nothing, and the round of the snapshot.
func (a *asideCache) of(snapshot *pools.Snapshot, node string) (*nodeHistory, uint64) {
	a.mu.RLock()
	known, round, same := a.nodes[node], a.round, a.snapshot == snapshot
	a.mu.RUnlock()
	if same {
		return known, round
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nextRound(snapshot)
	return known, a.round
}

// nextRound begins a new round if the snapshot is a new one.
func (a *asideCache) nextRound(snapshot *pools.Snapshot) {
	if a.snapshot != snapshot {
		a.snapshot = snapshot
		a.round++
	}
}

func (a *asideCache) remember(view *model.View, on *nodeState, steps []step) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nextRound(view.State.Snapshot())
	if a.nodes == nil || len(a.nodes) >= maxAsides {
		a.nodes = make(map[string]*nodeHistory)
	}
	known := &nodeHistory{nodeState: on, steps: steps}
	known.round.Store(a.round)
	a.nodes[on.node.Name] = known
}
