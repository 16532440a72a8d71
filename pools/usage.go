package pools

import (
	"slices"

	"github.com/bits-and-blooms/bitset"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/pools/internal/persist"
)

// DeviceUse says in which ways the devices of one name are in use. The zero value
// is a free device.
type DeviceUse struct {
	// Exclusive: allocated as a whole.
	Exclusive bool
	// Shared: at least one share is allocated.
	Shared bool
	// Consumed is the capacity that all shares together hold. A device for which
	// any is recorded counts as shared.
	Consumed map[resourceapi.QualifiedName]resource.Quantity
}

// use is a DeviceUse with amounts.
type use struct {
	exclusive, shared bool
	consumed          []consumption // in no order
}

func newUse(u DeviceUse) use {
	converted := use{exclusive: u.Exclusive, shared: u.Shared || len(u.Consumed) > 0}
	for capacity, quantity := range u.Consumed {
		converted.consumed = append(converted.consumed, consumption{capacity: capacity, amount: amount.FromQuantity(quantity)})
	}
	return converted
}

func (u use) any() bool { return u.exclusive || u.shared }

// PoolUsage is what is in use of one pool. It is immutable and safe for concurrent use.
type PoolUsage struct {
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
	consumed          persist.Array[[]consumption]
}

// consumption is how much of one capacity of a device is taken.
type consumption struct {
	capacity resourceapi.QualifiedName
	amount   amount.Amount
}

var noDevices = bitset.New(0)

func newIdleUsage(p *Pool) *PoolUsage {
	u := &PoolUsage{
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

// NewPoolUsage returns the usage of a pool, given the use of each device name. It calls
// deviceUse once per name, with the first device of that name. Devices of the same name
// are in use together: each is charged to the counters. If the pool is in use as it was
// when it was last asked about, without shares, the result is the same as then.
func NewPoolUsage(p *Pool, deviceUse func(first DeviceIndex) DeviceUse) *PoolUsage {
	var buffer [16]namedUse
	used := p.appendUses(buffer[:0], deviceUse)
	if len(used) == 0 {
		return p.idle
	}
	whole := !slices.ContainsFunc(used, func(u namedUse) bool { return u.use.Shared || len(u.use.Consumed) > 0 })
	if recent := p.recent.Load(); whole && recent != nil && recent.holds(used) {
		return recent
	}
	edit := p.idle.edit()
	for _, u := range used {
		edit.set(p.namesakes(u.position), newUse(u.use))
	}
	usage := edit.done()
	if whole {
		p.recent.Store(usage)
	}
	return usage
}

// namedUse is how the devices of one name are in use.
type namedUse struct {
	position int // of the name in Pool.byName
	use      DeviceUse
}

// appendUses leaves out free devices.
func (p *Pool) appendUses(to []namedUse, deviceUse func(first DeviceIndex) DeviceUse) []namedUse {
	for position := 0; position < len(p.byName); {
		devices := p.namesakes(position)
		if u := deviceUse(devices[0]); u.Exclusive || u.Shared || len(u.Consumed) > 0 {
			to = append(to, namedUse{position: position, use: u})
		}
		position += len(devices)
	}
	return to
}

// holds reports whether exactly these devices are in use.
func (u *PoolUsage) holds(used []namedUse) bool {
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

func newPoolUsage(p *Pool, useOf func(device string) use) *PoolUsage {
	var edit *usageEdit
	for first := 0; first < len(p.byName); {
		devices := p.namesakes(first)
		first += len(devices)
		u := useOf(p.Devices[devices[0]].Object.Name)
		if !u.any() {
			continue
		}
		if edit == nil {
			edit = p.idle.edit()
		}
		edit.set(devices, u)
	}
	if edit == nil {
		return p.idle
	}
	return edit.done()
}

// InUse reports whether a device is allocated as a whole.
func (u *PoolUsage) InUse(i DeviceIndex) bool { return u.exclusive.Test(uint(i)) }

// Shared reports whether shares of a device are allocated or capacity of it is
// recorded as consumed.
func (u *PoolUsage) Shared(i DeviceIndex) bool { return u.shared.Test(uint(i)) }

// Consumed returns how much of a capacity of a device all its shares hold.
func (u *PoolUsage) Consumed(i DeviceIndex, capacity resourceapi.QualifiedName) amount.Amount {
	for _, c := range u.consumed.Get(int(i)) {
		if c.capacity == capacity {
			return c.amount
		}
	}
	return amount.Amount{}
}

// NextInUse returns the first device from i on that is allocated as a whole.
func (u *PoolUsage) NextInUse(i DeviceIndex) (DeviceIndex, bool) {
	next, ok := u.exclusive.NextSet(uint(i))
	return DeviceIndex(next), ok
}

// NextShared returns the first device from i on of which Shared is true.
func (u *PoolUsage) NextShared(i DeviceIndex) (DeviceIndex, bool) {
	next, ok := u.shared.NextSet(uint(i))
	return DeviceIndex(next), ok
}

func (u *PoolUsage) used(i DeviceIndex) bool { return u.InUse(i) || u.Shared(i) }

func (u *PoolUsage) setOverdrawn() {
	u.Overdrawn = slices.ContainsFunc(u.Left, func(a amount.Amount) bool { return a.Sign() < 0 })
}
