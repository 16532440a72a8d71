// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
)

// Placement is the result for one workload. Node, Reason or Err is set, or there is one refusal per
// node.
type Placement struct {
	Workload Workload
	// Origin is where the workload was read. It is empty for claims made from templates.
	Origin string
	// Node is the node of the workload, or empty.
	Node string
	// Reason is why the workload cannot be placed on any node.
	Reason string
	// Err is an error of the input: objects are missing or contradict each other.
	Err error
	// Question is equal for pods with equal requests. It may be empty.
	Question string
	// Like is an earlier placement of a pod with equal requests, or nil. Refusals are then those of
	// Like, and name its claims.
	Like *Placement
	// Refusals has the reason of each refused node, in the order of the nodes.
	Refusals []Refusal
	// Fits has all nodes found to fit, in order. Place stops at the first node where all
	// preferences are met.
	Fits []string
	// Before has the claims before the placement, or nil if they were not found. It includes the
	// claim for extended resources that would be created on the node.
	Before []*resourceapi.ResourceClaim
	// Claims has the claims after scheduling: allocated and reserved. It is nil if Node is empty.
	Claims []*resourceapi.ResourceClaim

	// Missed are the preferences that the devices do not meet, the most important first.
	Missed []Missed

	gang *GangOutcome // of the group that refused the pod, or nil
}

// Placed reports whether the workload has a node.
func (p *Placement) Placed() bool { return p.Node != "" }

// Asked returns the placement whose claims the Refusals name.
func (p *Placement) Asked() *Placement {
	if p != nil && p.Like != nil {
		return p.Like
	}
	return p
}

// wrong reports whether the input is wrong.
func (p *Placement) wrong() bool { return p.Err != nil }

// FinalClaims returns the claims after the placement.
func (p *Placement) FinalClaims() []*resourceapi.ResourceClaim {
	if p.Placed() {
		return p.Claims
	}
	// The scheduler creates a claim for extended resources only when it has devices for it.
	return slices.DeleteFunc(slices.Clone(p.Before), isExtendedClaim)
}

func (p *Placement) refuse(r Refusal) { p.Refusals = append(p.Refusals, r) }

func (p *Placement) merge(probe *Placement) {
	p.Refusals = append(p.Refusals, probe.Refusals...)
	p.Fits = append(p.Fits, probe.Fits...)
	p.Err = probe.Err
	if probe.Node != "" && (p.Node == "" || misses(probe.Missed, p.Missed) < 0) {
		p.Node, p.Before, p.Claims, p.Missed = probe.Node, probe.Before, probe.Claims, probe.Missed
	}
}

func (p *Placement) accept(a *attempt, v *variant, node string, assignment *allocator.Assignment) {
	p.Node = node
	p.Fits = append(p.Fits, node)
	results := assignment.Results()
	p.Before = v.claims
	p.Missed = missedBy(assignment, v.claims)
	p.Claims = slices.Clone(v.claims)
	choices := assignment.Choices()
	for i, claim := range p.Claims {
		claim = claim.DeepCopy()
		if claim.Status.Allocation == nil {
			claim.Status.Allocation = results[0].DeepCopy()
			nameClasses(claim, choices[:len(results[0].Devices.Results)])
			choices = choices[len(results[0].Devices.Results):]
			results = results[1:]
			if !slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
				claim.Finalizers = append(claim.Finalizers, resourceapi.Finalizer)
			}
		}
		a.cluster.reserve(claim, a.workload)
		p.Claims[i] = claim
	}
}

// reserve adds the pod, or the group that shares the claim, to the claim's consumers.
func (c *Cluster) reserve(claim *resourceapi.ResourceClaim, w Workload) {
	if w.Pod == nil || c.reservedFor(claim, w) {
		return
	}
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, c.claims.Consumer(claim, w.Pod))
}

// reservedFor reports whether the workload, which is a pod, is among the claim's consumers.
func (c *Cluster) reservedFor(claim *resourceapi.ResourceClaim, w Workload) bool {
	consumer := c.claims.Consumer(claim, w.Pod)
	return slices.ContainsFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool {
		return r.UID == consumer.UID
	})
}

// unusable returns why one of the claims cannot have another consumer. It is empty if all can.
func (c *Cluster) unusable(w Workload, claims []*resourceapi.ResourceClaim) string {
	for _, claim := range claims {
		consumers := len(claim.Status.ReservedFor)
		switch {
		case claim.DeletionTimestamp != nil:
			return fmt.Sprintf("claim %s is being deleted (metadata.deletionTimestamp is set): no pod can start to use it", claim.Name)
		case w.Pod != nil && consumers >= resourceapi.ResourceClaimReservedForMaxSize && !c.reservedFor(claim, w):
			return fmt.Sprintf("claim %s is reserved for %d pods, the most there can be", claim.Name, consumers)
		}
	}
	return ""
}

// Undecided counts the nodes on which the search ended without a result.
func (p *Placement) Undecided() int {
	n := 0
	for i := range p.Refusals {
		if p.Refusals[i].Undecided {
			n++
		}
	}
	return n
}

// MayFit reports whether a workload that is not placed may have a place all the same, as a search ended without a result.
func (p *Placement) MayFit() bool {
	return !p.Placed() && p.Err == nil && (p.gang != nil && p.gang.MayFit() || p.Undecided() > 0)
}

// Keep adds a placement to the cluster: its claims replace the earlier versions, and their devices
// are in use. It does nothing if the workload was not placed.
func (c *Cluster) Keep(p *Placement) error {
	if p.Placed() {
		c.refused = refused{}
	}
	for i, claim := range p.Claims {
		if p.Before[i].Status.Allocation == nil {
			if err := c.Ledger.Assume(claim); err != nil {
				return err
			}
		}
		if c.claims.Claim(keyOf(claim)) == nil {
			c.order = append(c.order, keyOf(claim))
		}
		c.claims.SetClaim(claim)
		for _, result := range claim.Status.Allocation.Devices.Results {
			delete(c.wholePools, pools.PoolID{Driver: result.Driver, Name: result.Pool}) // the cached state has the consumers
		}
	}
	if p.Placed() && p.Workload.Pod != nil {
		c.addPod(p.Workload.Pod, c.Node(p.Node))
	}
	return nil
}
