// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	priority "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/config"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/model"
)

// Preemption answers what-ifs about pods that are evicted or nominated, for one profile. It is safe for concurrent use.
type Preemption struct {
	Snapshot func() fwk.SharedLister
	Source   claimstate.Source
	Pods     claimstate.Index
	Model    *model.Model
	Switches *config.SwitchFile
	// Allocator is the one for what-ifs.
	Allocator *allocator.Allocator
	// NominatedTo returns the pods that the scheduling queue has nominated to a node.
	NominatedTo func(node string) []fwk.PodInfo
	// Modified reports whether the scheduler's snapshot is being modified for a what-if.
	Modified func() bool
	// Tried reports whether an attempt to schedule the pod failed before.
	Tried func(types.UID) bool

	asides   asideCache
	holders  holders
	problems problems
}

// Waits is the status message for pods and groups whose victims have not freed their devices yet.
const Waits = "waiting for the devices of pods that were preempted"

// Preemptor is a pod that is being scheduled.
type Preemptor struct {
	Pod    *corev1.Pod
	Claims []*claimstate.Claim
	// Nodes are those of the cluster, with their pods.
	Nodes []fwk.NodeInfo
	// Grouped is set if the pod is scheduled as part of a group.
	Grouped bool
}

// Cycle answers what-ifs for one pod that is being scheduled. A nil Cycle is no what-if. Pods are added to
// and removed from clones. Clones share what does not depend on that. Each may be used by one goroutine.
type Cycle struct {
	// whatIf is set in clones once pods were added or removed. Nil: the cluster as it is.
	whatIf *whatIf
	// lastGivenUp is non-nil while preemption removes pods. It is true if the last search was given up.
	// Clones of clones share it.
	lastGivenUp *atomic.Bool
	*facts
}

// facts are computed on first use, once per cycle.
type facts struct {
	Preemptor
	of *Preemption
	// view is what the pod sees before pods are added or removed.
	view *model.View
	// groupPreemption is set if preemption for the pod's group removed pods before the cycle began. The view lacks their claims.
	groupPreemption *whatIf

	ownOnce        sync.Once
	own            sets.Set[types.UID]
	onNodesOnce    sync.Once
	onNodes        *podIndex
	settledOnce    sync.Once
	settled        *pools.Ledger
	evictedOnce    sync.Once
	evicted        *pools.Ledger
	nominationOnce sync.Once
	nomination     fwk.NodeInfo
}

// Begin begins the cycle of a pod with what is in use. In preemption for a group, the framework first removes all pods of
// lower priority from its snapshot. Then it schedules the group anew from PreFilter on, and restores pods one by one through
// AddPod. In such a cycle, and only there, the devices of removed pods are free.
func (p *Preemption) Begin(pod Preemptor, view *model.View) (*Cycle, error) {
	c := &Cycle{facts: &facts{Preemptor: pod, of: p, view: view}}
	if !pod.Grouped || !p.Switches.Preemption() {
		return c, nil
	}
	c.podsOnNodes()
	absent := p.holders.Missing()
	if len(absent) == 0 || !p.Modified() {
		return c, nil
	}
	supposed := &whatIf{}
	if err := supposed.Begin(view); err != nil {
		return nil, err
	}
	for _, pod := range absent {
		supposed.Remove(pod, p.Source.Of(pod), c.Own())
	}
	c.groupPreemption, c.lastGivenUp, c.view = supposed, new(atomic.Bool), view.WithLedger(supposed.Ledger())
	return c, nil
}

// Restart begins the cycle once more, with what is in use now.
func (c *Cycle) Restart(view *model.View) (*Cycle, error) { return c.of.Begin(c.Preemptor, view) }

// Clone returns a copy to and from which pods can be added and removed.
func (c *Cycle) Clone() *Cycle {
	if c == nil {
		return nil
	}
	clone := *c
	clone.whatIf = c.whatIf.Clone()
	return &clone
}

// View returns what the pod sees before pods are added or removed.
func (c *Cycle) View() *model.View { return c.view }

// Usage is what is in use, as this pod sees it.
func (c *Cycle) Usage() *pools.State {
	if c.whatIf != nil {
		if supposed := c.whatIf.Usage(); supposed != nil {
			return supposed
		}
	}
	return c.view.State
}

// IsWhatIf reports whether pods were added or removed.
func (c *Cycle) IsWhatIf() bool { return c != nil && c.whatIf != nil }

// Removed reports whether pods were removed.
func (c *Cycle) Removed() bool { return c != nil && c.whatIf.Removed() }

// InGroupPreemption reports whether preemption for the pod's group removed pods before the cycle began.
func (c *Cycle) InGroupPreemption() bool { return c != nil && c.groupPreemption != nil }

// HasSetAside reports whether devices were set aside for nominated pods.
func (c *Cycle) HasSetAside() bool { return c != nil && len(c.whatIf.SetAsideClaims()) > 0 }

// GiveUp records that a search was given up. It returns false if the search was no what-if about evicting pods.
func (c *Cycle) GiveUp() bool {
	if c == nil || c.lastGivenUp == nil {
		return false
	}
	c.lastGivenUp.Store(true)
	return true
}

// Own returns the claims of the pod. Evicting others does not free their devices for it.
func (c *Cycle) Own() sets.Set[types.UID] {
	c.ownOnce.Do(func() {
		c.own = sets.New[types.UID]()
		for _, claim := range c.Claims {
			c.own.Insert(claim.Object.UID)
		}
	})
	return c.own
}

// beginWhatIf begins a what-if, if there is none yet. It returns false if the other pod holds no claims.
func (c *Cycle) beginWhatIf(other *corev1.Pod) bool {
	if c.lastGivenUp != nil {
		c.lastGivenUp.Store(false)
	}
	if !claimstate.HoldsClaims(other) {
		return false
	}
	switch {
	case c.whatIf != nil:
	case c.groupPreemption != nil: // with the pods that preemption for the group removed
		c.whatIf = c.groupPreemption.Clone()
	default:
		c.whatIf = &whatIf{}
	}
	return true
}

// Add restores the claims of a pod that was removed. For a nominated pod it sets aside the devices that the
// pod will need, unless the pod is spared: then its devices are part of a plan.
func (c *Cycle) Add(ctx context.Context, added *corev1.Pod, nodeInfo fwk.NodeInfo, spared bool) error {
	switch {
	case c == nil || !c.beginWhatIf(added):
		return nil
	case c.whatIf.Gone(added.UID):
		return c.whatIf.Restore(added, c.of.Source.Of(added))
	case spared || !c.of.Switches.SetAside():
		return nil
	}
	return c.setAside(ctx, added, nodeInfo)
}

// ErrUndecided ends preemption on a node, or for a group.
var ErrUndecided = errors.New("a search for devices was given up: no pod is evicted while it is not known whether that is needed")

// Remove frees the devices of claims that only the removed pod uses. On a node where the pod has victims already, it frees
// theirs, too: more pods are evicted only if that is not enough. It returns ErrUndecided if the last search was given up:
// the pod may fit without evicting this one. A restored pod is removed again after any failure of Filter.
func (c *Cycle) Remove(removed *corev1.Pod, nodeInfo fwk.NodeInfo) error {
	switch {
	case c == nil:
		return nil
	case c.lastGivenUp == nil:
		c.lastGivenUp = new(atomic.Bool)
	case c.lastGivenUp.Load():
		return ErrUndecided
	}
	if !c.beginWhatIf(removed) || !c.of.Switches.Preemption() {
		return nil
	}
	if err := c.whatIf.Begin(c.view); err != nil {
		return err
	}
	c.whatIf.Remove(removed, c.of.Source.Of(removed), c.Own())
	if !c.comesFree(nodeInfo) {
		return nil
	}
	return c.whatIf.UseSettled(c.Settled())
}

// Evicted returns what would be in use if all pods of lower priority were evicted, nil if that cannot help on
// the node. One state without the pods of all nodes saves a state for each node. If devices belong to several
// nodes, that may promise too much.
func (c *Cycle) Evicted(nodeInfo fwk.NodeInfo) *pools.State {
	if !c.mayPreempt() || c.Removed() || !evictable(c.Pod, nodeInfo) { // removed: the pods are gone already
		return nil
	}
	ledger := c.withoutLower(c.comesFree(nodeInfo))
	if ledger == nil {
		return nil
	}
	if aside := c.whatIf.SetAsideClaims(); len(aside) > 0 {
		ledger = ledger.Branch()
		for _, claim := range aside {
			if ledger.Assume(claim) != nil {
				return nil
			}
		}
	}
	return ledger.State()
}

// evictable reports whether a pod of lower priority on the node holds claims.
func evictable(pod *corev1.Pod, nodeInfo fwk.NodeInfo) bool {
	for _, other := range nodeInfo.GetPods() {
		if claimstate.HoldsClaims(other.GetPod()) && priority.PodPriority(other.GetPod()) < priority.PodPriority(pod) {
			return true
		}
	}
	return false
}

// LowerInFlight reports whether a pod of lower priority on the node has devices that are only reserved. Who uses a claim in flight is
// in no object yet. So evicting that pod may help although Evicted does not say so, once it is bound or given up.
func (c *Cycle) LowerInFlight(nodeInfo fwk.NodeInfo) bool {
	if c.Removed() || !c.mayPreempt() {
		return false
	}
	return slices.ContainsFunc(nodeInfo.GetPods(), func(other fwk.PodInfo) bool {
		return priority.PodPriority(other.GetPod()) < priority.PodPriority(c.Pod) && c.of.Source.InFlight(other.GetPod())
	})
}

// mayPreempt reports whether the pod may preempt others for devices.
func (c *Cycle) mayPreempt() bool {
	policy := c.Pod.Spec.PreemptionPolicy
	return c.of.Switches.Preemption() && (policy == nil || *policy != corev1.PreemptNever)
}

// withoutLower returns the ledger without all pods of lower priority, and, if the pod waits for victims,
// without claims that nobody needs any more. It is nil after an error.
func (c *Cycle) withoutLower(waits bool) *pools.Ledger {
	least, pods := priority.PodPriority(c.Pod), c.podsOnNodes()
	if waits { // only the nominated node
		return c.without(lowerID{least, true}, func(claim *resourceapi.ResourceClaim) (bool, bool) {
			if allConsumersBelow(pods, claim, least) {
				return true, true
			}
			return abandoned(pods, c.of.Pods, claim, c.of.Model.InPreBind)
		})
	}
	c.evictedOnce.Do(func() {
		c.evicted = c.without(lowerID{least, false}, func(claim *resourceapi.ResourceClaim) (bool, bool) {
			return allConsumersBelow(pods, claim, least), true
		})
	})
	return c.evicted
}

// lowerID identifies a ledger without pods below a priority.
type lowerID struct {
	priority int32
	settled  bool
}

// Settled returns the ledger without claims that nobody needs any more, nil if there are none: all their
// consumers are gone, or being deleted because they were preempted. The resource claim controller is going to
// deallocate them.
func (c *Cycle) Settled() *pools.Ledger {
	c.settledOnce.Do(func() {
		if !c.of.Pods.Synced() {
			return // without the informer it is unknown which pods are gone
		}
		pods := c.podsOnNodes()
		c.settled = c.without(settledID{}, func(claim *resourceapi.ResourceClaim) (bool, bool) {
			return abandoned(pods, c.of.Pods, claim, c.of.Model.InPreBind)
		})
	})
	return c.settled
}

// settledID identifies the ledger without claims that nobody needs any more.
type settledID struct{}

// without returns a ledger without certain claims, nil if there are none of them. The claims of the pod stay:
// evicting others does not free their devices for it.
func (c *Cycle) without(id any, gone model.Gone) *pools.Ledger {
	var own []*resourceapi.ResourceClaim
	for _, claim := range c.Claims {
		own = append(own, claim.Object)
	}
	ledger, err := c.view.Without(id, gone, own)
	if err != nil {
		return nil
	}
	return ledger
}

// comesFree reports whether victims of the pod are going to free devices on the node.
func (c *Cycle) comesFree(nodeInfo fwk.NodeInfo) bool {
	if c.Settled() == nil {
		return false
	}
	nominated := c.Nominated()
	return nominated != nil && nominated.Node().Name == nodeInfo.Node().Name
}

// podsOnNodes returns the pods on the nodes of the cycle.
func (c *Cycle) podsOnNodes() *podIndex {
	c.onNodesOnce.Do(func() {
		var changed []types.UID
		c.onNodes, changed = c.of.holders.Follow(c.Nodes, c.of.Pods.Running)
		c.of.Model.PodsChanged(changed)
	})
	return c.onNodes
}
