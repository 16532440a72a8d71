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

	sizes []size
	used  *pool.Usage
}

// size is what a device has of a capacity or draws on a counter.
type size struct {
	counter bool
	name    string
	amount  amount.Amount
}

// prefer puts the devices of each domain into the order of a policy.
func (in *Instance) prefer(before func(a, b *Candidate) bool) {
	sizes := frameOf(in.Node.Devices, in.evaluator.Features()).sizes()
	for _, alt := range in.Problem.Domains {
		domain := in.Alternatives[alt.ID].Domain
		list := make([]int32, 0, int(domain.Allowed.Count())+len(domain.Bad))
		for i := range in.Node.List {
			if _, bad := domain.Bad[int32(i)]; bad || domain.Allowed.Test(uint(i)) {
				list = append(list, int32(i))
			}
		}
		candidates := make([]Candidate, len(in.Node.List))
		for _, i := range list {
			candidates[i] = in.candidate(alt, i, sizes[i])
		}
		slices.SortStableFunc(list, func(i, k int32) int {
			switch a, b := &candidates[i], &candidates[k]; {
			case before(a, b):
				return -1
			case before(b, a):
				return 1
			}
			return 0
		})
		in.Alternatives[alt.ID].order = list
	}
}

func (in *Instance) candidate(alt *claims.Alternative, i int32, sizes []size) Candidate {
	d := &in.Node.List[i]
	c := Candidate{Device: pool.HandleOf(in.Node.Pools[d.Pool], d.Index), sizes: sizes, used: in.Node.Used[d.Pool]}
	c.Shared = c.used.Shared(d.Index)
	for _, s := range sizes {
		if !s.counter && d.Shareable {
			c.InUse = max(c.InUse, part(s.amount.Sub(c.free(s)), s.amount))
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
		at := slices.IndexFunc(sizes, func(s size) bool { return !s.counter && s.name == string(name) })
		if at >= 0 {
			sum += int64(part(quantity.Amount(asked), c.free(sizes[at])) * fitScale)
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

// free is what the next one to have the device gets, or draws.
func (c *Candidate) free(s size) amount.Amount {
	_, i := c.Device.Split()
	switch {
	case !c.Shared:
		return s.amount
	case s.counter:
		return amount.Amount{} // paid with the first share
	}
	return s.amount.Sub(c.used.Consumed(i, resourceapi.QualifiedName(s.name)))
}

// CompareSize compares what is free of capacities by name, and then what is drawn on counters by name.
// What only one of them has, the other one has nothing of.
func (c *Candidate) CompareSize(other *Candidate) int {
	x, y := c.sizes, other.sizes
	for len(x) > 0 || len(y) > 0 {
		var a, b amount.Amount
		order := -1
		switch {
		case len(x) == 0:
			order = 1
		case len(y) > 0:
			order = x[0].compare(y[0])
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
	return 0
}

// Published is an attribute of a device, which may leave out the domain if that is its driver.
func Published(d *pool.Device, name resourceapi.FullyQualifiedName) (resourceapi.DeviceAttribute, bool) {
	value, found := d.Object.Attributes[resourceapi.QualifiedName(name)]
	if domain, id, _ := strings.Cut(string(name), "/"); !found && domain == d.Shape.Driver {
		value, found = d.Object.Attributes[resourceapi.QualifiedName(id)]
	}
	return value, found
}

// compare orders sizes: capacities first, by name.
func (s size) compare(other size) int {
	if s.counter != other.counter {
		if s.counter {
			return 1
		}
		return -1
	}
	return cmp.Compare(s.name, other.name)
}

// sizesOf lists the sizes of each device in order. Counters of one name count together.
func sizesOf(d *eligibility.Devices) [][]size {
	all := make([][]size, len(d.List))
	for i := range d.List {
		device := &d.List[i]
		drawn := make(map[string]amount.Amount)
		for _, use := range device.Uses {
			name := d.Pools[device.Pool].Counters[use.Counter].Name
			drawn[name] = drawn[name].Add(use.Amount)
		}
		for name, capacity := range device.Object.Capacity {
			all[i] = append(all[i], size{name: string(name), amount: quantity.Amount(capacity.Value)})
		}
		for name, amount := range drawn {
			all[i] = append(all[i], size{counter: true, name: name, amount: amount})
		}
		slices.SortFunc(all[i], size.compare)
	}
	return all
}
