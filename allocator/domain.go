package allocator

import (
	"context"
	"fmt"
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/dray-project/dray/pools"
)

// domain is what a filter says of the node's devices.
type domain struct {
	// allowed are the devices a slot can take as far as the filter can tell: the
	// candidates.
	allowed *bitset.BitSet
	// mandatory are the devices that a request for all must have, in order,
	// whether allowed or not. Only set if filter.mandatory is.
	mandatory []int32
	// exhausted are devices that only lack capacity, because of what is in use. Nil
	// if there are none.
	exhausted *bitset.BitSet
	// bad maps devices that cannot be judged to the reason. Looking at one is an
	// error. They are not in allowed.
	bad map[int32]error
	// consumptions by shape. Nil without the feature ConsumableCapacity.
	consumptions map[*pools.Shape]*consumption
}

// compared are the devices that constraints may be asked about.
func (d *domain) compared() *bitset.BitSet {
	if d.exhausted == nil {
		return d.allowed
	}
	return d.allowed.Union(d.exhausted)
}

// firstError is the error of the first device that cannot be judged.
func (d *domain) firstError() error {
	first := int32(-1)
	for i := range d.bad {
		if first < 0 || i < first {
			first = i
		}
	}
	return d.bad[first]
}

// judgeAll fills in the domain of a filter. Only cancellation is an error here.
func (in *instance) judgeAll(ctx context.Context, f *filter, d *domain) error {
	d.allowed = bitset.New(uint(len(in.devices)))
	j := judge{in: in, filter: f, domain: d, verdicts: make(map[*pools.Shape]selection)}
	for i := range in.devices {
		err := j.device(ctx, int32(i))
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("allocation on node %s was cancelled: %w", in.node.Name, cause)
		}
		if err != nil {
			if d.bad == nil {
				d.bad = make(map[int32]error)
			}
			d.bad[int32(i)] = fmt.Errorf("device %s: %w", in.deviceID(int32(i)), err)
			in.literal = true
		}
	}
	return nil
}

func (in *instance) deviceID(i int32) pools.DeviceID {
	d := &in.devices[i]
	id := in.pools[d.pool].pool.ID
	return pools.DeviceID{Driver: id.Driver, Pool: id.Name, Device: d.Object.Name}
}

// judge applies one filter to the devices of a node.
type judge struct {
	in       *instance
	filter   *filter
	domain   *domain
	verdicts map[*pools.Shape]selection
}

// selection is what the selectors of a filter say of a shape.
type selection struct {
	rejectedBy int // position of the selector, -1 if none
	err        error
}

// device sorts one device into allowed, mandatory or neither; an error means bad.
func (j *judge) device(ctx context.Context, i int32) error {
	d := &j.in.devices[i]
	free := j.filter.admin || !d.inUse
	if !free && !j.filter.mandatory {
		return nil
	}
	rejected, err := j.selects(ctx, d)
	if err != nil || rejected.Reason != "" {
		return err
	}
	use, err := j.consumes(d)
	if err != nil {
		return err
	}
	if j.filter.mandatory && (use == nil || use.static() == "") {
		j.domain.mandatory = append(j.domain.mandatory, i)
	}
	if free {
		j.admit(i, use)
	}
	return nil
}

func (j *judge) admit(i int32, use *consumption) {
	d := &j.in.devices[i]
	if j.standing(d, use).Reason != "" {
		return
	}
	if use.short(j.in.pools[d.pool].used, d.index) == "" {
		j.domain.allowed.Set(uint(i))
		return
	}
	if j.domain.exhausted == nil {
		j.domain.exhausted = bitset.New(uint(len(j.in.devices)))
	}
	j.domain.exhausted.Set(uint(i))
}

// selects judges by content and node, in the order in which errors count.
func (j *judge) selects(ctx context.Context, d *device) (Rejection, error) {
	if len(d.Object.BindingConditions) > 0 && !j.in.features().DeviceBindingAndStatus {
		return Rejection{Reason: RejectedByBinding, Detail: "the feature DRADeviceBindingConditions is off"}, nil
	}
	verdict, known := j.verdicts[d.Shape]
	if !known {
		verdict.rejectedBy, verdict.err = j.in.problem.allocator.selector.matches(ctx, j.filter.selectors, d.Shape)
		j.verdicts[d.Shape] = verdict
	}
	switch {
	case verdict.err != nil:
		return Rejection{}, verdict.err
	case verdict.rejectedBy >= 0:
		s := &j.filter.selectors[verdict.rejectedBy]
		return Rejection{Reason: RejectedBySelector, Detail: s.origin + ": " + s.expression}, nil
	case d.onNodeErr != nil:
		return Rejection{}, d.onNodeErr
	case !d.onNode:
		return Rejection{Reason: RejectedByNode}, nil
	}
	return Rejection{}, nil
}

// consumes returns what an allocation of the device takes, nil without capacities.
func (j *judge) consumes(d *device) (*consumption, error) {
	if !j.in.features().ConsumableCapacity {
		return nil, nil
	}
	if j.domain.consumptions == nil {
		j.domain.consumptions = make(map[*pools.Shape]*consumption)
	}
	use := j.domain.consumptions[d.Shape]
	if use == nil {
		use = newConsumption(j.in.features(), j.filter.capacity, d.Shape.Device)
		j.domain.consumptions[d.Shape] = use
	}
	return use, use.err
}

// standing judges by what does not change with use: size, features, taints.
func (j *judge) standing(d *device, use *consumption) Rejection {
	if use != nil {
		if detail := use.static(); detail != "" {
			return Rejection{Reason: RejectedByCapacity, Detail: detail}
		}
	}
	if d.barred.Reason != "" {
		return d.barred
	}
	if taint := untolerated(j.in.features(), d.Object.Taints, j.filter.tolerations); taint != nil {
		return Rejection{Reason: RejectedByTaint, Detail: taintText(taint)}
	}
	return Rejection{}
}

// short names a capacity of which too little is left after what is in use.
func (c *consumption) short(used *pools.PoolUsage, index pools.DeviceIndex) string {
	if c == nil || !used.Shared(index) {
		return ""
	}
	for _, part := range c.parts {
		if used.Consumed(index, part.name).Add(part.taken).Cmp(part.total) > 0 {
			return string(part.name)
		}
	}
	return ""
}

// must reports whether the device is mandatory.
func (d *domain) must(i int32) bool {
	_, found := slices.BinarySearch(d.mandatory, i)
	return found
}
