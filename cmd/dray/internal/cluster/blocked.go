// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// block marks devices that are free but cannot be allocated: too little is left of a
// counter that they draw on.
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

// State is one word: free, used, shared or blocked; unusable for devices of pools that
// cannot be used.
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
