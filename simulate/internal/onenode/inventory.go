// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package onenode

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/keys"
	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/pools"
)

// Inventory is a node with the devices that belong to it alone. It is immutable, except for caches.
type Inventory struct {
	Node *corev1.Node
	// Published are the slices of the node, of all generations.
	Published []*resourceapi.ResourceSlice
	Pools     []OwnPool // sorted by driver and name
	Size      int32     // devices of all pools
	// Added are simulated taints, in addition to those in the slices.
	Added        []AddedTaint
	withoutAdded *Inventory // the inventory without Added; nil if Added is empty

	gates    pools.Gates
	indexed  atomic.Pointer[[]*pool.Pool]
	coverage atomic.Pointer[coverage]
	reached  atomic.Pointer[reached]
}

// OwnPool is a pool that belongs to one node. Its devices have positions from First on.
type OwnPool struct {
	*PoolFacts
	First int32
}

// AddedTaint is a simulated taint of the device at a position.
type AddedTaint struct {
	Device int32
	Taint  resourceapi.DeviceTaint
}

// coverage is what a read set covers of an inventory.
type coverage struct {
	readSet *ReadSet
	content *content
	// headKey is the key of the content without its devices. devices are numbers of equivalent devices, by
	// position.
	headKey []byte
	devices []uint32
	// values is the number of the list of values that constraints compare.
	values uint32
}

// NewInventory reads the slices of pools that belong to one node.
func NewInventory(gates pools.Gates, node *corev1.Node, published []*resourceapi.ResourceSlice) *Inventory {
	inv := &Inventory{Node: node, Published: published, gates: gates}
	for _, p := range inv.index() {
		facts := newPoolFacts(p)
		inv.Pools = append(inv.Pools, OwnPool{PoolFacts: facts, First: inv.Size})
		inv.Size += int32(len(facts.Devices))
	}
	return inv
}

// Position returns the position of a device.
func (inv *Inventory) Position(id pools.DeviceID) (int32, bool) {
	at, found := inv.findPool(id.PoolID())
	if !found {
		return 0, false
	}
	p := &inv.Pools[at]
	if indexed := inv.indexed.Load(); indexed != nil {
		i, found := lookup((*indexed)[at], id.Device)
		return p.First + i, found
	}
	i := slices.IndexFunc(p.Devices, func(d *resourceapi.Device) bool { return d.Name == id.Device })
	return p.First + int32(i), i >= 0
}

// index returns the pools as the allocator indexes them. They are dropped if another inventory is the example
// of the content, as the allocator is then asked about that one. They are read again when needed.
func (inv *Inventory) index() []*pool.Pool {
	inv = cmp.Or(inv.withoutAdded, inv)
	if known := inv.indexed.Load(); known != nil {
		return *known
	}
	made := readPools(inv.gates, inv.Published)
	inv.indexed.Store(&made)
	return made
}

// findPool returns the index of a pool, or where it would be inserted.
func (inv *Inventory) findPool(id pools.PoolID) (int, bool) {
	return slices.BinarySearchFunc(inv.Pools, id, func(p OwnPool, id pools.PoolID) int { return comparePools(p.ID, id) })
}

// TakenWhole reports whether each device of the node is taken whole, and takes nothing of others.
func (inv *Inventory) TakenWhole() bool {
	return !slices.ContainsFunc(inv.Pools, func(p OwnPool) bool { return !p.whole })
}

// Before is how many pools of the node come before another one, by driver and name.
func (inv *Inventory) Before(id pools.PoolID) int {
	at, _ := inv.findPool(id)
	return at
}

// Pool returns the pool that has the device at a position.
func (inv *Inventory) Pool(position int32) *OwnPool {
	at, _ := slices.BinarySearchFunc(inv.Pools, position, func(p OwnPool, position int32) int {
		if p.First+int32(len(p.Devices)) <= position {
			return -1
		}
		return cmp.Compare(p.First, min(position, p.First))
	})
	return &inv.Pools[at]
}

// Has reports whether the device at a position belongs to the pool.
func (p *OwnPool) Has(device int32) bool {
	return device >= p.First && device < p.First+int32(len(p.Devices))
}

// Device returns the device at a position.
func (inv *Inventory) Device(position int32) *resourceapi.Device {
	p := inv.Pool(position)
	return p.Devices[position-p.First]
}

// DeviceID returns the name of the device at a position.
func (inv *Inventory) DeviceID(position int32) pools.DeviceID {
	p := inv.Pool(position)
	return p.DeviceID(position - p.First)
}

// taken lists the devices in use, by name.
func (inv *Inventory) taken(u Uses) []taken {
	list := make([]taken, len(u))
	for i := range u {
		list[i] = taken{device: inv.DeviceID(u[i].Device), use: u[i].use}
	}
	return list
}

// Slices returns the slices of the node with simulated taints.
func (inv *Inventory) Slices() []*resourceapi.ResourceSlice {
	if len(inv.Added) == 0 {
		return inv.Published
	}
	taints := make(map[pools.DeviceID][]resourceapi.DeviceTaint)
	for _, added := range inv.Added {
		id := inv.DeviceID(added.Device)
		taints[id] = append(taints[id], added.Taint)
	}
	return WithTaints(inv.Published, taints)
}

// WithTaints returns slices with more taints on some devices. Slices without such devices are not copied.
// Copies share everything else with the arguments.
func WithTaints(published []*resourceapi.ResourceSlice, taints map[pools.DeviceID][]resourceapi.DeviceTaint) []*resourceapi.ResourceSlice {
	patched := slices.Clone(published)
	for i, slice := range published {
		for d := range slice.Spec.Devices {
			id := pools.DeviceID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: slice.Spec.Devices[d].Name}
			if more := taints[id]; len(more) > 0 {
				if patched[i] == slice {
					patched[i] = &resourceapi.ResourceSlice{TypeMeta: slice.TypeMeta, ObjectMeta: slice.ObjectMeta, Spec: slice.Spec}
					patched[i].Spec.Devices = slices.Clone(slice.Spec.Devices)
				}
				device := &patched[i].Spec.Devices[d]
				device.Taints = slices.Concat(device.Taints, more)
			}
		}
	}
	return patched
}

// State returns the state of the node with these uses, for a read set.
func (inv *Inventory) State(l *ReadSet, u Uses) *State { return inv.coveredBy(l).content.state(u) }

// coveredBy returns what the read set covers of the inventory, and caches it.
func (inv *Inventory) coveredBy(l *ReadSet) *coverage {
	if known := inv.coverage.Load(); known != nil && known.readSet == l {
		return known
	}
	s := &deviceKeys{readSet: l, key: memo.NewKey()}
	found := &coverage{readSet: l, headKey: inv.headKey(), devices: make([]uint32, 0, inv.Size)}
	for _, p := range inv.index() {
		for d := range p.Devices {
			found.devices = append(found.devices, s.device(&p.Devices[d]))
		}
	}
	var values []byte
	for _, v := range s.values.List {
		values = v.AppendKey(values)
	}
	found.values = l.number(l.values, values)
	inv.setContent(found)
	inv.coverage.Store(found)
	if found.content.example != inv {
		inv.indexed.Store(nil)
	}
	return found
}

// setContent finds the content for the devices, with simulated taints.
func (inv *Inventory) setContent(found *coverage) {
	var buffer [64]uint32
	var keyBuffer [512]byte
	devices := found.devices
	if len(inv.Added) > 0 {
		devices = append(buffer[:0], devices...)
		s := &deviceKeys{readSet: found.readSet}
		for _, added := range inv.Added {
			devices[added.Device] = s.tainted(devices[added.Device], []resourceapi.DeviceTaint{added.Taint})
		}
	}
	key := append(keyBuffer[:0], found.headKey...)
	for _, d := range devices {
		key = binary.AppendUvarint(key, uint64(d))
	}
	found.content = found.readSet.content(key, inv)
}

func (l *ReadSet) content(key []byte, example *Inventory) *content {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.contents[string(key)]; known != nil {
		return known
	}
	c := &content{readSet: l, example: example, states: make(map[string]*State)}
	c.snapshot = sync.OnceValue(func() *snapshot { return example.snapshot() })
	c.fresh = newState(c, nil)
	if len(l.contents) >= l.cache.Nodes {
		clear(l.contents)
	}
	if l.cache.Nodes > 0 {
		l.contents[string(key)] = c
	}
	return c
}

// headKey returns the key of the node and its pools without the devices.
func (inv *Inventory) headKey() []byte {
	var k memo.Key
	keys.Node.Append(&k, inv.Node)
	for i, p := range inv.index() {
		k.Text(p.ID.Driver)
		k.Flags(inv.Pools[i].Unusable == "")
		k.Number(len(p.Devices))
		keys.Pool.Append(&k, p)
	}
	return slices.Clone(k.Bytes)
}

// Tainted returns the inventory with one more taint on some devices.
func (inv *Inventory) Tainted(devices []int32, taint resourceapi.DeviceTaint) *Inventory {
	added := slices.Grow(slices.Clone(inv.Added), len(devices))
	for _, d := range devices {
		added = append(added, AddedTaint{Device: d, Taint: taint})
	}
	plain := cmp.Or(inv.withoutAdded, inv)
	next := &Inventory{Node: inv.Node, Published: inv.Published, Pools: inv.Pools, Size: inv.Size, Added: added, withoutAdded: plain, gates: inv.gates}
	if known := plain.coverage.Load(); known != nil {
		again := &coverage{readSet: known.readSet, headKey: known.headKey, devices: known.devices, values: known.values}
		next.setContent(again)
		next.coverage.Store(again)
	}
	return next
}

// withheld returns the uses with simulated taints replaced: devices whose taints exclude requests are marked as
// withheld. A device without counters is marked as in use instead, which has the same effect. Other nodes are
// more likely to be in that state.
func (inv *Inventory) withheld(u Uses) Uses {
	next := slices.Clone(u)
	for _, t := range inv.Added {
		if t.Taint.Effect != resourceapi.DeviceTaintEffectNoSchedule && t.Taint.Effect != resourceapi.DeviceTaintEffectNoExecute {
			continue
		}
		at, found := next.find(t.Device)
		switch {
		case found && next[at].Wholes > 0:
			continue
		case !found:
			next = slices.Insert(next, at, PlacedUse{Device: t.Device})
		}
		if len(inv.Device(t.Device).ConsumesCounters) == 0 {
			next[at].Wholes++
		} else {
			next[at].withheld = true
		}
	}
	return next
}

// positionOf converts the position of a device in another inventory of the node. This one has all its pools.
func (inv *Inventory) positionOf(before *Inventory, device int32) int32 {
	pool := before.Pool(device)
	at, found := inv.findPool(pool.ID)
	if !found {
		panic("pool " + pool.ID.String() + " is gone from node " + inv.Node.Name) // pools are only added
	}
	return inv.Pools[at].First + device - pool.First
}

// MovedHoldings converts holdings to the positions of another inventory.
func MovedHoldings(list []Holding, before, after *Inventory) []Holding {
	list = slices.Clone(list)
	for i := range list {
		list[i].Device = after.positionOf(before, list[i].Device)
	}
	return list
}

// Moved converts uses to the positions of another inventory, in which pools have the same order.
func (u Uses) Moved(before, after *Inventory) Uses {
	u = slices.Clone(u)
	for i := range u {
		u[i].Device = after.positionOf(before, u[i].Device)
	}
	return u
}

// PoolFacts is what was read of a pool.
type PoolFacts struct {
	ID      pools.PoolID
	slices  []*resourceapi.ResourceSlice
	Devices []*resourceapi.Device // by position
	// Unusable is the reason why nothing can be allocated from the pool, empty if there is none.
	Unusable string
	// whole is set if each device is taken whole, and takes nothing of others: there are no shares and no counters.
	whole bool
	// parts says for each device whether it is a partition of another one. It is nil until needed.
	parts atomic.Pointer[[]bool]
}

// lookup returns the position of a device in a pool.
func lookup(p *pool.Pool, device string) (int32, bool) {
	found := p.Lookup(device)
	if len(found) == 0 {
		return 0, false
	}
	return int32(found[0]), true
}

// DeviceID returns the name of the device at a position in the pool.
func (f *PoolFacts) DeviceID(device int32) pools.DeviceID {
	return pools.DeviceID{Driver: f.ID.Driver, Pool: f.ID.Name, Device: f.Devices[device].Name}
}

// newPoolFacts reads a pool. Its devices are those of the highest generation.
func newPoolFacts(p *pool.Pool) *PoolFacts {
	f := &PoolFacts{ID: pools.PoolID(p.ID), Devices: make([]*resourceapi.Device, len(p.Devices)), Unusable: cmp.Or(p.Incomplete, p.Invalid), whole: true}
	for _, slice := range p.Slices {
		f.slices = append(f.slices, slice.Object)
	}
	for i := range p.Devices {
		f.Devices[i] = p.Devices[i].Object
		f.whole = f.whole && !p.Devices[i].Multiple && len(f.Devices[i].ConsumesCounters) == 0
		if name := f.Devices[i].Name; f.Unusable == "" && p.Repeats() && p.Lookup(name)[0] != pool.DeviceIndex(i) {
			f.Unusable = "several devices are named " + name
		}
	}
	return f
}

// readPools reads the slices of one node into pools, sorted by driver and name. The slot of a pool is its
// position.
func readPools(gates pools.Gates, published []*resourceapi.ResourceSlice) []*pool.Pool {
	byPool := slices.Clone(published)
	slices.SortStableFunc(byPool, func(a, b *resourceapi.ResourceSlice) int { return comparePools(PoolOf(a), PoolOf(b)) })
	var all []*pool.Pool
	for len(byPool) > 0 {
		id := PoolOf(byPool[0])
		var sources []*pool.Source
		for len(byPool) > 0 && PoolOf(byPool[0]) == id {
			sources = append(sources, pool.NewSource(pool.Gates(gates), byPool[0], len(sources)))
			byPool = byPool[1:]
		}
		all = append(all, pool.Assemble(pool.ID(id), len(all), pool.Gates(gates), sources))
	}
	return all
}

func comparePools(a, b pools.PoolID) int {
	return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Name, b.Name))
}

// cutName splits a name into domain and identifier.
func cutName(name string) (domain, id string, qualified bool) {
	if domain, id, qualified = strings.Cut(name, "/"); !qualified {
		return "", name, false
	}
	return domain, id, true
}
