// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package eligibility

import (
	"context"
	"fmt"
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/internal/index/shape"
)

// Domain is what a filter says of the devices of a node.
type Domain struct {
	// Allowed are the candidates: the devices that can be chosen as far as the filter can tell.
	Allowed *bitset.BitSet
	// Mandatory are the devices that a request for all must have, in order, whether they are
	// allowed or not. Only set if the filter is used for such a request.
	Mandatory []int32
	// Exhausted are devices that only lack capacity, because of what is in use.
	Exhausted *bitset.BitSet
	// Stops are devices that cannot be judged: looking at one is an error. They are not in Allowed. Nil if
	// there are none.
	Stops *bitset.BitSet
	// Uses is what an allocation takes, by device that is shareable.
	Uses map[int32]*Consumption
}

// Judge fills in the domain of a filter. Only cancellation is an error here.
func (n *Node) Judge(ctx context.Context, f *Filter, d *Domain) error {
	d.Allowed, d.Exhausted = n.sets.New(len(n.List)), n.sets.New(len(n.List))
	if rest := n.judgeLooks(ctx, f, d); rest.Any() {
		j := judge{ctx: ctx, node: n, filter: f}
		for i, ok := rest.NextSet(0); ok && ctx.Err() == nil; i, ok = rest.NextSet(i + 1) {
			if j.device(d, int32(i)) == nil {
				continue
			}
			if d.Stops == nil {
				d.Stops = n.sets.New(len(n.List))
			}
			d.Stops.Set(i)
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("allocation on node %s was cancelled: %w", n.Object.Name, cause)
	}
	return nil
}

// Error is why one of Domain.Stops cannot be judged, without its name. It is found out again.
func (n *Node) Error(ctx context.Context, f *Filter, i int32) error {
	j := judge{ctx: ctx, node: n, filter: f}
	return j.device(new(Domain), i)
}

// OfferOf is the position of the class by which a device that is allowed was had.
func (n *Node) OfferOf(f *Filter, i int32) int32 {
	found, err := n.evaluator.Judge(context.Background(), f, n.List[i].Shape)
	if err != nil {
		panic("device " + n.ID(i).String() + " was judged, but now: " + err.Error()) // it is immutable
	}
	return int32(found.Offer)
}

// device sorts one device into allowed, exhausted, mandatory or none; an error means that it cannot
// be judged.
func (j *judge) device(d *Domain, i int32) error {
	device := &j.node.List[i]
	allowed := true
	for k := range checks {
		c := &checks[k]
		_, rejected, err := c.rejects(j, device, i)
		if err != nil {
			return err
		}
		if rejected {
			allowed = false
			if !j.filter.All || !c.optional {
				return nil
			}
		}
	}
	if j.filter.All {
		d.Mandatory = append(d.Mandatory, i)
	}
	if !allowed {
		return nil
	}
	if device.Shareable {
		if d.Uses == nil {
			d.Uses = make(map[int32]*Consumption) // most domains have none
		}
		d.Uses[i] = j.use
	}
	if j.use.short(j.node.Used[device.Pool], device.Index) == "" {
		d.Allowed.Set(uint(i))
	} else {
		d.Exhausted.Set(uint(i))
	}
	return nil
}

// Rejections lists everything that, by itself, keeps a device from serving a filter, with nothing
// else allocated. The first one is what it is reported under. Each is of one device.
func (n *Node) Rejections(ctx context.Context, f *Filter, i int32) []explain.Rejection {
	j := judge{ctx: ctx, node: n, filter: f, explains: true}
	for k := range explained {
		detail, rejected, err := explained[k].rejects(&j, &n.List[i], i)
		if err != nil {
			detail = err.Error()
		}
		if rejected || err != nil {
			j.found = append(j.found, explain.Rejection{Reason: explained[k].reason, Detail: detail, Devices: 1})
		}
	}
	return j.found
}

// looks are the devices of a node as a projection sees them: those of one number are judged
// together.
type looks struct {
	list []look
	// rest are devices that each have to be judged by themselves.
	rest *bitset.BitSet
}

// look is the devices of one number, which are not special.
type look struct {
	number  uint32
	shape   *shape.Shape // of one of them
	members *bitset.BitSet
}

// maxLooks is how many looks are told apart on a node.
const maxLooks = 64

func (d *Devices) looksFor(ctx context.Context, p *Projection) *looks {
	if known, ok := d.looks.Get(p); ok {
		return known
	}
	made, devices := &looks{rest: d.special.Clone()}, d.special.Len()
	for i, ok := d.special.NextClear(0); ok && i < devices; i, ok = d.special.NextClear(i + 1) {
		number := p.Number(ctx, d.List[i].Shape)
		k := slices.IndexFunc(made.list, func(l look) bool { return l.number == number })
		switch {
		case number == 0 || k < 0 && len(made.list) == maxLooks:
			made.rest.Set(i)
		case k < 0:
			made.list = append(made.list, look{number, d.List[i].Shape, bitset.New(devices).Set(i)})
		default:
			made.list[k].members.Set(i)
		}
	}
	if ctx.Err() == nil {
		d.looks.Add(p, made, maxProjected)
	}
	return made
}

// each is all devices.
func (n *Node) each() *bitset.BitSet { return n.sets.New(len(n.List)).FlipRange(0, uint(len(n.List))) }

// judgeLooks fills in what a filter allows of the devices that it can judge together, and returns
// the others. It leaves everything to be judged by itself where mandatory devices have an order, and
// where there is an error.
func (n *Node) judgeLooks(ctx context.Context, f *Filter, d *Domain) (rest *bitset.BitSet) {
	if f.projection == nil || f.All {
		return n.each()
	}
	seen := n.looksFor(ctx, f.projection)
	for k := range seen.list {
		if ctx.Err() != nil {
			break // which the caller finds out
		}
		look := &seen.list[k]
		if !f.Admin && n.InUse.IsSuperSet(look.members) {
			continue
		}
		found, err := n.evaluator.Judge(ctx, f, look.shape)
		if err != nil || found.Use != nil && found.Use.Err != nil {
			d.Allowed.ClearAll()
			return n.each()
		}
		if !found.Rejects() {
			d.Allowed.InPlaceUnion(look.members)
		}
	}
	d.Allowed.InPlaceIntersection(n.here)
	if !f.Admin {
		d.Allowed.InPlaceDifference(n.InUse)
	}
	if n.Shared == nil {
		return seen.rest
	}
	d.Allowed.InPlaceDifference(n.Shared)
	rest = n.sets.Clone(seen.rest)
	rest.InPlaceUnion(n.Shared)
	return rest
}
