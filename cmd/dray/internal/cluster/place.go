// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/podclaims"
)

// Place returns the first node on which the workload can run and all its claims can be allocated.
// Nodes where all preferences are met come first, then those that miss the least important ones.
// Nothing is kept: see Keep. If a pod with equal requests was refused since the last Keep, the
// result is the same refusal. The error is the context's.
func (c *Cluster) Place(ctx context.Context, w Workload, nodes []*corev1.Node) (*Placement, error) {
	placement, attempt := c.attempt(w, nil)
	if attempt == nil {
		return placement, nil
	}
	question := attempt.question()
	placement.Question = question
	if like := c.refused.find(question, nodes); like != nil && question != "" {
		placement.Like, placement.Refusals = like, like.Refusals
		return placement, nil
	}
	if err := attempt.first(ctx, placement, nodes); err != nil {
		return nil, err
	}
	if question != "" && !placement.Placed() && !placement.wrong() {
		c.refused.remember(question, nodes, placement)
	}
	return placement, nil
}

// PlaceWith is Place with a changed version of one of the workload's claims. The result is not
// cached, and must not be kept.
func (c *Cluster) PlaceWith(ctx context.Context, w Workload, nodes []*corev1.Node, claim *resourceapi.ResourceClaim) (*Placement, error) {
	placement, attempt := c.attempt(w, claim)
	if attempt == nil {
		return placement, nil
	}
	return placement, attempt.first(ctx, placement, nodes)
}

// first asks the nodes in order until one fits.
func (a *attempt) first(ctx context.Context, placement *Placement, nodes []*corev1.Node) error {
	probe := new(Placement)
	for _, node := range nodes {
		*probe = Placement{Workload: a.workload, Refusals: probe.Refusals[:0]}
		if err := a.on(ctx, node, probe); err != nil {
			return err
		}
		if placement.Placed() && probe.wrong() {
			return nil // a node was found before
		}
		if placement.Refusals == nil && len(probe.Refusals) > 0 {
			placement.Refusals = make([]Refusal, 0, len(nodes))
		}
		placement.merge(probe)
		if placement.wrong() || placement.Placed() && len(placement.Missed) == 0 {
			return nil
		}
	}
	return nil
}

// Run places workloads one after the other, and keeps each placement, so that later ones do not get
// the same devices. The pods of a PodGroup are placed together at the turn of its first pod: at
// least as many as the group needs, or none. step is called after each workload, and may be nil.
func (c *Cluster) Run(ctx context.Context, workloads []Workload, nodes []*corev1.Node, step func()) ([]*Placement, error) {
	placements := make([]*Placement, 0, len(workloads))
	groups := c.GangRun(false)
	for _, w := range workloads {
		placement, err := groups.Turn(ctx, w, nodes)
		if err == nil && placement == nil {
			if placement, err = c.Place(ctx, w, nodes); err == nil {
				err = c.Keep(placement)
			}
		}
		if err != nil {
			return nil, err
		}
		placements = append(placements, placement)
		if step != nil {
			step()
		}
	}
	return placements, nil
}

// Take keeps a placement. If it is nil, Take places the workload on all nodes first.
func (c *Cluster) Take(ctx context.Context, w Workload, placement *Placement) (*Placement, error) {
	if placement == nil {
		var err error
		if placement, err = c.Place(ctx, w, c.Nodes); err != nil {
			return nil, err
		}
	}
	return placement, c.Keep(placement)
}

// Survey is Place, but asks all nodes: Fits and Refusals of the result cover each node. step is
// called after each node, and may be nil.
func (c *Cluster) Survey(ctx context.Context, w Workload, nodes []*corev1.Node, step func()) (*Placement, error) {
	placement, attempt := c.attempt(w, nil)
	if attempt == nil {
		return placement, nil
	}
	placement.Question = attempt.question()
	for _, node := range nodes {
		probe := &Placement{Workload: w}
		if err := attempt.on(ctx, node, probe); err != nil {
			return nil, err
		}
		placement.merge(probe)
		if placement.wrong() {
			return placement, nil
		}
		if step != nil {
			step()
		}
	}
	return placement, nil
}

// attempt is a workload that is prepared for questions about nodes.
type attempt struct {
	cluster  *Cluster
	workload Workload
	claims   []*resourceapi.ResourceClaim // the claims that do not depend on the node
	variants map[string]*variant          // by the extended resources that devices provide on a node
	extended []corev1.ResourceName        // extended resources that the pod requests
	needs    []need                       // of the pod
}

// variant has the claims to allocate on nodes where devices provide the same extended resources.
type variant struct {
	claims  []*resourceapi.ResourceClaim
	problem *allocator.Problem
}

// attempt prepares a workload. instead, if not nil, replaces the claim of the same name. If the
// result does not depend on nodes, it returns a Placement with the reason, and a nil attempt.
func (c *Cluster) attempt(w Workload, instead *resourceapi.ResourceClaim) (*Placement, *attempt) {
	placement := &Placement{Workload: w, Origin: c.origin(w)}
	if w.Pod != nil && len(w.Pod.Spec.SchedulingGates) > 0 {
		placement.Reason = fmt.Sprintf("scheduling gate %s holds it back", w.Pod.Spec.SchedulingGates[0].Name)
		return placement, nil
	}
	placement.Before, placement.Err = c.claimsOf(w)
	if placement.wrong() {
		return placement, nil
	}
	for i, claim := range placement.Before {
		if instead != nil && keyOf(claim) == keyOf(instead) {
			placement.Before[i] = instead
		}
	}
	a := &attempt{cluster: c, workload: w, claims: placement.Before, variants: make(map[string]*variant)}
	if w.Pod != nil {
		a.extended, a.needs = podclaims.ExtendedResources(w.Pod), needsOf(w.Pod)
	}
	all, _ := c.fromDevices(a.extended, &corev1.Node{})
	v, err := a.variant(all)
	if placement.Err = err; placement.wrong() {
		return placement, nil
	}
	placement.Before = v.claims
	if placement.Reason = c.unusable(w, a.claims); placement.Reason != "" {
		return placement, nil
	}
	return placement, a
}

// variant returns the variant for nodes where devices provide these extended resources.
func (a *attempt) variant(fromDevices []corev1.ResourceName) (*variant, error) {
	key := ""
	if len(fromDevices) > 0 {
		key = fmt.Sprint(fromDevices)
	}
	if known := a.variants[key]; known != nil {
		return known, nil
	}
	v := &variant{claims: slices.Clone(a.claims)}
	if len(fromDevices) > 0 {
		if claim := a.cluster.extendedClaim(a.workload.Pod, fromDevices); claim != nil {
			v.claims = append(v.claims, claim)
		}
	}
	var err error
	if v.problem, err = a.cluster.compile(v.claims); err != nil {
		return nil, a.cluster.compileError(err)
	}
	a.variants[key] = v
	return v, nil
}

// on asks about one node, and records the result in the placement. The error is the context's.
func (a *attempt) on(ctx context.Context, node *corev1.Node, placement *Placement) error {
	var why reason
	var v *variant
	if why, v, placement.Err = a.prepare(node); placement.wrong() {
		return nil
	}
	if !why.empty() {
		refused := why // a copy, so that only refusals allocate memory
		placement.refuse(Refusal{Node: node.Name, reason: &refused})
		return nil
	}
	outcome, err := v.problem.Allocate(ctx, a.cluster.Ledger.State(), node)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		placement.Err = fmt.Errorf("node %s: %w", node.Name, err)
		return nil
	}
	switch outcome := outcome.(type) {
	case *allocator.Assignment:
		placement.accept(a, v, node.Name, outcome)
		return nil
	case *allocator.Unsatisfiable:
		placement.refuse(Refusal{Node: node.Name, unsatisfiable: outcome})
	case *allocator.Undecided:
		why := reason{
			lacks: "undecided: raise --budget to search on",
			alone: fmt.Sprintf("undecided after %d steps: raise --budget to search on", outcome.Stats().Steps),
		}
		placement.refuse(Refusal{Node: node.Name, reason: &why, Undecided: true})
	}
	return nil
}

// prepare returns why the workload cannot run on the node regardless of devices, or else what must
// be allocated there.
func (a *attempt) prepare(node *corev1.Node) (why reason, v *variant, err error) {
	fromDevices, missing := a.cluster.fromDevices(a.extended, node)
	if v, err = a.variant(fromDevices); err != nil {
		return reason{}, nil, err
	}
	if why, err = unfit(a.workload, v.claims, node); !why.empty() || err != nil {
		return why, v, err
	}
	if missing != "" {
		return because(a.cluster.noProvider(missing, node)), v, nil
	}
	return a.cluster.shortOf(a.needs, node, fromDevices), v, nil
}
