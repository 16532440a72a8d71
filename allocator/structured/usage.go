package structured

import (
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/pools"
)

// usage reads upstream's allocated state pool by pool, as pools are looked at.
type usage struct {
	state AllocatedState
	// shared are the devices with shares, by name: the state has them by share.
	shared map[DeviceID]bool
	pools  sync.Map // *pools.Pool → *pools.PoolUsage
}

func newUsage(state AllocatedState) *usage {
	shared := make(map[DeviceID]bool, len(state.AllocatedSharedDeviceIDs)+len(state.AggregatedCapacity))
	for id := range state.AllocatedSharedDeviceIDs {
		shared[id.GetDeviceID()] = true
	}
	for id := range state.AggregatedCapacity {
		shared[id] = true
	}
	return &usage{state: state, shared: shared}
}

// Pool implements allocator.Usage.
func (u *usage) Pool(p *pools.Pool) *pools.PoolUsage {
	if used, ok := u.pools.Load(p); ok {
		return used.(*pools.PoolUsage)
	}
	used, _ := u.pools.LoadOrStore(p, pools.NewPoolUsage(p, func(device string) pools.DeviceUse {
		return u.device(MakeDeviceID(p.ID.Driver, p.ID.Name, device))
	}))
	return used.(*pools.PoolUsage)
}

func (u *usage) device(id DeviceID) pools.DeviceUse {
	use := pools.DeviceUse{
		Exclusive: u.state.AllocatedDevices.Has(id),
		Shared:    u.shared[id],
	}
	if consumed := u.state.AggregatedCapacity[id]; len(consumed) > 0 {
		use.Consumed = make(map[resourceapi.QualifiedName]resource.Quantity, len(consumed))
		for name, quantity := range consumed {
			use.Consumed[name] = *quantity
		}
	}
	return use
}
