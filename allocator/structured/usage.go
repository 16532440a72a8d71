package structured

import (
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/pools"
)

// usage reads upstream's allocated state pool by pool, as pools are looked at.
type usage struct {
	state AllocatedState
	// shares are the devices with shares, which the state lists by share. They are
	// gathered when the first pool with such devices is looked at.
	shares func() map[DeviceID]bool
	pools  sync.Map // *pools.Pool → *pools.PoolUsage
}

func newUsage(state AllocatedState) *usage {
	return &usage{state: state, shares: sync.OnceValue(func() map[DeviceID]bool {
		shares := make(map[DeviceID]bool)
		for id := range state.AllocatedSharedDeviceIDs {
			shares[id.GetDeviceID()] = true
		}
		return shares
	})}
}

// Pool implements allocator.Usage.
func (u *usage) Pool(p *pools.Pool) *pools.PoolUsage {
	if used, ok := u.pools.Load(p); ok {
		return used.(*pools.PoolUsage)
	}
	// Which devices have shares makes a difference to devices that can be shared, and
	// to what is left of counters.
	shareable := len(p.Counters) > 0 || slices.ContainsFunc(p.Devices, func(d pools.Device) bool { return d.Multiple })
	used, _ := u.pools.LoadOrStore(p, pools.NewPoolUsage(p, func(device string) pools.DeviceUse {
		id := MakeDeviceID(p.ID.Driver, p.ID.Name, device)
		use := u.device(id)
		use.Shared = use.Shared || shareable && u.shares()[id]
		return use
	}))
	return used.(*pools.PoolUsage)
}

func (u *usage) device(id DeviceID) pools.DeviceUse {
	consumed, recorded := u.state.AggregatedCapacity[id]
	use := pools.DeviceUse{Exclusive: u.state.AllocatedDevices.Has(id), Shared: recorded}
	if len(consumed) > 0 {
		use.Consumed = make(map[resourceapi.QualifiedName]resource.Quantity, len(consumed))
		for name, quantity := range consumed {
			use.Consumed[name] = *quantity
		}
	}
	return use
}
