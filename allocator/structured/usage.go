package structured

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	draapi "k8s.io/dynamic-resource-allocation/api"

	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/quantity"
	"github.com/dray-project/dray/pools"
)

// state reads upstream's allocated state for the pools that are looked at, and of it only
// what concerns them.
type state struct {
	AllocatedState
	shares shares
}

func newState(s *pools.Snapshot, allocated AllocatedState) *pools.State {
	return (*pools.State)(cluster.NewLazyState((*cluster.Snapshot)(s), &state{AllocatedState: allocated}))
}

// capacity reports whether what is recorded of capacity makes a difference. For devices
// without capacities it does not, unless they draw on counters.
func (s *state) capacity(n *names) bool {
	return len(s.AggregatedCapacity) > 0 && (n.measured || n.consuming)
}

// shared reports whether what is recorded of shares makes a difference. The capacity in
// use of a share is recorded by device. A share without any is only known as a share, and
// matters to nothing but counters: the device has drawn them.
func (s *state) shared(n *names) bool {
	return len(s.AllocatedSharedDeviceIDs) > 0 && n.consuming
}

// Pool implements cluster.Source.
func (s *state) Pool(p *pool.Pool) *pool.Usage {
	n := namesOf(p)
	capacity, shared := s.capacity(n), s.shared(n)
	return pool.NewUsage(p, func(first pool.DeviceIndex) (use pool.Use) {
		id := n.id(first)
		use.Exclusive = s.AllocatedDevices.Has(id)
		if capacity {
			s.addCapacity(&use, id)
		}
		if shared && !use.Shared {
			use.Shared = s.shares.has(&s.AllocatedState, id)
		}
		return use
	})
}

// Separate implements cluster.Source.
func (s *state) Separate(p *pool.Pool) bool {
	n := namesOf(p)
	return !n.consuming && !s.capacity(n)
}

// Exclusive implements cluster.Source.
func (s *state) Exclusive(p *pool.Pool, i pool.DeviceIndex) bool {
	return s.AllocatedDevices.Has(namesOf(p).id(i))
}

func (s *state) addCapacity(use *pool.Use, id DeviceID) {
	consumed, recorded := s.AggregatedCapacity[id]
	use.Shared = recorded
	for name, consumed := range consumed {
		use.Consumed = append(use.Consumed, pool.Consumption{Capacity: name, Amount: quantity.Amount(*consumed)})
	}
}

// names are those of a pool as upstream's state has them, which cost a look-up each to
// make. They are kept with the pool.
type names struct {
	driver, pool draapi.UniqueString
	devices      []draapi.UniqueString // by pool.DeviceIndex
	// measured and consuming are set if any device has capacities or lists counters.
	measured, consuming bool
}

func namesOf(p *pool.Pool) *names { return p.AttachNames(func() any { return newNames(p) }).(*names) }

func newNames(p *pool.Pool) *names {
	n := &names{
		driver:  draapi.MakeUniqueString(p.ID.Driver),
		pool:    draapi.MakeUniqueString(p.ID.Name),
		devices: make([]draapi.UniqueString, len(p.Devices)),
	}
	for i := range p.Devices {
		d := &p.Devices[i]
		n.devices[i] = draapi.MakeUniqueString(d.Object.Name)
		n.measured = n.measured || len(d.Object.Capacity) > 0
		n.consuming = n.consuming || d.ConsumesCounters
	}
	return n
}

func (n *names) id(i pool.DeviceIndex) DeviceID {
	return DeviceID{Driver: n.driver, Pool: n.pool, Device: n.devices[i]}
}

// shares finds the devices which an allocated state knows by their shares alone. The
// state lists shares in no order, so all of them are read, once per driver that is asked
// about: most shares belong to drivers whose devices draw on no counters.
type shares struct {
	mu       sync.Mutex
	byDriver map[draapi.UniqueString]sets.Set[DeviceID]
}

// has reports whether there is a share of a device. Devices with recorded capacity may
// be left out.
func (s *shares) has(state *AllocatedState, id DeviceID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	devices, known := s.byDriver[id.Driver]
	if !known {
		devices = sharesOf(state, id.Driver)
		if s.byDriver == nil {
			s.byDriver = make(map[draapi.UniqueString]sets.Set[DeviceID])
		}
		s.byDriver[id.Driver] = devices
	}
	return devices.Has(id)
}

func sharesOf(state *AllocatedState, driver draapi.UniqueString) sets.Set[DeviceID] {
	devices := sets.New[DeviceID]()
	for share := range state.AllocatedSharedDeviceIDs {
		if share.Driver != driver {
			continue
		}
		id := share.GetDeviceID()
		if _, recorded := state.AggregatedCapacity[id]; !recorded {
			devices.Insert(id)
		}
	}
	return devices
}
