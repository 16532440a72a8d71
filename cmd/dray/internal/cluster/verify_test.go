// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/cmd/dray/internal/input"
	"github.com/dray-project/dray/internal/dev/oracle"
	"github.com/dray-project/dray/internal/dev/peer"
	"github.com/dray-project/dray/podclaims"
)

// peerPatience is how long upstream may take for one node.
const peerPatience = 5 * time.Minute

// Allocations of the command line pass the independent verifier. They are those of upstream's allocator for
// the same claims on the same node, in each step of a run.
func TestRunAgreesWithUpstream(t *testing.T) {
	forEachExample(t, func(t *testing.T, objects *input.Objects) {
		j := judge{upstream: peer.Upstream()}
		beyond := 0
		forEachPlacement(t, newCluster(t, objects), func(c *Cluster, p *Placement) {
			if extended(p) {
				beyond++ // its README has what is expected
				return
			}
			for _, complaint := range j.complaints(c, p) {
				t.Errorf("%s: %s", p.Workload, complaint)
			}
		})
		if beyond == 0 && (j.allocated == 0 || j.refused == 0) {
			t.Errorf("upstream was asked about %d allocations and %d refusals: the example proves too little", j.allocated, j.refused)
		}
	})
}

// The comparison finds fault with a device swapped for one that does not exist, with a
// device taken twice, and with a node passed over that fits.
func TestJudgeFindsFault(t *testing.T) {
	faults := map[string]func(p *Placement){
		"other device": func(p *Placement) { resultsOf(p)[0].Device = "elsewhere" },
		"twice":        func(p *Placement) { resultsOf(p)[1] = resultsOf(p)[0] },
		"one too few": func(p *Placement) {
			devices := &p.Claims[0].Status.Allocation.Devices
			devices.Results = devices.Results[1:]
		},
		"passed over": func(p *Placement) {
			unsatisfiable := p.Refusals[0].unsatisfiable
			p.Refusals = []Refusal{{Node: p.Node, unsatisfiable: unsatisfiable}}
			p.Node, p.Claims = "", nil
		},
	}
	found := make(map[string]int)
	forEachExample(t, func(t *testing.T, objects *input.Objects) {
		j := judge{upstream: peer.Upstream()}
		forEachPlacement(t, newCluster(t, objects), func(c *Cluster, p *Placement) {
			if extended(p) || !p.Placed() || len(resultsOf(p)) < 2 || len(p.Refusals) == 0 || p.Refusals[0].unsatisfiable == nil {
				return
			}
			for name, spoil := range faults {
				spoilt := *p
				spoilt.Claims = copyClaims(p.Claims)
				spoil(&spoilt)
				found[name]++
				if len(j.complaints(c, &spoilt)) == 0 {
					t.Errorf("%s: no complaint about fault %q", p.Workload, name)
				}
			}
		})
	})
	for name := range faults {
		if found[name] == 0 {
			t.Errorf("fault %q was not tried", name)
		}
	}
}

// extended reports whether a claim asks for what upstream does not know.
func extended(p *Placement) bool {
	return slices.ContainsFunc(p.Before, func(claim *resourceapi.ResourceClaim) bool {
		_, found := claim.Annotations[extension.Annotation]
		return found
	})
}

// forEachPlacement calls visit for each workload after it was placed and before its
// placement is kept.
func forEachPlacement(t *testing.T, c *Cluster, visit func(*Cluster, *Placement)) {
	t.Helper()
	for _, w := range c.Workloads() {
		placement, err := c.Place(context.Background(), w, c.Nodes)
		if err != nil {
			t.Fatal(err)
		}
		visit(c, placement)
		if err := c.Keep(placement); err != nil {
			t.Fatal(err)
		}
	}
}

func resultsOf(p *Placement) []resourceapi.DeviceRequestAllocationResult {
	return p.Claims[0].Status.Allocation.Devices.Results
}

// judge compares placements with upstream, and counts the comparisons.
type judge struct {
	upstream           alloctest.Allocator
	allocated, refused int
}

// complaints says what is wrong with a placement that has not been kept yet.
func (j *judge) complaints(c *Cluster, p *Placement) []string {
	var all []string
	complain := func(format string, arguments ...any) { all = append(all, fmt.Sprintf(format, arguments...)) }
	if p.Err != nil {
		complain("%v", p.Err)
	}
	for _, node := range sample(p.Refusals) {
		j.refused++
		if outcome := j.ask(c, p, node); outcome.Results != nil || outcome.Err != nil && !outcome.NodeOnly {
			complain("node %s is passed over, upstream has %d results, error %v", node, len(outcome.Results), outcome.Err)
		}
	}
	results := newAllocations(p)
	if len(results) == 0 {
		return all
	}
	j.allocated++
	if err := oracle.Verify(caseOf(c, p, p.Node), results); err != nil {
		complain("node %s: %v", p.Node, err)
	}
	outcome := j.ask(c, p, p.Node)
	if outcome.Err != nil {
		complain("node %s: upstream: %v", p.Node, outcome.Err)
	}
	if difference := oracle.Equal(results, outcome.Results); difference != "" {
		complain("node %s: upstream differs: %s", p.Node, difference)
	}
	return all
}

func (j *judge) ask(c *Cluster, p *Placement, node string) alloctest.Outcome {
	ctx, cancel := context.WithTimeout(context.Background(), peerPatience)
	defer cancel()
	return j.upstream(ctx, caseOf(c, p, node))
}

// sample picks nodes that lack devices: of each group of refusals the first, the one
// that comes closest, and the last.
func sample(refusals []Refusal) []string {
	var nodes []string
	for _, group := range GroupRefusals(refusals) {
		if group.Explanation == nil {
			continue
		}
		picked := make(map[string]bool)
		for _, node := range []string{group.Nodes[0], group.Closest, group.Nodes[len(group.Nodes)-1]} {
			if !picked[node] {
				picked[node] = true
				nodes = append(nodes, node)
			}
		}
	}
	return nodes
}

// caseOf is the question that a placement answers for one node, with what the cluster
// holds before it is kept.
func caseOf(c *Cluster, p *Placement, node string) *alloctest.Case {
	question := &alloctest.Case{
		Name:     p.Workload.String(),
		Features: allocator.AllFeatures(),
		Nodes:    c.Nodes,
		Slices:   podclaims.ApplyTaintRules(c.objects.Slices, c.objects.TaintRules),
		Classes:  c.objects.Classes,
		Node:     node,
	}
	for _, key := range c.order {
		if claim := c.claims.Claim(key); claim.Status.Allocation != nil {
			question.Allocated = append(question.Allocated, claim)
		}
	}
	for _, claim := range p.Before {
		if claim.Status.Allocation == nil {
			question.Claims = append(question.Claims, claim)
		}
	}
	return question
}

// newAllocations are those which a placement adds, in the order of its claims.
func newAllocations(p *Placement) []resourceapi.AllocationResult {
	var results []resourceapi.AllocationResult
	for i, claim := range p.Claims {
		if p.Before[i].Status.Allocation == nil {
			results = append(results, *claim.Status.Allocation)
		}
	}
	return results
}
