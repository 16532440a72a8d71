// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// unitsAnnotation of a ResourceSlice lists the sets of devices that serve one claim each, by
// the numbers of the devices: "0,2;1,3" are two sets, "0-3" is one of four devices, and
// "0,1 x4" a set that four claims can use at the same time.
const unitsAnnotation = "perf.dray.dev/units"

// stock is what there is to give away, by node. It is safe for concurrent use.
type stock struct {
	mu      sync.RWMutex
	shelves map[string]*shelf // by node
	held    map[types.UID]*unit
	// early are allocations on nodes that have no shelf yet.
	early map[types.UID]resourceapi.DeviceRequestAllocationResult
}

// shelf has the units of one node.
type shelf struct {
	driver, pool string
	units        []*unit
	free         int
}

// unit is a set of devices for one claim. It is free if nobody holds it.
type unit struct {
	shelf   *shelf
	devices []string
	holder  types.UID
}

func newStock() *stock {
	return &stock{
		shelves: make(map[string]*shelf),
		held:    make(map[types.UID]*unit),
		early:   make(map[types.UID]resourceapi.DeviceRequestAllocationResult),
	}
}

// add puts up the shelf of a node. Slices without units are left out.
func (s *stock) add(slice *resourceapi.ResourceSlice) error {
	spelled := slice.Annotations[unitsAnnotation]
	if spelled == "" || slice.Spec.NodeName == nil {
		return nil
	}
	put := &shelf{driver: slice.Spec.Driver, pool: slice.Spec.Pool.Name}
	if err := put.fill(slice, spelled); err != nil {
		return fmt.Errorf("slice %s: annotation %s: %w", slice.Name, unitsAnnotation, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shelves[*slice.Spec.NodeName] = put
	for holder, device := range s.early {
		s.occupy(holder, device)
	}
	return nil
}

func (s *shelf) fill(slice *resourceapi.ResourceSlice, spelled string) error {
	for one := range strings.SplitSeq(spelled, ";") {
		numbers, times, found := strings.Cut(one, " x")
		count := 1
		if found {
			var err error
			if count, err = strconv.Atoi(times); err != nil {
				return err
			}
		}
		devices, err := devicesOf(slice, numbers)
		if err != nil {
			return err
		}
		for range count {
			s.units = append(s.units, &unit{shelf: s, devices: devices})
		}
	}
	s.free = len(s.units)
	return nil
}

func devicesOf(slice *resourceapi.ResourceSlice, numbers string) ([]string, error) {
	var names []string
	for part := range strings.SplitSeq(numbers, ",") {
		lower, upper, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(lower)
		if err != nil {
			return nil, err
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(upper); err != nil {
				return nil, err
			}
		}
		for i := first; i <= last; i++ {
			if i >= len(slice.Spec.Devices) {
				return nil, fmt.Errorf("there is no device %d", i)
			}
			names = append(names, slice.Spec.Devices[i].Name)
		}
	}
	return names, nil
}

// has reports whether there is something left on a node.
func (s *stock) has(node string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found := s.shelves[node]
	return found != nil && found.free > 0
}

// take gives the first free unit of a node to a claim, nil if there is none.
func (s *stock) take(node string, holder types.UID) *unit {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.shelves[node]; found != nil && found.free > 0 {
		for _, candidate := range found.units {
			if candidate.holder == "" {
				s.give(candidate, holder)
				return candidate
			}
		}
	}
	return nil
}

func (s *stock) give(u *unit, holder types.UID) {
	u.holder = holder
	u.shelf.free--
	s.held[holder] = u
}

// release takes back what a claim holds, if it holds anything.
func (s *stock) release(holder types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.early, holder)
	if held := s.held[holder]; held != nil {
		delete(s.held, holder)
		held.holder = ""
		held.shelf.free++
	}
}

// learn records the allocation of a claim which somebody else may have allocated.
func (s *stock) learn(holder types.UID, allocation *resourceapi.AllocationResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[holder] == nil && len(allocation.Devices.Results) > 0 {
		s.occupy(holder, allocation.Devices.Results[0])
	}
}

// occupy gives the first free unit that contains a device to a claim. The caller has locked.
func (s *stock) occupy(holder types.UID, device resourceapi.DeviceRequestAllocationResult) {
	for _, found := range s.shelves {
		if found.pool != device.Pool || found.driver != device.Driver {
			continue
		}
		for _, candidate := range found.units {
			if candidate.holder == "" && slices.Contains(candidate.devices, device.Device) {
				delete(s.early, holder)
				s.give(candidate, holder)
				return
			}
		}
	}
	s.early[holder] = device
}
