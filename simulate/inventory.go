package simulate

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/index/shape"
	"github.com/dray-project/dray/pools"
)

// inventory is a node with the devices that no other node reaches. It is immutable but for what
// lenses see of it.
type inventory struct {
	node *corev1.Node
	// template is set for nodes that do not exist. The inventory is that of all its nodes.
	template *Template
	// index is the position among real nodes, number that among inventories: no two are equal.
	index int
	// published are the slices of the node, of all generations.
	published []*resourceapi.ResourceSlice
	pools     []ownPool // sorted by driver and name
	size      int32     // devices of all pools
	// added are taints by position, on top of those that are published.
	added []addedTaint
	// allocatable is what the node has of each resource, by resource number; nil if unknown.
	allocatable []int64

	seen    atomic.Pointer[seen]
	reached atomic.Pointer[reached]
}

// ownPool is a pool that one node has. Its devices have the positions from first on.
type ownPool struct {
	*poolFacts
	first int32
}

// addedTaint is a taint of a what-if.
type addedTaint struct {
	device int32
	taint  resourceapi.DeviceTaint
}

// seen is what a lens sees of an inventory.
type seen struct {
	lens    *lens
	content *content
	// head is what the content has besides devices, devices are their numbers.
	head    []byte
	devices []uint32
	// values stands for the list of values that constraints compare.
	values uint32
}

func newInventory(node *corev1.Node, published []*resourceapi.ResourceSlice, own []*poolFacts) *inventory {
	inv := &inventory{node: node, published: published}
	for _, p := range own {
		inv.pools = append(inv.pools, ownPool{poolFacts: p, first: inv.size})
		inv.size += int32(len(p.devices))
	}
	return inv
}

// position finds a device by name.
func (inv *inventory) position(id pools.DeviceID) (int32, bool) {
	at, found := slices.BinarySearchFunc(inv.pools, id.PoolID(), func(p ownPool, id pools.PoolID) int { return comparePools(p.id, id) })
	if !found {
		return 0, false
	}
	i, found := inv.pools[at].lookup(id.Device)
	return inv.pools[at].first + i, found
}

// pool returns the pool that has the device at a position.
func (inv *inventory) pool(position int32) *ownPool {
	at, _ := slices.BinarySearchFunc(inv.pools, position, func(p ownPool, position int32) int {
		if p.first+int32(len(p.devices)) <= position {
			return -1
		}
		return cmp.Compare(p.first, min(position, p.first))
	})
	return &inv.pools[at]
}

// deviceID names the device at a position.
func (inv *inventory) deviceID(position int32) pools.DeviceID {
	p := inv.pool(position)
	return pools.DeviceID{Driver: p.id.Driver, Pool: p.id.Name, Device: p.devices[position-p.first].Name}
}

// taken names what is in use.
func (inv *inventory) taken(u uses) []taken {
	list := make([]taken, len(u))
	for i := range u {
		list[i] = taken{device: inv.deviceID(u[i].device), use: u[i].use}
	}
	return list
}

// slices returns those of the node, with added taints.
func (inv *inventory) slices() []*resourceapi.ResourceSlice {
	if len(inv.added) == 0 {
		return inv.published
	}
	taints := make(map[pools.DeviceID][]resourceapi.DeviceTaint)
	for _, added := range inv.added {
		id := inv.deviceID(added.device)
		taints[id] = append(taints[id], added.taint)
	}
	return withTaints(inv.published, taints)
}

// withTaints returns slices with more taints on some devices. Slices without these devices are
// returned as they are.
func withTaints(published []*resourceapi.ResourceSlice, taints map[pools.DeviceID][]resourceapi.DeviceTaint) []*resourceapi.ResourceSlice {
	patched := slices.Clone(published)
	for i, slice := range published {
		for d := range slice.Spec.Devices {
			id := pools.DeviceID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: slice.Spec.Devices[d].Name}
			if more := taints[id]; len(more) > 0 {
				if patched[i] == slice {
					patched[i] = slice.DeepCopy()
				}
				patched[i].Spec.Devices[d].Taints = append(patched[i].Spec.Devices[d].Taints, more...)
			}
		}
	}
	return patched
}

// look returns what the lens sees.
func (inv *inventory) look(l *lens, gates pools.Gates) *seen {
	if known := inv.seen.Load(); known != nil && known.lens == l {
		return known
	}
	s := &sight{lens: l, ids: make(map[shape.Value]int)}
	found := &seen{lens: l, head: inv.head(), devices: make([]uint32, 0, inv.size)}
	for i := range inv.pools {
		p := &inv.pools[i]
		for d, device := range p.devices {
			found.devices = append(found.devices, s.device(p.id.Driver, p.sliceOf[d], device))
		}
	}
	var values []byte
	for _, v := range s.values {
		values = v.AppendKey(values)
	}
	found.values = l.number(l.values, values)
	inv.settle(found, gates)
	inv.seen.Store(found)
	return found
}

// settle finds the content with these devices.
func (inv *inventory) settle(found *seen, gates pools.Gates) {
	var buffer [64]uint32
	var keyBuffer [512]byte
	devices := found.devices
	if len(inv.added) > 0 {
		devices = append(buffer[:0], devices...)
		s := &sight{lens: found.lens}
		for _, added := range inv.added {
			devices[added.device] = s.tainted(devices[added.device], []resourceapi.DeviceTaint{added.taint})
		}
	}
	key := append(keyBuffer[:0], found.head...)
	for _, d := range devices {
		key = binary.AppendUvarint(key, uint64(d))
	}
	found.content = found.lens.content(key, inv, gates)
}

func (l *lens) content(key []byte, example *inventory, gates pools.Gates) *content {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.contents[string(key)]; known != nil {
		return known
	}
	c := &content{lens: l, example: example, states: make(map[string]*nodeState)}
	c.room = sync.OnceValue(func() *room { return newRoom(gates, example.node, example.slices()) })
	c.fresh = newNodeState(c, nil)
	l.contents[string(key)] = c
	return c
}

// head encodes all but the devices: pools with their counters, and what the node declares.
func (inv *inventory) head() []byte {
	key := appendText(nil, strings.Join(inv.node.Status.DeclaredFeatures, ","))
	for i := range inv.pools {
		p := &inv.pools[i]
		key = appendText(key, p.id.Driver)
		key = append(key, flag(p.usable))
		key = binary.AppendUvarint(key, uint64(len(p.devices)))
		for _, slice := range p.slices {
			rest := slice.Spec
			rest.Devices, rest.NodeName, rest.Pool = nil, nil, resourceapi.ResourcePool{}
			text, err := rest.Marshal()
			if err != nil {
				panic("slice " + slice.Name + " cannot be encoded: " + err.Error()) // it is plain data
			}
			key = appendText(key, string(text))
		}
	}
	return key
}

// tainted returns the inventory with one more taint on some devices.
func (inv *inventory) tainted(devices []int32, taint resourceapi.DeviceTaint, gates pools.Gates) *inventory {
	added := slices.Grow(slices.Clone(inv.added), len(devices))
	for _, d := range devices {
		added = append(added, addedTaint{device: d, taint: taint})
	}
	return inv.withAdded(added, gates)
}

// withAdded returns the inventory with these taints on top of those that are published.
func (inv *inventory) withAdded(added []addedTaint, gates pools.Gates) *inventory {
	next := &inventory{
		node: inv.node, template: inv.template, index: inv.index, published: inv.published, pools: inv.pools, size: inv.size,
		added: added, allocatable: inv.allocatable,
	}
	if known := inv.seen.Load(); known != nil {
		again := &seen{lens: known.lens, head: known.head, devices: known.devices, values: known.values}
		next.settle(again, gates)
		next.seen.Store(again)
	}
	return next
}

// poolFacts is what this package reads of a pool.
type poolFacts struct {
	id      pools.PoolID
	slices  []*resourceapi.ResourceSlice
	devices []*resourceapi.Device
	sliceOf []int32 // by device: position in slices
	usable  bool
	lookup  func(device string) (int32, bool)
}

// factsOf reads a pool of a snapshot. The devices are those of the highest generation.
func factsOf(p *pool.Pool) *poolFacts {
	f := &poolFacts{
		id: pools.PoolID(p.ID), usable: p.Incomplete == "" && p.Invalid == "",
		lookup: func(device string) (int32, bool) {
			found := p.Lookup(device)
			if len(found) == 0 {
				return 0, false
			}
			return int32(found[0]), true
		},
	}
	names := make(map[string]bool, len(p.Devices))
	position := make(map[*pool.Slice]int32)
	for _, slice := range p.Slices {
		position[slice] = int32(len(f.slices))
		f.slices = append(f.slices, slice.Object)
	}
	for i := range p.Devices {
		name := p.Devices[i].Object.Name
		f.usable, names[name] = f.usable && !names[name], true
		f.devices = append(f.devices, p.Devices[i].Object)
		f.sliceOf = append(f.sliceOf, position[p.Devices[i].Slice])
	}
	return f
}

// readPools returns the pools of slices, sorted by driver and name.
func readPools(gates pools.Gates, slices []*resourceapi.ResourceSlice) []*poolFacts {
	all := cluster.Build(pool.Gates(gates), slices).Pools()
	facts := make([]*poolFacts, len(all))
	for i, p := range all {
		facts[i] = factsOf(p)
	}
	return facts
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
