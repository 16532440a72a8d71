package pool

import (
	"slices"
)

// Edit changes a copy of a Usage. The original and the other copies stay
// as they are. Done returns the changed usage; nothing may be set after that.
type Edit struct {
	usage *Usage
	// regroup are the counter sets of which devices came or went.
	regroup map[CounterSetIndex]struct{}
}

// Edit returns an Edit of a copy.
func (u *Usage) Edit() *Edit {
	return &Edit{
		usage: &Usage{
			serial:    usageSerials.Add(1),
			Left:      slices.Clone(u.Left),
			Groups:    slices.Clone(u.Groups),
			pool:      u.pool,
			exclusive: u.exclusive.Clone(),
			shared:    u.shared.Clone(),
			consumed:  u.consumed,
		},
		regroup: make(map[CounterSetIndex]struct{}),
	}
}

// Pool returns the pool of which the usage is edited.
func (e *Edit) Pool() *Pool { return e.usage.pool }

// Set records the use of the devices of one name.
func (e *Edit) Set(namesakes []DeviceIndex, u Use) {
	for _, i := range namesakes {
		before := e.usage.used(i)
		e.usage.exclusive.SetTo(uint(i), u.Exclusive)
		e.usage.shared.SetTo(uint(i), u.Shared)
		if len(u.Consumed) > 0 || len(e.usage.consumed.Get(int(i))) > 0 {
			e.usage.consumed = e.usage.consumed.With(int(i), u.Consumed)
		}
		// Counters are charged once, however many shares there are.
		if after := u.any(); after != before {
			e.charge(i, after)
		}
	}
}

func (e *Edit) charge(i DeviceIndex, used bool) {
	device := &e.usage.pool.Devices[i]
	for _, use := range device.Uses {
		left := &e.usage.Left[use.Counter]
		if used {
			*left = left.Sub(use.Amount)
		} else {
			*left = left.Add(use.Amount)
		}
	}
	for _, group := range device.Groups {
		e.regroup[group.Set] = struct{}{}
	}
}

// Done returns the changed usage.
func (e *Edit) Done() *Usage {
	for set := range e.regroup {
		e.usage.Groups[set] = e.usage.groupState(set)
	}
	e.usage.setOverdrawn()
	return e.usage
}

// groupState folds over the devices in use in the order of the pool, because for
// devices that should not be together the order matters.
func (u *Usage) groupState(set CounterSetIndex) (state GroupState) {
	for _, i := range u.pool.consumers[set] {
		if !u.used(i) {
			continue
		}
		for _, group := range u.pool.Devices[i].Groups {
			if group.Set == set {
				state = state.Add(group.Groups)
			}
		}
	}
	return state
}
