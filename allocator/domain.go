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
	// uses is what a share takes, by device that allows multiple allocations.
	uses map[int32]*consumption
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
func (in *instance) judgeAll(ctx context.Context, f usedFilter, d *domain) error {
	d.allowed = in.room.set(len(in.devices))
	j := judge{in: in, filter: f, domain: d}
	rest := in.judgeFaces(ctx, f, d)
	for i, ok := rest.NextSet(0); ok && ctx.Err() == nil; i, ok = rest.NextSet(i + 1) {
		if err := j.device(ctx, int32(i)); err != nil {
			if d.bad == nil {
				d.bad = make(map[int32]error)
			}
			d.bad[int32(i)] = fmt.Errorf("device %s: %w", in.deviceID(int32(i)), err)
			in.literal = true
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("allocation on node %s was cancelled: %w", in.node.Name, cause)
	}
	return nil
}

func (in *instance) deviceID(i int32) pools.DeviceID {
	d := &in.devices[i]
	return idOf(in.pools[d.pool].pool, d.Device)
}

// judge applies one filter to the devices of a node.
type judge struct {
	in     *instance
	filter usedFilter
	domain *domain
}

// device sorts one device into allowed, exhausted, mandatory or none; an error means
// bad. The order of the checks is the one in which errors count.
func (j *judge) device(ctx context.Context, i int32) error {
	d := &j.in.devices[i]
	free := j.filter.admin || !j.in.inUse.Test(uint(i))
	if !free && !j.filter.mandatory {
		return nil
	}
	if len(d.Object.BindingConditions) > 0 && !j.in.features().DeviceBindingAndStatus {
		return nil
	}
	judge := j.in.problem.allocator.selector.glance
	if j.in.isShared(i) {
		judge = j.in.problem.allocator.selector.judgeAnew
	}
	rejectedBy, use, err := judge(ctx, j.filter.filter, d.Shape)
	if err != nil || rejectedBy >= 0 {
		return err
	}
	if d.onNodeErr != nil || !d.onNode {
		return d.onNodeErr
	}
	if use != nil && (use.err != nil || use.refusal != "") {
		return use.err
	}
	if j.filter.mandatory {
		j.domain.mandatory = append(j.domain.mandatory, i)
	}
	if free && j.in.bar(d).Reason == "" && untolerated(j.in.features(), d.Object.Taints, j.filter.tolerations) == nil {
		j.admit(i, use)
	}
	return nil
}

func (j *judge) admit(i int32, use *consumption) {
	d := &j.in.devices[i]
	if d.multiple {
		if j.domain.uses == nil {
			j.domain.uses = make(map[int32]*consumption)
		}
		j.domain.uses[i] = use
	}
	if use.short(j.in.pools[d.pool].used, d.index) == "" {
		j.domain.allowed.Set(uint(i))
		return
	}
	if j.domain.exhausted == nil {
		j.domain.exhausted = j.in.room.set(len(j.in.devices))
	}
	j.domain.exhausted.Set(uint(i))
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
