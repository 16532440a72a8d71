package eligibility

import (
	"context"
	"fmt"
	"slices"

	"github.com/bits-and-blooms/bitset"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/quantity"
)

// Domain is what a filter says of the devices of a node.
type Domain struct {
	// Allowed are the candidates: the devices that can be chosen as far as the filter can tell.
	Allowed *bitset.BitSet
	// Mandatory are the devices that a request for all must have, in order, whether they are
	// allowed or not. Only set if the filter is used for such a request.
	Mandatory []int32
	// Exhausted are devices that only lack capacity, because of what is in use. Nil if there
	// are none.
	Exhausted *bitset.BitSet
	// Bad maps devices that cannot be judged to the reason. Looking at one is an error. They
	// are not in Allowed.
	Bad map[int32]error
	// Uses is what an allocation takes, by device that is shareable.
	Uses map[int32]*Consumption
}

// Compared are the devices that constraints may be asked about.
func (d *Domain) Compared() *bitset.BitSet {
	if d.Exhausted == nil {
		return d.Allowed
	}
	return d.Allowed.Union(d.Exhausted)
}

// Given is what is taken of a capacity of a device that is allowed: of one that is not shared, all.
func (d *Domain) Given(device *Device, i int32, name resourceapi.QualifiedName) amount.Amount {
	if !device.Shareable {
		if capacity, found := device.Object.Capacity[name]; found && capacity.Value.Sign() > 0 {
			return quantity.Amount(capacity.Value)
		}
		return amount.Amount{}
	}
	if use := d.Uses[i]; use != nil {
		for _, part := range use.Parts {
			if part.Name == name {
				return part.Taken
			}
		}
	}
	return amount.Amount{}
}

// FirstError is the error of the first device that cannot be judged.
func (d *Domain) FirstError() error {
	first := int32(-1)
	for i := range d.Bad {
		if first < 0 || i < first {
			first = i
		}
	}
	return d.Bad[first]
}

// Judge fills in the domain of a filter. Only cancellation is an error here.
func (n *Node) Judge(ctx context.Context, f Use, d *Domain) error {
	d.Allowed = n.sets.New(len(n.List))
	j := judge{ctx: ctx, node: n, filter: f.Filter}
	rest := n.judgeLooks(ctx, f, d)
	for i, ok := rest.NextSet(0); ok && ctx.Err() == nil; i, ok = rest.NextSet(i + 1) {
		if err := j.device(d, f.Mandatory, int32(i)); err != nil {
			if d.Bad == nil {
				d.Bad = make(map[int32]error)
			}
			d.Bad[int32(i)] = fmt.Errorf("device %s: %w", n.ID(int32(i)), err)
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("allocation on node %s was cancelled: %w", n.Object.Name, cause)
	}
	return nil
}

// device sorts one device into allowed, exhausted, mandatory or none; an error means that it cannot
// be judged.
func (j *judge) device(d *Domain, mandatory bool, i int32) error {
	device := &j.node.List[i]
	allowed := true
	for k := range checks {
		c := &checks[k]
		rejected, err := c.rejects(j, device, i)
		if err != nil {
			return err
		}
		if rejected {
			allowed = false
			if !mandatory || !c.optional {
				return nil
			}
		}
	}
	if mandatory {
		d.Mandatory = append(d.Mandatory, i)
	}
	if allowed {
		j.admit(d, device, i)
	}
	return nil
}

func (j *judge) admit(d *Domain, device *Device, i int32) {
	if device.Shareable {
		if d.Uses == nil {
			d.Uses = make(map[int32]*Consumption)
		}
		d.Uses[i] = j.use
	}
	if j.use.short(j.node.Used[device.Pool], device.Index) == "" {
		d.Allowed.Set(uint(i))
		return
	}
	if d.Exhausted == nil {
		d.Exhausted = j.node.sets.New(len(j.node.List))
	}
	d.Exhausted.Set(uint(i))
}

// Rejections lists everything that, by itself, keeps a device from serving a filter, with nothing
// else allocated. The first one is what it is reported under.
func (n *Node) Rejections(ctx context.Context, f *Filter, i int32) []Rejection {
	j := judge{ctx: ctx, node: n, filter: f}
	var found []Rejection
	add := func(r Rejection) { found = append(found, r) }
	for k := range checks {
		checks[k].explain(&j, &n.List[i], i, add)
	}
	slices.SortStableFunc(found, func(a, b Rejection) int { return rank(a.Reason) - rank(b.Reason) })
	return found
}

// rank puts being in use, which the search asks for first, behind what a device is.
func rank(r Reason) int {
	switch r {
	case Binding, BySelector, ByUnknown, ByNode:
		return 0
	case InUse:
		return 1
	}
	return 2
}

// Join is what several filters say together which differ in their selectors only: the first of them
// that has a device decides about it. The second result is its position, by device.
func (n *Node) Join(of []*Domain) (*Domain, []int32) {
	joined, by := &Domain{Allowed: n.sets.New(len(n.List))}, make([]int32, len(n.List))
	decided := n.sets.New(len(n.List))
	for k, d := range of {
		had := d.Compared().Clone()
		had.InPlaceDifference(decided)
		for i, ok := had.NextSet(0); ok; i, ok = had.NextSet(i + 1) {
			by[i] = int32(k)
			joined.take(n, d, i)
		}
		for i, err := range d.Bad {
			if decided.Test(uint(i)) {
				continue
			}
			if joined.Bad == nil {
				joined.Bad = make(map[int32]error)
			}
			joined.Bad[i] = err
			had.Set(uint(i))
		}
		decided.InPlaceUnion(had)
	}
	return joined, by
}

// take copies what another domain says of a device that is allowed or exhausted.
func (d *Domain) take(n *Node, from *Domain, i uint) {
	if use, shared := from.Uses[int32(i)]; shared {
		if d.Uses == nil {
			d.Uses = make(map[int32]*Consumption)
		}
		d.Uses[int32(i)] = use
	}
	if from.Allowed.Test(i) {
		d.Allowed.Set(i)
		return
	}
	if d.Exhausted == nil {
		d.Exhausted = n.sets.New(len(n.List))
	}
	d.Exhausted.Set(i)
}
