package structured

import (
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
