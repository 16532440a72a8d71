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

// state reads upstream's allocated state for the pools that are looked at, and of it only
// what concerns them, until so many were looked at that reading all of it costs less.
type state struct {
	AllocatedState
	shares shares
	reading
}

func (s *shared) newState(of *pools.Snapshot, allocated AllocatedState) *pools.State {
	source := &state{AllocatedState: allocated, reading: reading{lookedUp: &s.lookedUp, before: s.lookedUp.Swap(0), pools: of.Len()}}
	return (*pools.State)(cluster.NewLazyState((*cluster.Snapshot)(of), source))
}

// capacity reports whether what is recorded of capacity makes a difference. For devices
// without capacities it does not, unless they draw on counters.
func (s *state) capacity(p *pool.Pool) bool {
	return len(s.AggregatedCapacity) > 0 && (p.Measured || p.Consuming)
}

// shared reports whether what is recorded of shares makes a difference. The capacity in
// use of a share is recorded by device. A share without any is only known as a share, and
// matters to nothing but counters: the device has drawn them.
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

// idOf is a device as upstream's state has it.
func idOf(p *pool.Pool, i pool.DeviceIndex) DeviceID {
	driver, name, device := p.UniqueNames(i)
	return DeviceID{Driver: draapi.UniqueString(driver), Pool: draapi.UniqueString(name), Device: draapi.UniqueString(device)}
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
