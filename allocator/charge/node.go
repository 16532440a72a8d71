// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package charge

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/slab"
	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/pools"
)

// boundsFinder finds the bounds of a claim that is not allocated, node by node.
type boundsFinder struct {
	*Cluster
	problem  *allocator.Problem
	compiled *claims.Compiled
	mappings []mapping
	state    *pools.State // nothing is in use

	sets    slab.Sets
	charge  Charge
	bounds  []interval // by mapping
	visited bool       // set once bounds has the first node
}

// node widens the bounds by what allocations on one node take. The error is that of the context, or of a
// selector of a mapping.
func (a *boundsFinder) node(ctx context.Context, node *corev1.Node) error {
	found, err := a.problem.Feasible(ctx, a.state, node)
	switch {
	case context.Cause(ctx) != nil:
		return context.Cause(ctx)
	case err != nil: // allocation may succeed once other claims have devices
		if a.charge.Undecided++; a.charge.Err == nil {
			a.charge.Err = fmt.Errorf("node %s: %w", node.Name, err)
		}
	case found.Verdict() == allocator.NotSatisfiable:
		return nil
	case found.Verdict() == allocator.NotDecided:
		a.charge.Undecided++
	default:
		a.charge.Fits++
	}
	view, err := (*cluster.Snapshot)(a.snapshot).GatherPools(node)
	if err != nil {
		return nil // nothing can be allocated there, and Feasible's error is recorded above
	}
	defer a.sets.Reset()
	var at eligibility.Node
	at.Begin(a.evaluator, view, (*cluster.State)(a.state), &a.sets)
	domains := make([]eligibility.Domain, len(a.compiled.Filters))
	for i, filter := range a.compiled.Filters {
		if err := at.Judge(ctx, filter, &domains[i]); err != nil {
			return err
		}
	}
	for k := range a.mappings {
		bounds, err := a.ofMapping(ctx, &a.mappings[k], &at, domains)
		if err != nil {
			return err
		}
		if !a.visited || bounds.least.Cmp(a.bounds[k].least) < 0 {
			a.bounds[k].least = bounds.least
		}
		if !a.visited || bounds.most.Cmp(a.bounds[k].most) > 0 {
			a.bounds[k].most = bounds.most
		}
	}
	a.visited = true
	return nil
}

// requestBounds is what a request takes of a mapping. leastEach is the least without counters that shares of one device
// draw only once.
type requestBounds struct {
	interval
	leastEach amount.Amount
}

// ofMapping adds up the requests. Shares of one device for several requests draw on its counters once. So the
// least counts the counters of shared devices for one request only.
func (a *boundsFinder) ofMapping(ctx context.Context, m *mapping, at *eligibility.Node, domains []eligibility.Domain) (interval, error) {
	var sum interval
	var extra amount.Amount
	counters := newCounterTotals(m)
	for r := range a.compiled.Requests {
		n, err := a.ofRequest(ctx, m, &a.compiled.Requests[r], at, domains, counters)
		if err != nil {
			return interval{}, err
		}
		sum.least, sum.most = sum.least.Add(n.leastEach), sum.most.Add(n.most)
		if more := n.least.Sub(n.leastEach); more.Cmp(extra) > 0 {
			extra = more
		}
	}
	sum.least = sum.least.Add(extra)
	if most, limited := counters.most(); limited && most.Cmp(sum.most) < 0 {
		sum.most = most
	}
	return sum, nil
}

// ofRequest returns bounds over all alternatives for which there are enough devices.
func (a *boundsFinder) ofRequest(ctx context.Context, m *mapping, r *claims.Request, at *eligibility.Node, domains []eligibility.Domain, counters *counterTotals) (requestBounds, error) {
	var n requestBounds
	first := true
	for _, alt := range r.Alternatives {
		domain := &domains[alt.Filter]
		var devices []int32
		if alt.All {
			devices = domain.Mandatory
		} else {
			for i, ok := domain.Allowed.NextSet(0); ok; i, ok = domain.Allowed.NextSet(i + 1) {
				devices = append(devices, int32(i))
			}
		}
		count := alt.Count
		if alt.All {
			count = len(devices)
		}
		if alt.All && slices.ContainsFunc(devices, func(i int32) bool { return !domain.Allowed.Test(uint(i)) }) {
			continue // allocationMode All fails if any device is unavailable
		}
		if len(devices) == 0 || count > min(len(devices), resourceapi.AllocationResultsMaxSize) {
			continue
		}
		var here requestBounds
		if !alt.Admin && slices.Contains(m.Classes, alt.Offers[0].Class.Name) {
			list := make([]contribution, len(devices))
			for i, position := range devices {
				var err error
				if list[i], err = a.device(ctx, m, at, domain, position, counters); err != nil {
					return requestBounds{}, err
				}
			}
			here = ofDevices(list, count)
		}
		if first {
			n, first = here, false
			continue
		}
		n.least, n.leastEach = least(n.least, here.least), least(n.leastEach, here.leastEach)
		if here.most.Cmp(n.most) > 0 {
			n.most = here.most
		}
	}
	return n, nil
}

func least(a, b amount.Amount) amount.Amount {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// ofDevices returns the bounds for choosing count of the devices.
func ofDevices(list []contribution, count int) requestBounds {
	all, each := make([]amount.Amount, len(list)), make([]amount.Amount, len(list))
	for i, p := range list {
		all[i], each[i] = p.all(), p.perAllocation
	}
	slices.SortFunc(all, amount.Amount.Cmp)
	slices.SortFunc(each, amount.Amount.Cmp)
	return requestBounds{interval{total(all[:count]), total(all[len(all)-count:])}, total(each[:count])}
}

func total(list []amount.Amount) (sum amount.Amount) {
	for _, a := range list {
		sum = sum.Add(a)
	}
	return sum
}

// device returns what a device of the node counts.
func (a *boundsFinder) device(ctx context.Context, m *mapping, at *eligibility.Node, domain *eligibility.Domain, position int32, counters *counterTotals) (contribution, error) {
	device := &at.List[position]
	of := at.Pools[device.Pool]
	t := taken{driver: of.ID.Driver, device: device.Object}
	if use := domain.Uses[position]; use != nil {
		t.consumed = make(map[resourceapi.QualifiedName]resource.Quantity, len(use.Parts))
		for _, part := range use.Parts {
			t.consumed[part.Name] = part.Quantity
		}
	}
	p, err := m.of(ctx, t)
	if err != nil {
		return contribution{}, fmt.Errorf("device %s: %w", at.ID(position), err)
	}
	if !device.Shareable {
		p = contribution{perAllocation: p.all()}
	}
	if !p.all().IsZero() {
		counters.add(of, device.Object)
	}
	return p, nil
}
