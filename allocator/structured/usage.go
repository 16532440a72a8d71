// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

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

// state is a cluster.Source over upstream's AllocatedState. It reads only the entries of devices in pools that
// are looked at, until reading all entries costs less (see reading).
type state struct {
	AllocatedState
	shares shares
	reading
}

func (s *shared) newState(of *pools.Snapshot, allocated AllocatedState) *pools.State {
	source := &state{AllocatedState: allocated, reading: reading{lookedUp: &s.lookedUp, before: s.lookedUp.Swap(0), pools: of.Len()}}
	return (*pools.State)(cluster.NewLazyState((*cluster.Snapshot)(of), source))
}

// capacity reports whether recorded consumed capacity can matter to the pool. It matters to devices with
// capacities, and to devices that draw on counters.
func (s *state) capacity(p *pool.Pool) bool {
	return len(s.AggregatedCapacity) > 0 && (p.Measured || p.Consuming)
}

// shared reports whether recorded shares can matter to the pool. A share with consumed capacity is recorded by
// device in AggregatedCapacity. Other shares matter to counters only: the device has drawn on them.
func (s *state) shared(p *pool.Pool) bool {
	return len(s.AllocatedSharedDeviceIDs) > 0 && p.Consuming
}

// Pool implements cluster.Source.
func (s *state) Pool(p *pool.Pool) *pool.Usage {
	capacity, shared := s.capacity(p), s.shared(p)
	var sum pool.Sum
	if !capacity && !shared {
		sum = s.sum(s.AllocatedDevices, p)
	}
	return pool.NewUsage(p, sum, func(i pool.DeviceIndex) (use pool.Use) {
		id := idOf(p, i)
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

func (s *state) addCapacity(use *pool.Use, id DeviceID) {
	consumed, recorded := s.AggregatedCapacity[id]
	use.Shared = recorded
	for name, consumed := range consumed {
		use.Consumed = append(use.Consumed, pool.Consumption{Capacity: name, Amount: quantity.Amount(*consumed)})
	}
}

// idOf is the ID of a device in upstream's types.
func idOf(p *pool.Pool, i pool.DeviceIndex) DeviceID {
	driver, name, device := p.UniqueNames(i)
	return DeviceID{Driver: draapi.UniqueString(driver), Pool: draapi.UniqueString(name), Device: draapi.UniqueString(device)}
}

// shares finds the devices that an AllocatedState only knows by the IDs of their shares. The state lists shares
// in no order, so all are read once for each driver that is asked about. Most shares belong to drivers whose
// devices draw on no counters, so few drivers are asked about.
type shares struct {
	mu       sync.Mutex
	byDriver map[draapi.UniqueString]sets.Set[DeviceID]
}

// has reports whether a device has a share. Devices with recorded capacity may be missing.
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
