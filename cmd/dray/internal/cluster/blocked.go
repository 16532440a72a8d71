// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// block marks free devices that cannot be allocated, because a counter that they consume is
// exhausted.
func (s *PoolState) block() {
	for i := range s.Devices {
		if device := &s.Devices[i]; len(device.Holders) == 0 {
			device.Blocked = s.shortCounters(device)
		}
	}
}

func (s *PoolState) shortCounters(device *DeviceState) string {
	var short []string
	for _, use := range device.Object.ConsumesCounters {
		for _, name := range slices.Sorted(maps.Keys(use.Counters)) {
			needs := use.Counters[name].Value
			for _, set := range s.CounterSets {
				for _, a := range set.Counters {
					if set.Name == use.CounterSet && a.Name == name && needs.Cmp(a.Left) > 0 {
						short = append(short, fmt.Sprintf("%s of %s: needs %s, %s left", name, set.Name, needs.String(), a.Left.String()))
					}
				}
			}
		}
	}
	return strings.Join(short, "; ")
}

// State returns free, used, shared or blocked. For devices of pools that cannot be used, it returns
// unusable.
func (s *PoolState) State(device *DeviceState) string {
	switch {
	case s.Incomplete != "" || s.Invalid != "":
		return "unusable"
	case device.Shared && len(device.Holders) > 0:
		return "shared"
	case len(device.Holders) > 0:
		return "used"
	case device.Blocked != "":
		return "blocked"
	}
	return "free"
}
