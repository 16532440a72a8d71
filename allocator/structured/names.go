package structured

import (
	draapi "k8s.io/dynamic-resource-allocation/api"

	"github.com/dray-project/dray/internal/index/pool"
)

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
