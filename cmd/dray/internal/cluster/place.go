package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
)

// Place looks for the first of the nodes on which all claims of the workload can be
// allocated and the pod may run. Nothing is kept: see Keep. The error is the context's.
func (c *Cluster) Place(ctx context.Context, w Workload, nodes []*corev1.Node) (*Placement, error) {
	placement, attempt := c.attempt(w)
	if attempt == nil {
		return placement, nil
	}
	for _, node := range nodes {
		if done, err := attempt.on(ctx, node, placement); done || err != nil {
			return placement, err
		}
	}
	return placement, nil
}

// Survey is Place, but looks at all nodes: Fits and Refusals of the result cover each
// of them. Step is called after each node; it may be nil.
func (c *Cluster) Survey(ctx context.Context, w Workload, nodes []*corev1.Node, step func()) (*Placement, error) {
	placement, attempt := c.attempt(w)
	if attempt == nil {
		return placement, nil
	}
	for _, node := range nodes {
		probe := &Placement{Workload: w}
		if _, err := attempt.on(ctx, node, probe); err != nil {
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

// attempt is a workload ready to be asked about nodes.
type attempt struct {
	cluster  *Cluster
	workload Workload
	claims   []*resourceapi.ResourceClaim // all of the workload
	open     []*resourceapi.ResourceClaim // those not allocated yet
	problem  *allocator.Problem
}

// attempt prepares asking about nodes. It returns nil, and a Placement that says why,
// if the answer is the same whatever the node.
func (c *Cluster) attempt(w Workload) (*Placement, *attempt) {
	placement := &Placement{Workload: w, Origin: c.origin(w)}
	if w.Pod != nil && len(w.Pod.Spec.SchedulingGates) > 0 {
		placement.Reason = fmt.Sprintf("scheduling gate %s holds it back", w.Pod.Spec.SchedulingGates[0].Name)
		return placement, nil
	}
	placement.Before, placement.Err = c.claimsOf(w)
	if placement.wrong() {
		return placement, nil
	}
	claims := placement.Before
	open := slices.DeleteFunc(slices.Clone(claims), func(claim *resourceapi.ResourceClaim) bool {
		return claim.Status.Allocation != nil
	})
	var problem *allocator.Problem
	if problem, placement.Err = c.allocator.Compile(open, c.classes); placement.wrong() {
		return placement, nil
	}
	if placement.Reason = unusable(w, claims); placement.Reason != "" {
		return placement, nil
	}
	return placement, &attempt{cluster: c, workload: w, claims: claims, open: open, problem: problem}
}

// on asks about one node and writes the answer into the placement. It returns true
// if no other node needs to be asked.
func (a *attempt) on(ctx context.Context, node *corev1.Node, placement *Placement) (bool, error) {
	var reason string
	if reason, placement.Err = unfit(a.workload, a.claims, node); placement.wrong() {
		return true, nil
	}
	if reason != "" {
		placement.refuse(Refusal{Node: node.Name, Reason: reason})
		return false, nil
	}
	outcome, err := a.problem.Allocate(ctx, a.cluster.Snapshot, a.cluster.Ledger.Usage(), node)
	if cause := context.Cause(ctx); cause != nil {
		return true, cause
	}
	if err != nil {
		placement.Err = fmt.Errorf("node %s: %w", node.Name, err)
		return true, nil
	}
	switch outcome := outcome.(type) {
	case *allocator.Assignment:
		placement.accept(a, node.Name, outcome)
		return true, nil
	case *allocator.Unsatisfiable:
		placement.refuse(Refusal{Node: node.Name, unsatisfiable: outcome})
	case *allocator.Undecided:
		reason := fmt.Sprintf("undecided after %d steps: raise --budget to search on", outcome.Stats().Steps)
		placement.refuse(Refusal{Node: node.Name, Reason: reason, Undecided: true})
	}
	return false, nil
}
