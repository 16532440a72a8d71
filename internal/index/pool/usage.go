package pool

import (
	"slices"

	"github.com/bits-and-blooms/bitset"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/index/persist"
)

// Use says in which ways the devices of one name are in use. The zero value is a free
// device.
type Use struct {
	// Exclusive: allocated as a whole.
	Exclusive bool
	// Shared: at least one share is allocated, or capacity is recorded as consumed.
	Shared bool
	// Consumed is the capacity that all shares together hold, in no order.
	Consumed []Consumption
}

func (u Use) any() bool { return u.Exclusive || u.Shared }

// Usage is what is in use of one pool. It is immutable and safe for concurrent use.
type Usage struct {
	// Left has, for each of Pool.Counters, its total less what the devices in use
	// consume, whichever nodes they are on. It may be negative.
	Left []amount.Amount
	// Overdrawn is set if any of Left is negative. Kubernetes then allocates no
	// device that consumes counters from the pool.
	Overdrawn bool
	// Groups has, for each of Pool.CounterSets, the compatibility groups that the
	// devices in use share.
	Groups []GroupState

	serial            uint64
	pool              *Pool
	exclusive, shared *bitset.BitSet
	consumed          persist.Array[[]Consumption]
}

// Consumption is how much of one capacity of a device is taken.
type Consumption struct {
	Capacity resourceapi.QualifiedName
	Amount   amount.Amount
}

var noDevices = bitset.New(0)

func newIdleUsage(p *Pool) *Usage {
	u := &Usage{
		serial:    usageSerials.Add(1),
		pool:      p,
		Left:      make([]amount.Amount, len(p.Counters)),
		Groups:    make([]GroupState, len(p.CounterSets)),
		exclusive: noDevices,
		shared:    noDevices,
	}
	for i := range p.Counters {
		u.Left[i] = p.Counters[i].Total
	}
	u.setOverdrawn()
	return u
}

// NewUsage returns the usage of a pool, given the use of each device name. It calls
// useOf once per name, with the first device of that name. Devices of the same name
// are in use together: each is charged to the counters. If the pool is in use as it was
// when it was last asked about, without shares, the result is the same as then.
func NewUsage(p *Pool, useOf func(first DeviceIndex) Use) *Usage {
	var buffer [16]namedUse
	used := p.appendUses(buffer[:0], useOf)
	if len(used) == 0 {
		return p.Idle()
	}
	whole := !slices.ContainsFunc(used, func(u namedUse) bool { return u.use.Shared })
	if recent := p.recent.Load(); whole && recent != nil && recent.holds(used) {
		return recent
	}
	edit := p.Idle().Edit()
	for _, u := range used {
		edit.Set(p.namesakes(u.position), u.use)
	}
	usage := edit.Done()
	if whole {
		p.recent.Store(usage)
	}
	return usage
}

// namedUse is how the devices of one name are in use.
type namedUse struct {
	position int // of the name in Pool.byName
	use      Use
}

// appendUses leaves out free devices.
func (p *Pool) appendUses(to []namedUse, useOf func(first DeviceIndex) Use) []namedUse {
	for position := 0; position < len(p.byName); {
		devices := p.namesakes(position)
		if u := useOf(devices[0]); u.any() {
			to = append(to, namedUse{position: position, use: u})
		}
		position += len(devices)
	}
	return to
}

// holds reports whether exactly these devices are in use.
func (u *Usage) holds(used []namedUse) bool {
	var count uint
	for i := range used {
		for _, device := range u.pool.namesakes(used[i].position) {
			if !u.InUse(device) {
				return false
			}
			count++
		}
	}
	return u.exclusive.Count() == count
}

// Pool returns the pool of which it is the usage.
func (u *Usage) Pool() *Pool { return u.pool }

// InUse reports whether a device is allocated as a whole.
func (u *Usage) InUse(i DeviceIndex) bool { return u.exclusive.Test(uint(i)) }

// Shared reports whether shares of a device are allocated or capacity of it is
// recorded as consumed.
func (u *Usage) Shared(i DeviceIndex) bool { return u.shared.Test(uint(i)) }

// Consumed returns how much of a capacity of a device all its shares hold.
func (u *Usage) Consumed(i DeviceIndex, capacity resourceapi.QualifiedName) amount.Amount {
	for _, c := range u.consumed.Get(int(i)) {
		if c.Capacity == capacity {
			return c.Amount
		}
	}
	return amount.Amount{}
}

// NextInUse returns the first device from i on that is allocated as a whole.
func (u *Usage) NextInUse(i DeviceIndex) (DeviceIndex, bool) {
	next, ok := u.exclusive.NextSet(uint(i))
	return DeviceIndex(next), ok
}

// NextShared returns the first device from i on of which Shared is true.
func (u *Usage) NextShared(i DeviceIndex) (DeviceIndex, bool) {
	next, ok := u.shared.NextSet(uint(i))
	return DeviceIndex(next), ok
}

// Obtainable reports whether what is in use leaves room for allocating a device as a whole.
func (u *Usage) Obtainable(i DeviceIndex) bool {
	device := &u.pool.Devices[i]
	if u.used(i) || len(device.Uses) > 0 && !u.pays(device.Uses) {
		return false
	}
	for _, group := range device.Groups {
		if !u.Groups[group.Set].Admits(group.Groups) {
			return false
		}
	}
	return true
}

// pays reports whether no counter of the pool is below zero after what a device takes, which
// is sorted by counter.
func (u *Usage) pays(uses []CounterUse) bool {
	for c, left := range u.Left {
		if len(uses) > 0 && uses[0].Counter == CounterIndex(c) {
			left, uses = left.Sub(uses[0].Amount), uses[1:]
		}
		if left.Sign() < 0 {
			return false
		}
	}
	return true
}

func (u *Usage) used(i DeviceIndex) bool { return u.InUse(i) || u.Shared(i) }

func (u *Usage) setOverdrawn() {
	u.Overdrawn = slices.ContainsFunc(u.Left, func(a amount.Amount) bool { return a.Sign() < 0 })
}
