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

// Domain is the result of a filter for the devices of a node.
type Domain struct {
	// Allowed are the candidates: the devices that the filter admits.
	Allowed *bitset.BitSet
	// Mandatory are the devices that a request with allocationMode All must have, in order, also those that are
	// not allowed. It is only set if the filter is for such a request.
	Mandatory []int32
	// Exhausted are devices that only lack free capacity.
	Exhausted *bitset.BitSet
	// Stops are devices at which a search ends with an error, as they cannot be judged. They are not in
	// Allowed. Nil if there are none.
	Stops *bitset.BitSet
	// Uses is what an allocation consumes, by shareable device.
	Uses map[int32]*Consumption
}

// Judge fills in the domain of a filter. It only returns the error of a cancelled context.
func (n *Node) Judge(ctx context.Context, f *Filter, d *Domain) error {
	d.Allowed, d.Exhausted = n.sets.New(len(n.List)), n.sets.New(len(n.List))
	if rest := n.judgeClasses(ctx, f, d); rest.Any() {
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
	return n.cancelled(ctx)
}

// JudgeFirst is Judge for a search that takes the first device it may. It may judge devices one by one until one is
// allowed or stops the search. Then complete is false, and devices after that one are in no set. It does so where
// more than few devices differ in what the selectors read, so that there is little to judge together.
func (n *Node) JudgeFirst(ctx context.Context, f *Filter, d *Domain, few int) (complete bool, err error) {
	if f.All || len(n.List) <= few || !n.differ(ctx, f, few) {
		return true, n.Judge(ctx, f, d)
	}
	d.Allowed, d.Exhausted = n.sets.New(len(n.List)), n.sets.New(len(n.List))
	j := judge{ctx: ctx, node: n, filter: f}
	for i := 0; i < len(n.List) && ctx.Err() == nil; i++ {
		if j.device(d, int32(i)) != nil {
			d.Stops = n.sets.New(len(n.List)).Set(uint(i))
		}
		if d.Stops != nil || d.Allowed.Test(uint(i)) {
			return false, n.cancelled(ctx)
		}
	}
	return true, n.cancelled(ctx)
}

// differ reports whether more than few devices have to be judged one by one.
func (d *Devices) differ(ctx context.Context, f *Filter, few int) bool {
	if f.projection == nil || few <= 0 {
		return true
	}
	if known, ok := d.equivalences.Get(f.projection); ok {
		return known.rest.Count() > uint(few)
	}
	for i := 0; i < min(len(d.List), maxNumbers) && !f.projection.Full(); i++ {
		f.projection.Number(ctx, d.List[i].Shape)
	}
	return f.projection.Full()
}

// cancelled returns the error of a cancelled context.
func (n *Node) cancelled(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("allocation on node %s was cancelled: %w", n.Object.Name, cause)
	}
	return nil
}

// Error judges one of Domain.Stops again and returns its error, which does not name the device.
func (n *Node) Error(ctx context.Context, f *Filter, i int32) error {
	j := judge{ctx: ctx, node: n, filter: f}
	return j.device(new(Domain), i)
}

// OfferOf is the position of the class by which an allowed device serves the request.
func (n *Node) OfferOf(f *Filter, i int32) int32 {
	found, err := n.evaluator.Judge(context.Background(), f, n.List[i].Shape)
	if err != nil {
		panic("device " + n.ID(i).String() + " was judged, but now: " + err.Error()) // a shape is immutable
	}
	return int32(found.Offer)
}

// device puts one device into the sets of the domain. An error means that it cannot be judged.
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
			d.Uses = make(map[int32]*Consumption) // most domains have no shareable device
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

// Rejections lists everything that keeps a device from serving a filter, with nothing chosen yet. The device is
// reported under the first. Each Rejection counts one device.
func (n *Node) Rejections(ctx context.Context, f *Filter, i int32) []explain.Rejection {
	j := judge{ctx: ctx, node: n, filter: f, explains: true}
	for k := range explanationOrder {
		detail, rejected, err := explanationOrder[k].rejects(&j, &n.List[i], i)
		if err != nil {
			detail = err.Error()
		}
		if rejected || err != nil {
			j.found = append(j.found, explain.Rejection{Reason: explanationOrder[k].reason, Detail: detail, Devices: 1})
		}
	}
	return j.found
}

// equivalence divides the devices of a node into equivalence classes by their number in a projection. The devices of
// a class are judged together.
type equivalence struct {
	classes []equivalenceClass
	// rest are devices that must be judged one by one.
	rest *bitset.BitSet
}

// equivalenceClass is the set of devices that have one number and are not special.
type equivalenceClass struct {
	number  uint32
	shape   *shape.Shape // that of one member
	members *bitset.BitSet
}

// maxEquivalenceClasses bounds the equivalence classes on a node. Devices beyond are judged one by one.
const maxEquivalenceClasses = 64

func (d *Devices) equivalenceFor(ctx context.Context, p *Projection) *equivalence {
	if known, ok := d.equivalences.Get(p); ok {
		return known
	}
	made, devices := &equivalence{rest: d.special.Clone()}, d.special.Len()
	for i, ok := d.special.NextClear(0); ok && i < devices; i, ok = d.special.NextClear(i + 1) {
		number := p.Number(ctx, d.List[i].Shape)
		k := slices.IndexFunc(made.classes, func(l equivalenceClass) bool { return l.number == number })
		switch {
		case number == 0 || k < 0 && len(made.classes) == maxEquivalenceClasses:
			made.rest.Set(i)
		case k < 0:
			made.classes = append(made.classes, equivalenceClass{number, d.List[i].Shape, bitset.New(devices).Set(i)})
		default:
			made.classes[k].members.Set(i)
		}
	}
	if ctx.Err() == nil {
		d.equivalences.Add(p, made, maxProjected)
	}
	return made
}

// allDevices returns the set of all devices.
func (n *Node) allDevices() *bitset.BitSet {
	return n.sets.New(len(n.List)).FlipRange(0, uint(len(n.List)))
}

// judgeClasses fills in what a filter allows of the devices that can be judged together, and returns the others.
// It returns all devices if the order of mandatory devices is needed, or if there is an error.
func (n *Node) judgeClasses(ctx context.Context, f *Filter, d *Domain) (rest *bitset.BitSet) {
	if f.projection == nil || f.All {
		return n.allDevices()
	}
	seen := n.equivalenceFor(ctx, f.projection)
	for k := range seen.classes {
		if ctx.Err() != nil {
			break // the caller checks the context, too
		}
		class := &seen.classes[k]
		if !f.Admin && n.InUse.IsSuperSet(class.members) {
			continue
		}
		found, err := n.evaluator.Judge(ctx, f, class.shape)
		if err != nil || found.Use != nil && found.Use.Err != nil {
			d.Allowed.ClearAll()
			return n.allDevices()
		}
		if !found.Rejects() {
			d.Allowed.InPlaceUnion(class.members)
		}
	}
	d.Allowed.InPlaceIntersection(n.onNode)
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
