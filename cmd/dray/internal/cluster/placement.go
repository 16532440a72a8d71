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

// Placement is the answer for one workload: Node is set, or Reason, or Err, or there is
// one refusal per node.
type Placement struct {
	Workload Workload
	// Origin is where the workload was read; empty for claims made from templates.
	Origin string
	// Node is where the workload goes, empty if it does not go anywhere.
	Node string
	// Reason holds whatever the node.
	Reason string
	// Err is about wrong input: objects that are missing or contradict each other.
	Err error
	// Question is equal for pods that ask for the same. It is empty if that was not found out.
	Question string
	// Like is an earlier placement of a pod that asks for the same, which this one is refused like:
	// the Refusals are those of Like, and name its claims. Nil if there is none.
	Like *Placement
	// Refusals says per node why not, in the order of the nodes.
	Refusals []Refusal
	// Fits names all nodes found to fit, in order. Place stops at the first that misses nothing.
	Fits []string
	// Before holds the claims as they were before. Nil if they could not be found. The
	// claim for extended resources is one of them, as it would be on the node.
	Before []*resourceapi.ResourceClaim
	// Claims holds them as an API server would after scheduling: allocated and
	// reserved. Nil if Node is empty.
	Claims []*resourceapi.ResourceClaim

	// Missed are the preferred matches that the devices do not have, the most important first.
	Missed []Missed
}

// Placed reports whether the workload has a node.
func (p *Placement) Placed() bool { return p.Node != "" }

// Asked is the placement whose claims the Refusals name.
func (p *Placement) Asked() *Placement {
	if p != nil && p.Like != nil {
		return p.Like
	}
	return p
}

// wrong reports whether wrong input is the answer.
func (p *Placement) wrong() bool { return p.Err != nil }

// FinalClaims returns the claims as the placement leaves them.
func (p *Placement) FinalClaims() []*resourceapi.ResourceClaim {
	if p.Placed() {
		return p.Claims
	}
	// The scheduler makes a claim for extended resources once it has devices for it.
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

// reserve enters the pod, or the group that the claim is for, among the claim's consumers.
func (c *Cluster) reserve(claim *resourceapi.ResourceClaim, w Workload) {
	if w.Pod == nil || c.reservedFor(claim, w) {
		return
	}
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, c.claims.Consumer(claim, w.Pod))
}

func (c *Cluster) reservedFor(claim *resourceapi.ResourceClaim, w Workload) bool {
	if w.Pod == nil {
		return false
	}
	consumer := c.claims.Consumer(claim, w.Pod)
	return slices.ContainsFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool {
		return r.UID == consumer.UID
	})
}

// unusable says why no pod more can use one of the claims; empty if it can.
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

// Undecided counts the nodes on which the search was given up.
func (p *Placement) Undecided() int {
	n := 0
	for i := range p.Refusals {
		if p.Refusals[i].Undecided {
			n++
		}
	}
	return n
}

// Keep makes a placement part of the cluster: its claims replace what was there, and
// their devices are in use. It does nothing if the workload was not placed.
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
			delete(c.wholePools, pools.PoolID{Driver: result.Driver, Name: result.Pool}) // it names the consumers
		}
	}
	if p.Placed() && p.Workload.Pod != nil {
		c.addPod(p.Workload.Pod, c.Node(p.Node))
	}
	return nil
}
