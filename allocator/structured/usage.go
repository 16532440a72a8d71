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
	known := &state{AllocatedState: allocated}
	return pools.NewLazyUsage(s, known.pool)
}

func (s *state) pool(p *pools.Pool) *pools.PoolUsage {
	n := namesOf(p)
	// What is recorded of devices without capacities makes no difference unless they
	// draw on counters.
	capacity := len(s.AggregatedCapacity) > 0 && (n.measured || n.consuming)
	// The capacity in use of a share is recorded by device. A share without any is only
	// known as a share, and matters to nothing but counters: the device has drawn them.
	shares := len(s.AllocatedSharedDeviceIDs) > 0 && n.consuming
	return pools.NewPoolUsage(p, func(first pools.DeviceIndex) (use pools.DeviceUse) {
		id := n.id(first)
		use.Exclusive = s.AllocatedDevices.Has(id)
		if capacity {
			s.addCapacity(&use, id)
		}
		if shares && !use.Shared {
			use.Shared = s.shares.has(&s.AllocatedState, id)
		}
		return use
	})
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
