// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/bits-and-blooms/bitset"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/index/persist"
)

// Use says how a device is in use. Devices of a pool with the same name have the same Use. The zero value is a
// free device.
type Use struct {
	// Exclusive is set if the whole device is allocated.
	Exclusive bool
	// Shared is set if at least one share is allocated, or capacity is recorded as consumed.
	Shared bool
	// Consumed is the capacity that all shares hold together, in no order.
	Consumed []Consumption
	// Withheld is set if no request may have the device, although it takes nothing of counters or groups.
	Withheld bool
}

func (u Use) any() bool { return u.Exclusive || u.Shared }

// Usage is what is in use of one pool. It is immutable and safe for concurrent use.
type Usage struct {
	// Left is, for each of Pool.Counters, the total minus what the devices in use consume, whichever nodes they
	// are on. If it is negative, Kubernetes allocates no device of the pool that consumes counters.
	Left []amount.Amount
	// Serial is unique among the usages of this process.
	Serial uint64

	pool                        *Pool
	exclusive, shared, withheld *bitset.BitSet
	consumed                    persist.Array[[]Consumption]
}

// Consumption is how much of one capacity of a device is taken.
type Consumption struct {
	Capacity resourceapi.QualifiedName
	Amount   amount.Amount
}

var noDevices = bitset.New(0)

// usageSerials is the last Serial.
var usageSerials atomic.Uint64

func newIdleUsage(p *Pool) *Usage {
	u := &Usage{
		Serial:    usageSerials.Add(1),
		pool:      p,
		Left:      make([]amount.Amount, len(p.Counters)),
		exclusive: noDevices,
		shared:    noDevices,
		withheld:  noDevices,
	}
	for i := range p.Counters {
		u.Left[i] = p.Counters[i].Total
	}
	return u
}

// Sum is a hash of the devices of a pool that are in use exclusively. It is valid as long as the pool lives.
// The zero Sum means that it is not known.
type Sum [2]uint64

// recentUsage is a result of NewUsage with its sum.
type recentUsage struct {
	usage *Usage
	sum   Sum
}

// NewUsage returns the usage of a pool from the use of each device. It may call useOf twice. Without shares, an
// unchanged usage is the same Usage as in the last call. If the sum is known and unchanged, too, useOf is not
// called.
func NewUsage(p *Pool, sum Sum, useOf func(DeviceIndex) Use) *Usage {
	recent := p.recent.Load()
	if recent != nil && (sum != Sum{} && recent.sum == sum || recent.usage.matches(useOf)) {
		if sum != recent.sum {
			p.recent.Store(&recentUsage{recent.usage, sum})
		}
		return recent.usage
	}
	edit, whole := p.idle.Edit(), true
	for i := range p.Devices {
		if use := useOf(DeviceIndex(i)); use.any() {
			edit.set(DeviceIndex(i), use)
			whole = whole && !use.Shared
		}
	}
	usage := edit.Done()
	if whole {
		p.recent.Store(&recentUsage{usage, sum})
	}
	return usage
}

// matches reports whether useOf says the same as the usage, which has no shares.
func (u *Usage) matches(useOf func(DeviceIndex) Use) bool {
	for i := range u.pool.Devices {
		if use := useOf(DeviceIndex(i)); use.Shared || use.Exclusive != u.InUse(DeviceIndex(i)) {
			return false
		}
	}
	return true
}

// Pool returns the pool of the usage.
func (u *Usage) Pool() *Pool { return u.pool }

// InUse reports whether a device is in use exclusively.
func (u *Usage) InUse(i DeviceIndex) bool { return u.exclusive.Test(uint(i)) }

// Shared reports whether shares of a device are allocated, or capacity of it is recorded as consumed.
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

// NextInUse returns the first device from i on that is in use exclusively.
func (u *Usage) NextInUse(i DeviceIndex) (DeviceIndex, bool) {
	next, ok := u.exclusive.NextSet(uint(i))
	return DeviceIndex(next), ok
}

// NextShared returns the first device from i on for which Shared is true.
func (u *Usage) NextShared(i DeviceIndex) (DeviceIndex, bool) {
	next, ok := u.shared.NextSet(uint(i))
	return DeviceIndex(next), ok
}

// NextWithheld returns the first device from i on that is withheld.
func (u *Usage) NextWithheld(i DeviceIndex) (DeviceIndex, bool) {
	next, ok := u.withheld.NextSet(uint(i))
	return DeviceIndex(next), ok
}

// Obtainable reports whether a whole device can be allocated beside what is in use.
func (u *Usage) Obtainable(i DeviceIndex) bool {
	device := &u.pool.Devices[i]
	return !u.used(i) && (len(device.Uses) == 0 || u.pays(device.Uses)) && u.Admits(device)
}

// Admits reports whether the compatibility groups of a device fit those of the devices in use. Devices without
// groups only fit devices without groups.
func (u *Usage) Admits(d *Device) bool {
	return !slices.ContainsFunc(d.Groups, func(use GroupUse) bool {
		shared, occupied := u.Groups(use.Set)
		if shared == nil || use.Groups == nil {
			return occupied && (shared != nil || use.Groups != nil)
		}
		return !slices.ContainsFunc(shared, func(group string) bool { return slices.Contains(use.Groups, group) })
	})
}

// Groups returns the compatibility groups that the devices in use of a counter set have in common: nil if they
// declare none, empty if they have none in common. Occupied is false if no device is in use. A cluster may have
// incompatible devices in use, so devices are intersected in the order of the pool. A device without groups
// changes nothing, nor does any device after one without groups.
func (u *Usage) Groups(set CounterSetIndex) (shared []string, occupied bool) {
	for _, i := range u.pool.consumers[set] {
		if !u.used(i) {
			continue
		}
		for _, use := range u.pool.Devices[i].Groups {
			switch {
			case use.Set != set:
			case !occupied:
				shared, occupied = use.Groups, true
			case use.Groups != nil: // an empty intersection stays empty
				shared = slices.DeleteFunc(slices.Clone(shared), func(group string) bool { return !slices.Contains(use.Groups, group) })
			}
		}
	}
	return shared, occupied
}

// pays reports whether no counter of the pool is negative after a device takes uses, which are sorted by
// counter.
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

// Edit changes a copy of a Usage. The copy is made by the first change; the original stays unchanged. After
// Done, nothing may be set.
type Edit struct {
	*Usage
	of *Usage
}

// Edit returns an Edit of a copy.
func (u *Usage) Edit() Edit { return Edit{u, u} }

// Set records the use of the devices with one name.
func (e *Edit) Set(namesakes []DeviceIndex, u Use) {
	for _, i := range namesakes {
		e.set(i, u)
	}
}

func (e *Edit) set(i DeviceIndex, u Use) {
	if e.Usage == e.of {
		next := *e.of
		next.Serial, next.Left = usageSerials.Add(1), slices.Clone(e.of.Left)
		e.Usage = &next
	}
	before := e.used(i)
	put(&e.exclusive, e.of.exclusive, i, u.Exclusive)
	put(&e.shared, e.of.shared, i, u.Shared)
	put(&e.withheld, e.of.withheld, i, u.Withheld)
	if len(u.Consumed) > 0 || len(e.consumed.Get(int(i))) > 0 {
		e.consumed = e.consumed.With(int(i), u.Consumed)
	}
	// A device is charged to counters once, however many shares it has.
	if after := u.any(); after != before {
		e.charge(i, after)
	}
}

// put sets a bit of a set, which is copied before its first change.
func put(to **bitset.BitSet, original *bitset.BitSet, i DeviceIndex, value bool) {
	if (*to).Test(uint(i)) == value {
		return
	}
	if *to == original {
		*to = original.Clone()
	}
	(*to).SetTo(uint(i), value)
}

func (e *Edit) charge(i DeviceIndex, used bool) {
	device := &e.pool.Devices[i]
	for _, use := range device.Uses {
		left := &e.Left[use.Counter]
		if used {
			*left = left.Sub(use.Amount)
		} else {
			*left = left.Add(use.Amount)
		}
	}
}

// Done returns the changed usage.
func (e *Edit) Done() *Usage { return e.Usage }

// Idle reports whether no device of the pool is in use.
func (u *Usage) Idle() bool { return u.exclusive.None() && u.shared.None() && u.withheld.None() }

// AppendKey appends a key for what is in use of the devices that a view has on the node, by position. For a
// view of the whole pool, the key also determines what is left of counters and groups. It depends on nothing
// else.
func (u *Usage) AppendKey(to []byte, v *View) []byte {
	if u.Idle() {
		return append(to, 0)
	}
	if u.withheld.Any() {
		return binary.AppendUvarint(append(to, 2), u.Serial) // such usages are not shared, so the serial will do
	}
	to = append(to, 1)
	to = appendBits(to, u.exclusive, v)
	to = appendBits(to, u.shared, v)
	if u.shared.None() {
		return to
	}
	for _, i := range v.Here {
		if !u.Shared(i) {
			continue
		}
		if to = u.appendConsumed(to, i); !u.pool.Devices[i].Multiple {
			// Consumed capacity of a device that is not shareable is compared by identity.
			to = binary.AppendUvarint(to, u.Serial)
		}
	}
	return to
}

// appendBits appends a bit for each device on the node.
func appendBits(to []byte, set *bitset.BitSet, v *View) []byte {
	first := len(to)
	to = append(to, make([]byte, (len(v.Here)+7)/8)...)
	for n, i := range v.Here {
		if set.Test(uint(i)) {
			to[first+n/8] |= 1 << (n % 8)
		}
	}
	return to
}

func (u *Usage) appendConsumed(to []byte, i DeviceIndex) []byte {
	consumed := slices.Clone(u.consumed.Get(int(i)))
	slices.SortFunc(consumed, func(a, b Consumption) int { return cmp.Compare(a.Capacity, b.Capacity) })
	to = binary.AppendUvarint(to, uint64(len(consumed)))
	for _, c := range consumed {
		to = binary.AppendUvarint(to, uint64(len(c.Capacity)))
		to = append(to, c.Capacity...)
		to = c.Amount.AppendKey(to)
	}
	return to
}
