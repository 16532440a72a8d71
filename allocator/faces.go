package allocator

import (
	"context"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/pools"
)

// faces are the devices of a roster as a sight sees them: those of one number are judged
// together.
type faces struct {
	sight *sight
	list  []face
	// rest are devices that each have to be judged by themselves.
	rest *bitset.BitSet
}

// face is the devices of one number, which are not special.
type face struct {
	number  uint32
	shape   *pools.Shape // of one of them
	members *bitset.BitSet
}

// maxFaces is how many faces are told apart on a roster.
const maxFaces = 64

// facesFor returns the devices as a sight sees them.
func (r *roster) facesFor(s *sight) *faces {
	if known, ok := r.faces.get(s); ok {
		return known
	}
	made := &faces{sight: s, rest: r.special.Clone()}
	for i := range r.devices {
		if !r.special.Test(uint(i)) {
			made.add(uint(i), r.devices[i].Shape, r.special.Len())
		}
	}
	r.faces.add(s, made, maxColumns)
	return made
}

func (f *faces) add(i uint, shape *pools.Shape, devices uint) {
	number := f.sight.number(shape)
	for k := range f.list {
		if f.list[k].number == number && number != 0 {
			f.list[k].members.Set(i)
			return
		}
	}
	if number == 0 || len(f.list) == maxFaces {
		f.rest.Set(i)
		return
	}
	f.list = append(f.list, face{number, shape, bitset.New(devices).Set(i)})
}

// judgeFaces fills in what a filter allows of the devices that it can judge together, and
// returns the others. It leaves everything to be judged by itself where mandatory devices
// have an order, where capacity is asked for, and where there is an error.
func (in *instance) judgeFaces(ctx context.Context, f usedFilter, d *domain) (rest *bitset.BitSet) {
	if f.sight == nil || f.mandatory || f.capacity != nil || in.special == in.all {
		return in.all
	}
	seen := in.facesFor(f.sight)
	for k := range seen.list {
		face := &seen.list[k]
		if !f.admin && in.inUse.IsSuperSet(face.members) {
			continue
		}
		rejectedBy, _, err := in.problem.allocator.selector.glance(ctx, f.filter, face.shape)
		if err != nil {
			d.allowed.ClearAll()
			return in.all
		}
		if rejectedBy < 0 {
			d.allowed.InPlaceUnion(face.members)
		}
	}
	d.allowed.InPlaceIntersection(in.here)
	if !f.admin {
		d.allowed.InPlaceDifference(in.inUse)
	}
	if in.shared == nil {
		return seen.rest
	}
	d.allowed.InPlaceDifference(in.shared)
	rest = in.room.clone(seen.rest)
	rest.InPlaceUnion(in.shared)
	return rest
}
