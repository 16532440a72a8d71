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

// cycle is what the plugin knows of a pod while it is being scheduled: written by PreFilter
// and used until the pod is bound or given up. It is small, as the framework clones it for
// each node to which pods are nominated.
type cycle struct {
	// preemption knows what would be if pods came or went. Nil if nothing has to be allocated.
	preemption *preempt.Cycle
	// findings are shared with clones.
	*findings
}

// findings are what PreFilter found out, and Filter, node by node, concurrently.
type findings struct {
	// claims are those of the pod in the order of its spec. The one for extended resources,
	// if there is one, comes last. Empty if the plugin has nothing to do for the pod.
	claims []*claimstate.Claim
	// extended are the extended resources that the pod asks for. Nil: none that devices can serve.
	extended []corev1.ResourceName
	// view is what PreFilter saw. Nil if nothing has to be allocated.
	view *model.View
	// withoutExtended is what has to be allocated where it does not depend on the node.
	withoutExtended *variant
	// member is what is known of the pod's group. Nil if the pod is scheduled by itself.
	member *podgroup.Member
	// undecided is set once a search was given up, with the cluster as it is. A group has one for all
	// its pods.
	undecided *atomic.Bool
	// undecidedWhatIf is set once a search was given up that was about evicting pods.
	undecidedWhatIf atomic.Bool
	// budgetLevel is how often the limits of searches are raised.
	budgetLevel int
	// nodes are those of the cluster, with their pods.
	nodes []fwk.NodeInfo

	// devices are set if some of them stand for resources of their node, and have to be accounted for. Accounts opens the accounts of
	// the pod, once.
	devices  *pools.Snapshot
	accounts func() (*nodeallocatable.Accounts, *fwk.Status)
	// recorded is set if the status of the pod says what its devices take of the node.
	recorded bool

	// refusals are why nodes do not have the devices.
	refusals *refusal.NodeRefusals

	// mu guards what follows. Sets and maps are made when they are needed.
	mu sync.Mutex
	// unusableClaims has the claims whose allocation was of no use on some node.
	unusableClaims sets.Set[*claimstate.Claim]
	// feasibleNodes are the nodes which passed Filter, by name.
	feasibleNodes map[string]*feasibleNode
	// variants are by the names of the extended resources that devices have to serve.
	variants map[string]*variant
}

// feasibleNode is a node that passed Filter.
type feasibleNode struct {
	node    *corev1.Node
	variant *variant
	// found are the devices of the variant's claims, if they have to be accounted for.
	found []resourceapi.AllocationResult
}

func newCycle() *cycle {
	return &cycle{findings: &findings{
		feasibleNodes: make(map[string]*feasibleNode),
		undecided:     new(atomic.Bool),
		refusals:      refusal.NewNodeRefusals(),
	}}
}

// Clone implements StateData. A clone is for asking what would be if pods came or went.
func (c *cycle) Clone() fwk.StateData {
	clone := *c
	clone.preemption = c.preemption.Clone()
	return &clone
}

// Preemption implements podgroup.State.
func (c *cycle) Preemption() *preempt.Cycle { return c.preemption }

// Refusals implements podgroup.State.
func (c *cycle) Refusals() []*refusal.Refusal { return c.refusals.List() }

// giveUpSearch records that it is not known whether there are devices.
func (c *cycle) giveUpSearch() {
	if !c.preemption.GiveUp() {
		c.undecided.Store(true)
	}
}

func (c *cycle) hasNoClaims() bool { return len(c.claims) == 0 }

// unallocated are the claims that have no allocation in the API server.
func (c *cycle) unallocated() []*claimstate.Claim { return claimstate.Unallocated(c.claims) }

// usage is what is in use as far as the pod is concerned.
func (c *cycle) usage() *pools.State { return c.preemption.Usage() }

// addFeasible records a node that suits the pod, as it is.
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

// addUnusable records claims that are allocated, but not for a node.
func (c *cycle) addUnusable(claims []*claimstate.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unusableClaims == nil {
		c.unusableClaims = sets.New[*claimstate.Claim]()
	}
	c.unusableClaims.Insert(claims...)
}

// unusable returns the claims that were of no use on some node, in no order.
func (c *cycle) unusable() []*claimstate.Claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unusableClaims.UnsortedList()
}

// cycleOf reads the state of a pod. Without one there is nothing to do: a plugin before this
// one ended the cycle.
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
