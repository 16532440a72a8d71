// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"maps"
	"math"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/quantity"
)

// Candidate is a device that may serve a request, as a policy sees it. It depends on nothing but what the
// equivalence of nodes (package alike) distinguishes, and on no other device.
type Candidate struct {
	Device pool.Handle
	// Shared is set if shares of the device are in use.
	Shared bool
	// InUse is the largest fraction in use of any capacity that shares consume, and of any counter that the
	// device draws on. Fit is the mean fraction of free capacity that the request asks for. Both are rounded,
	// so that equal values do not differ by rounding errors.
	InUse, Fit float64

	*size
	used *pool.Usage
}

// size is the capacities of a device, and the sum of the fractions that it draws of counters.
type size struct {
	// names are those of the capacities of all devices of the node, in order. A capacity that the device does
	// not list is zero.
	names      []resourceapi.QualifiedName
	capacities []amount.Amount
	draws      float64
}

// prefer sorts the devices of each domain by a policy.
func (in *Instance) prefer(before func(a, b *Candidate) bool) {
	sizes := in.frame.sizes()
	compare := func(a, b *Candidate) int {
		switch {
		case before(a, b):
			return -1
		case before(b, a):
			return 1
		}
		return 0
	}
	for k, alt := range in.Compiled.Domains {
		domain, candidates := &in.problem.Domains[k], make([]Candidate, len(in.Node.List))
		domain.Order = make([]int32, 0, len(in.Node.List))
		for i := range in.Node.List {
			if domain.Allowed.Test(uint(i)) || domain.Stops != nil && domain.Stops.Test(uint(i)) {
				candidates[i] = in.candidate(alt, int32(i), &sizes[i])
				domain.Order = append(domain.Order, int32(i))
			}
		}
		slices.SortStableFunc(domain.Order, func(a, b int32) int { return compare(&candidates[a], &candidates[b]) })
	}
}

func (in *Instance) candidate(alt *claims.Alternative, i int32, of *size) Candidate {
	d := &in.Node.List[i]
	c := Candidate{Device: pool.HandleOf(in.Node.Pools[d.Pool], d.Index), size: of, used: in.Node.Used[d.Pool]}
	c.Shared = c.used.Shared(d.Index)
	if d.Shareable {
		for k, has := range of.capacities {
			c.InUse = max(c.InUse, fraction(has.Sub(c.free(k)), has))
		}
	}
	for _, use := range d.Uses {
		total := in.Node.Pools[d.Pool].Counters[use.Counter].Total
		c.InUse = max(c.InUse, fraction(total.Sub(c.used.Left[use.Counter]), total))
	}
	c.InUse = rounded(c.InUse)
	if alt.Capacity == nil || len(alt.Capacity.Requests) == 0 {
		return c
	}
	var sum int64 // integers, as sums of floats depend on the order
	for name, asked := range alt.Capacity.Requests {
		if k, found := slices.BinarySearch(of.names, name); found {
			sum += int64(fraction(quantity.Amount(asked), c.free(k)) * fitScale)
		}
	}
	c.Fit = rounded(float64(sum) / float64(len(alt.Capacity.Requests)) / fitScale)
	return c
}

// fitScale is the number of steps in which the fraction of one capacity is counted, partScale that of the
// result.
const (
	fitScale  = 1 << 40
	partScale = 1 << 24
)

func rounded(part float64) float64 { return math.Round(part*partScale) / partScale }

// fraction is how much of the whole a part is, from 0 to 1.
func fraction(of, whole amount.Amount) float64 {
	if of.Sign() <= 0 || whole.Sign() <= 0 {
		return 0
	}
	return min(1, of.Float()/whole.Float())
}

// free is what is left of the k-th capacity.
func (c *Candidate) free(k int) amount.Amount {
	if !c.Shared {
		return c.capacities[k]
	}
	_, i := c.Device.Split()
	return c.capacities[k].Sub(c.used.Consumed(i, c.names[k]))
}

// CompareSize compares what is free of capacities, by name, and then what is drawn on counters. Both are
// candidates of one request.
func (c *Candidate) CompareSize(other *Candidate) int {
	for k := range min(len(c.names), len(other.names)) {
		if found := c.free(k).Cmp(other.free(k)); found != 0 {
			return found
		}
	}
	return cmp.Compare(c.pays(), other.pays())
}

// pays is what choosing the device draws on counters. Only the first share draws.
func (c *Candidate) pays() float64 {
	if c.Shared {
		return 0
	}
	return c.draws
}

func sizesOf(d *eligibility.Devices) []size {
	named := make(map[resourceapi.QualifiedName]bool)
	for i := range d.List {
		for name := range d.List[i].Object.Capacity {
			named[name] = true
		}
	}
	names := slices.Sorted(maps.Keys(named))
	all := make([]size, len(d.List))
	for i := range d.List {
		device := &d.List[i]
		all[i].names, all[i].capacities = names, make([]amount.Amount, len(names))
		for k, name := range names {
			all[i].capacities[k] = quantity.Amount(device.Object.Capacity[name].Value)
		}
		for _, use := range device.Uses {
			all[i].draws += fraction(use.Amount, d.Pools[device.Pool].Counters[use.Counter].Total)
		}
		all[i].draws = rounded(all[i].draws)
	}
	return all
}
