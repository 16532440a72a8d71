package pools

import (
	"slices"
)

// usageEdit changes a copy of a PoolUsage. The original and the other copies stay
// as they are. done returns the changed usage; nothing may be set after that.
type usageEdit struct {
	usage *PoolUsage
	// regroup are the counter sets of which devices came or went.
	regroup map[CounterSetIndex]struct{}
}

func (u *PoolUsage) edit() *usageEdit {
	return &usageEdit{
		usage: &PoolUsage{
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

// set records the use of the devices of one name.
func (e *usageEdit) set(namesakes []DeviceIndex, u use) {
	for _, i := range namesakes {
		before := e.usage.used(i)
		e.usage.exclusive.SetTo(uint(i), u.exclusive)
		e.usage.shared.SetTo(uint(i), u.shared)
		if len(u.consumed) > 0 || len(e.usage.consumed.Get(int(i))) > 0 {
			e.usage.consumed = e.usage.consumed.With(int(i), u.consumed)
		}
		// Counters are charged once, however many shares there are.
		if after := u.any(); after != before {
			e.charge(i, after)
		}
	}
}

func (e *usageEdit) charge(i DeviceIndex, used bool) {
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

func (e *usageEdit) done() *PoolUsage {
	for set := range e.regroup {
		e.usage.Groups[set] = e.usage.groupState(set)
	}
	e.usage.setOverdrawn()
	return e.usage
}

// groupState folds over the devices in use in the order of the pool, because for
// devices that should not be together the order matters.
func (u *PoolUsage) groupState(set CounterSetIndex) (state GroupState) {
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
