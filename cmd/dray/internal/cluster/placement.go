package cluster

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
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
	// Refusals says per node why not, in the order of the nodes.
	Refusals []Refusal
	// Fits names all nodes found to fit, in order. Place stops at the first.
	Fits []string
	// Before holds the claims as they were before. Nil if they could not be found.
	Before []*resourceapi.ResourceClaim
	// Claims holds them as an API server would after scheduling: allocated and
	// reserved. Nil if Node is empty.
	Claims []*resourceapi.ResourceClaim
}

// Placed reports whether the workload has a node.
func (p *Placement) Placed() bool { return p.Node != "" }

// wrong reports whether wrong input is the answer.
func (p *Placement) wrong() bool { return p.Err != nil }

// FinalClaims returns the claims as the placement leaves them.
func (p *Placement) FinalClaims() []*resourceapi.ResourceClaim {
	if p.Placed() {
		return p.Claims
	}
	return p.Before
}

func (p *Placement) refuse(r Refusal) { p.Refusals = append(p.Refusals, r) }

func (p *Placement) merge(probe *Placement) {
	p.Refusals = append(p.Refusals, probe.Refusals...)
	p.Fits = append(p.Fits, probe.Fits...)
	p.Err = probe.Err
	if p.Node == "" {
		p.Node, p.Claims = probe.Node, probe.Claims
	}
}

func (p *Placement) accept(a *attempt, node string, assignment *allocator.Assignment) {
	p.Node = node
	p.Fits = append(p.Fits, node)
	results := assignment.Results()
	p.Claims = slices.Clone(a.claims)
	for i, claim := range p.Claims {
		claim = claim.DeepCopy()
		if claim.Status.Allocation == nil {
			claim.Status.Allocation = results[0].DeepCopy()
			results = results[1:]
			if !slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
				claim.Finalizers = append(claim.Finalizers, resourceapi.Finalizer)
			}
		}
		reserve(claim, a.workload)
		p.Claims[i] = claim
	}
}

// reserve enters the pod among the claim's consumers.
func reserve(claim *resourceapi.ResourceClaim, w Workload) {
	if w.Pod == nil || reservedFor(claim, w) {
		return
	}
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{
		Resource: "pods", Name: w.Pod.Name, UID: podUID(w.Pod),
	})
}

func reservedFor(claim *resourceapi.ResourceClaim, w Workload) bool {
	return w.Pod != nil && slices.ContainsFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool {
		return r.UID == podUID(w.Pod)
	})
}

// unusable says why no pod more can use one of the claims; empty if it can.
func unusable(w Workload, claims []*resourceapi.ResourceClaim) string {
	for _, claim := range claims {
		consumers := len(claim.Status.ReservedFor)
		switch {
		case claim.DeletionTimestamp != nil:
			return fmt.Sprintf("claim %s is being deleted", claim.Name)
		case w.Pod != nil && consumers >= resourceapi.ResourceClaimReservedForMaxSize && !reservedFor(claim, w):
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
	for i, claim := range p.Claims {
		if p.Before[i].Status.Allocation == nil {
			if err := c.Ledger.Allocate(claim); err != nil {
				return err
			}
		}
		if _, known := c.claims[keyOf(claim)]; !known {
			c.order = append(c.order, keyOf(claim))
		}
		c.claims[keyOf(claim)] = claim
	}
	return nil
}
