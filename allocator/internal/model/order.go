package model

import (
	"cmp"
	"math"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/quantity"
)

// Candidate is a device that may serve a request, as a policy sees it. What it says depends on what
// package alike tells apart, and on no other device.
type Candidate struct {
	Device pool.Handle
	// Shared is set if shares of the device are in use.
	Shared bool
	// InUse is the largest part in use of any capacity that shares take and of any counter that the
	// device draws on, Fit the mean part of what is free of the capacities that the request asks for.
	// Both are rounded, so that what is equal is not told apart by how it was computed.
	InUse, Fit float64

	position int32
	*size
	used *pool.Usage
}

// size is what a device has of capacities, by name, and the sum of the parts that it draws of counters.
type size struct {
	capacities []capacity
	draws      float64
}

type capacity struct {
	name   string
	amount amount.Amount
}

// prefer puts the devices of each domain into the order of a policy.
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
	for k, alt := range in.Problem.Domains {
		domain := &in.Domains[k]
		in.candidates = slices.Grow(in.candidates[:0], len(in.Node.List)) // they stay where they are
		in.sorted = in.sorted[:0]
		for i := range in.Node.List {
			if _, bad := domain.Bad[int32(i)]; bad || domain.Allowed.Test(uint(i)) {
				in.candidates = append(in.candidates, in.candidate(alt, int32(i), &sizes[i]))
				in.sorted = append(in.sorted, &in.candidates[len(in.candidates)-1])
			}
		}
		slices.SortStableFunc(in.sorted, compare)
		domain.order = make([]int32, len(in.sorted))
		for at, c := range in.sorted {
			domain.order[at] = c.position
		}
		clear(in.candidates)
		clear(in.sorted)
	}
}

func (in *Instance) candidate(alt *claims.Alternative, i int32, of *size) Candidate {
	d := &in.Node.List[i]
	c := Candidate{Device: pool.HandleOf(in.Node.Pools[d.Pool], d.Index), position: i, size: of, used: in.Node.Used[d.Pool]}
	c.Shared = c.used.Shared(d.Index)
	if d.Shareable {
		for _, has := range of.capacities {
			c.InUse = max(c.InUse, part(has.amount.Sub(c.free(has)), has.amount))
		}
	}
	for _, use := range d.Uses {
		total := in.Node.Pools[d.Pool].Counters[use.Counter].Total
		c.InUse = max(c.InUse, part(total.Sub(c.used.Left[use.Counter]), total))
	}
	c.InUse = rounded(c.InUse)
	if alt.Capacity == nil || len(alt.Capacity.Requests) == 0 {
		return c
	}
	var sum int64 // the same whatever the order, which sums of floats are not
	for name, asked := range alt.Capacity.Requests {
		if at := slices.IndexFunc(of.capacities, func(has capacity) bool { return has.name == string(name) }); at >= 0 {
			sum += int64(part(quantity.Amount(asked), c.free(of.capacities[at])) * fitScale)
		}
	}
	c.Fit = rounded(float64(sum) / float64(len(alt.Capacity.Requests)) / fitScale)
	return c
}

// fitScale is in how many steps a part of a capacity is counted, partScale in how many the result.
const (
	fitScale  = 1 << 40
	partScale = 1 << 24
)

func rounded(part float64) float64 { return math.Round(part*partScale) / partScale }

// part is how much of the whole something is, from 0 to 1.
func part(of, whole amount.Amount) float64 {
	if of.Sign() <= 0 || whole.Sign() <= 0 {
		return 0
	}
	return min(1, of.Float()/whole.Float())
}

// free is what is left of a capacity.
func (c *Candidate) free(of capacity) amount.Amount {
	if !c.Shared {
		return of.amount
	}
	_, i := c.Device.Split()
	return of.amount.Sub(c.used.Consumed(i, resourceapi.QualifiedName(of.name)))
}

// CompareSize compares what is free of capacities by name, and then what is drawn on counters. What only
// one of them has, the other one has nothing of.
func (c *Candidate) CompareSize(other *Candidate) int {
	for x, y := c.capacities, other.capacities; len(x) > 0 || len(y) > 0; {
		var a, b amount.Amount
		order := -1
		switch {
		case len(x) == 0:
			order = 1
		case len(y) > 0:
			order = cmp.Compare(x[0].name, y[0].name)
		}
		if order <= 0 {
			a, x = c.free(x[0]), x[1:]
		}
		if order >= 0 {
			b, y = other.free(y[0]), y[1:]
		}
		if found := a.Cmp(b); found != 0 {
			return found
		}
	}
	return cmp.Compare(c.pays(), other.pays())
}

// pays is what choosing the device draws. It is paid with the first share.
func (c *Candidate) pays() float64 {
	if c.Shared {
		return 0
	}
	return c.draws
}

// Published is an attribute of a device, which may leave out the domain if that is its driver.
func Published(d *pool.Device, name resourceapi.FullyQualifiedName) (resourceapi.DeviceAttribute, bool) {
	return published(d, d.Object.Attributes, name)
}

// published is the attribute or capacity of that name.
func published[V any](d *pool.Device, all map[resourceapi.QualifiedName]V, name resourceapi.FullyQualifiedName) (V, bool) {
	value, found := all[resourceapi.QualifiedName(name)]
	if domain, id, _ := strings.Cut(string(name), "/"); !found && domain == d.Shape.Driver {
		value, found = all[resourceapi.QualifiedName(id)]
	}
	return value, found
}

func sizesOf(d *eligibility.Devices) []size {
	all := make([]size, len(d.List))
	for i := range d.List {
		device := &d.List[i]
		for name, has := range device.Object.Capacity {
			all[i].capacities = append(all[i].capacities, capacity{string(name), quantity.Amount(has.Value)})
		}
		slices.SortFunc(all[i].capacities, func(a, b capacity) int { return cmp.Compare(a.name, b.name) })
		for _, use := range device.Uses {
			all[i].draws += part(use.Amount, d.Pools[device.Pool].Counters[use.Counter].Total)
		}
		all[i].draws = rounded(all[i].draws)
	}
	return all
}
