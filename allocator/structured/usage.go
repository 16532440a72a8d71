package structured

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/pools"
)

// state reads upstream's allocated state for the pools that are looked at, and of it only
// what concerns them.
type state struct {
	AllocatedState
	shares shares
}

func newUsage(s *pools.Snapshot, allocated AllocatedState) *pools.LazyUsage {
	return pools.NewLazyUsage(s, &state{AllocatedState: allocated})
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

// Pool implements pools.UsageSource.
func (s *state) Pool(p *pools.Pool) *pools.PoolUsage {
	n := namesOf(p)
	capacity, shared := s.capacity(n), s.shared(n)
	return pools.NewPoolUsage(p, func(first pools.DeviceIndex) (use pools.DeviceUse) {
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

// Separate implements pools.UsageSource.
func (s *state) Separate(p *pools.Pool) bool {
	n := namesOf(p)
	return !n.consuming && !s.capacity(n)
}

// Exclusive implements pools.UsageSource.
func (s *state) Exclusive(p *pools.Pool, i pools.DeviceIndex) bool {
	return s.AllocatedDevices.Has(namesOf(p).id(i))
}

func (s *state) addCapacity(use *pools.DeviceUse, id DeviceID) {
	consumed, recorded := s.AggregatedCapacity[id]
	use.Shared = recorded
	if len(consumed) == 0 {
		return
	}
	use.Consumed = make(map[resourceapi.QualifiedName]resource.Quantity, len(consumed))
	for name, quantity := range consumed {
		use.Consumed[name] = *quantity
	}
}
