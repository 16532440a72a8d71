package structured

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	draapi "k8s.io/dynamic-resource-allocation/api"
)

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
