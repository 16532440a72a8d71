// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/model"
	"github.com/dray-project/dray/schedplugin/internal/nodeallocatable"
	"github.com/dray-project/dray/schedplugin/internal/podgroup"
	"github.com/dray-project/dray/schedplugin/internal/preempt"
	"github.com/dray-project/dray/schedplugin/internal/refusal"
)

const stateKey fwk.StateKey = Name

// cycle is the cycle state of a pod: written by PreFilter and used until the pod is bound or rejected. It is
// small, as the framework clones it for each node to which pods are nominated.
type cycle struct {
	// preemption says what is in use, as it is or with pods added and removed. Nil if nothing has to be allocated.
	preemption *preempt.Cycle
	// findings are the same for all clones.
	*findings
}

// findings are what does not depend on added or removed pods: results of PreFilter, and of Filter, which several goroutines call.
type findings struct {
	// claims are those of the pod in the order of its spec. The one for extended resources,
	// if there is one, comes last. Empty if the plugin has nothing to do for the pod.
	claims []*claimstate.Claim
	// extended are the extended resources that the pod requests. Nil if devices can provide none of them.
	extended []corev1.ResourceName
	// view is the snapshot that PreFilter took of devices and what is in use. Nil if nothing has to be allocated.
	view *model.View
	// withoutExtended has the claims of the pod without that for extended resources.
	withoutExtended *variant
	// member is the pod as a member of its PodGroup. Nil if the pod is scheduled by itself.
	member *podgroup.Member
	// undecided is set once a search was given up, with pods as they are. The pods of a group share one.
	undecided *atomic.Bool
	// undecidedWhatIf is set once a search was given up in a what-if about evicting pods.
	undecidedWhatIf atomic.Bool
	// lowerInFlight is set once a node was refused on which a pod of lower priority has devices that are only reserved.
	lowerInFlight atomic.Bool
	// budgetLevel is how many times the limits of searches were raised for this pod.
	budgetLevel int
	// nodes are those of the cluster, with their pods.
	nodes []fwk.NodeInfo

	// devices is the snapshot of devices, if some stand for resources of their node. Nil if none does.
	// Accounts opens the accounts of the pod once.
	devices  *pools.Snapshot
	accounts func() (*nodeallocatable.Accounts, *fwk.Status)
	// recorded is set if PreBind wrote nodeAllocatableResourceClaimStatuses into the pod's status.
	recorded bool
	// preempted reports whether the pod was preempted since PreBind began.
	preempted func() bool

	// refusals collects for which reasons nodes were refused.
	refusals *refusal.NodeRefusals

	// mu guards the fields below. Sets and maps are allocated on first use.
	mu sync.Mutex
	// unusableClaims are allocated claims that cannot be used on some node.
	unusableClaims sets.Set[*claimstate.Claim]
	// feasibleNodes are the nodes that passed Filter, by name.
	feasibleNodes map[string]*feasibleNode
	// variants has a variant for each list of extended resources that devices have to provide: few, of which each node asks for one.
	variants []*variant
}

// feasibleNode is a node that passed Filter.
type feasibleNode struct {
	node    *corev1.Node
	variant *variant
	// found are the devices of the variant's claims. They are set only if devices have to be accounted for.
	found []resourceapi.AllocationResult
}

func newCycle() *cycle {
	return &cycle{findings: &findings{
		feasibleNodes: make(map[string]*feasibleNode),
		undecided:     new(atomic.Bool),
		preempted:     func() bool { return false },
		refusals:      refusal.NewNodeRefusals(),
	}}
}

// Clone implements StateData. Pods are added to and removed from clones only.
func (c *cycle) Clone() fwk.StateData {
	clone := *c
	clone.preemption = c.preemption.Clone()
	return &clone
}

// Preemption implements podgroup.State.
func (c *cycle) Preemption() *preempt.Cycle { return c.preemption }

// Refusals implements podgroup.State.
func (c *cycle) Refusals() []*refusal.Refusal { return c.refusals.List() }

// giveUpSearch records that a search ended without an answer.
func (c *cycle) giveUpSearch() {
	if !c.preemption.GiveUp() {
		c.undecided.Store(true)
	}
}

func (c *cycle) hasNoClaims() bool { return len(c.claims) == 0 }

// unallocated are the claims that have no allocation in the API server.
func (c *cycle) unallocated() []*claimstate.Claim { return claimstate.Unallocated(c.claims) }

// usage is what is in use, as this pod sees it.
func (c *cycle) usage() *pools.State { return c.preemption.Usage() }

// addFeasible records that the node passed Filter. In a what-if, it records nothing.
func (c *cycle) addFeasible(node *corev1.Node, v *variant, found []resourceapi.AllocationResult) {
	if c.preemption.IsWhatIf() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.feasibleNodes[node.Name] = &feasibleNode{node: node, variant: v, found: found}
}

// feasible returns a node that passed Filter, nil if it did not.
func (c *cycle) feasible(node string) *feasibleNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.feasibleNodes[node]
}

// addUnusable records claims that are allocated, but cannot be used on some node.
func (c *cycle) addUnusable(claims []*claimstate.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unusableClaims == nil {
		c.unusableClaims = sets.New[*claimstate.Claim]()
	}
	c.unusableClaims.Insert(claims...)
}

// unusable returns the claims that could not be used on some node, in no order.
func (c *cycle) unusable() []*claimstate.Claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unusableClaims.UnsortedList()
}

// cycleOf returns the cycle state of a pod. If PreFilter wrote none, it returns an empty one: the plugin has
// nothing to do.
func cycleOf(state fwk.CycleState) (*cycle, error) {
	stored, err := state.Read(stateKey)
	if errors.Is(err, fwk.ErrNotFound) {
		return newCycle(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("state of the scheduling cycle: %w", err)
	}
	c, ok := stored.(*cycle)
	if !ok {
		return nil, fmt.Errorf("state of the scheduling cycle is %T", stored)
	}
	return c, nil
}
