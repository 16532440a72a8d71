package eligibility

import (
	"context"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/internal/index/shape"
)

// looks are the devices of a node as a projection sees them: those of one number are judged
// together.
type looks struct {
	projection *Projection
	list       []look
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

func (d *Devices) looksFor(p *Projection) *looks {
	if known, ok := d.looks.Get(p); ok {
		return known
	}
	made := &looks{projection: p, rest: d.special.Clone()}
	for i := range d.List {
		if !d.special.Test(uint(i)) {
			made.add(uint(i), d.List[i].Shape, d.special.Len())
		}
	}
	d.looks.Add(p, made, maxColumns)
	return made
}

func (l *looks) add(i uint, shape *shape.Shape, devices uint) {
	number := l.projection.Number(shape)
	for k := range l.list {
		if l.list[k].number == number && number != 0 {
			l.list[k].members.Set(i)
			return
		}
	}
	if number == 0 || len(l.list) == maxLooks {
		l.rest.Set(i)
		return
	}
	l.list = append(l.list, look{number, shape, bitset.New(devices).Set(i)})
}

// judgeLooks fills in what a filter allows of the devices that it can judge together, and returns
// the others. It leaves everything to be judged by itself where mandatory devices have an order,
// where capacity is asked for, and where there is an error.
func (n *Node) judgeLooks(ctx context.Context, f Use, d *Domain) (rest *bitset.BitSet) {
	if f.projection == nil || f.Mandatory || f.Capacity != nil || n.special == n.all {
		return n.all
	}
	seen := n.looksFor(f.projection)
	for k := range seen.list {
		look := &seen.list[k]
		if !f.Admin && n.InUse.IsSuperSet(look.members) {
			continue
		}
		found, err := n.evaluator.Judge(ctx, f.Filter, look.shape, false)
		if err != nil {
			d.Allowed.ClearAll()
			return n.all
		}
		if found.RejectedBy < 0 {
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
