package allocator

import (
	"context"
	"fmt"
)

// reasons lists everything that, by itself, keeps a device from serving the filter,
// with nothing else allocated. The first is what it is reported under.
func (j *judge) reasons(ctx context.Context, i int32) []Rejection {
	d := &j.in.devices[i]
	var found []Rejection
	add := func(r Rejection) {
		if r.Reason != "" {
			r.Devices = 1
			found = append(found, r)
		}
	}
	j.contentReasons(ctx, d, add)
	if j.in.inUse.Test(uint(i)) && !j.filter.admin {
		add(Rejection{Reason: RejectedByUse})
	}
	j.capacityReasons(d, add)
	add(j.in.bar(d))
	add(j.in.chargeReason(i))
	if taint := untolerated(j.in.features(), d.Object.Taints, j.filter.tolerations); taint != nil {
		add(Rejection{Reason: RejectedByTaint, Detail: taintText(taint)})
	}
	return found
}

func (j *judge) contentReasons(ctx context.Context, d *device, add func(Rejection)) {
	if len(d.Object.BindingConditions) > 0 && !j.in.features().DeviceBindingAndStatus {
		add(Rejection{Reason: RejectedByBinding, Detail: "the feature DRADeviceBindingConditions is off"})
	}
	for k := range j.filter.selectors {
		s := &j.filter.selectors[k]
		rejectedBy, err := j.in.problem.allocator.selector.matches(ctx, j.filter.selectors[k:k+1], notesOf(d.Shape).device)
		switch {
		case err != nil:
			add(Rejection{Reason: RejectedBySelector, Detail: err.Error()})
		case rejectedBy >= 0:
			add(Rejection{Reason: RejectedBySelector, Detail: s.origin() + ": " + s.expression})
		}
	}
	switch {
	case d.onNodeErr != nil:
		add(Rejection{Reason: RejectedByNode, Detail: d.onNodeErr.Error()})
	case !d.onNode:
		add(Rejection{Reason: RejectedByNode})
	}
}

func (j *judge) capacityReasons(d *device, add func(Rejection)) {
	if !j.in.features().ConsumableCapacity {
		return
	}
	use := newConsumption(j.in.features(), j.filter.capacity, d.Shape.Device)
	if use.err != nil {
		add(Rejection{Reason: RejectedByCapacity, Detail: use.err.Error()})
		return
	}
	if use.refusal != "" {
		add(Rejection{Reason: RejectedByCapacity, Detail: use.refusal})
		return
	}
	if name := use.short(j.in.pools[d.pool].used, d.index); name != "" {
		add(Rejection{Reason: RejectedByCapacity, Detail: fmt.Sprintf("too little is left of capacity %s", name)})
	}
}

// chargeReason tells why the counters and groups of a pool, as they are now, keep a
// device from being allocated.
func (in *instance) chargeReason(i int32) Rejection {
	d := &in.devices[i]
	if !d.ConsumesCounters || d.multiple && in.isShared(i) {
		return Rejection{}
	}
	pool := in.pools[d.pool]
	if in.features().CompatibilityGroups {
		for _, use := range d.Groups {
			if !pool.used.Groups[use.Set].Admits(use.Groups) {
				return Rejection{Reason: RejectedByGroup}
			}
		}
	}
	for c, left := range pool.used.Left {
		if left.Sign() < 0 {
			return Rejection{Reason: RejectedByCounter, Detail: fmt.Sprintf("%s of the pool is overdrawn", pool.pool.Counters[c].Name)}
		}
	}
	for _, use := range d.Uses {
		if pool.used.Left[use.Counter].Cmp(use.Amount) < 0 {
			return Rejection{Reason: RejectedByCounter, Detail: "too little is left of " + pool.pool.Counters[use.Counter].Name}
		}
	}
	return Rejection{}
}
