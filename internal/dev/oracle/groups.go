// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// counterSet is a counter set of a pool.
type counterSet struct {
	pool *pool
	name string
}

// checkGroups: devices that draw from one counter set share a compatibility group.
//
// Devices in use need not go together, because drivers change groups. If some of them
// declare groups and some do not, the rule has no answer to what goes with them; both
// of the ways to read it are accepted.
func (w *world) checkGroups(placements []placement) error {
	if !w.c.Features.CompatibilityGroups {
		return nil
	}
	joining := make(map[counterSet][][]string)
	for _, p := range w.charging(placements) {
		collectGroups(joining, p.device.pool, p.device.api)
	}
	for set, groups := range joining {
		inUse := make(map[counterSet][][]string)
		w.eachInUse(set.pool, func(d *resourceapi.Device) { collectGroups(inUse, set.pool, d) })
		if !goTogether(plainFirst(inUse[set]), groups) && !goTogether(plainLast(inUse[set]), groups) {
			return fmt.Errorf("pool %s: groups %v do not go together on counter set %s with %v in use", set.pool.name, groups, set.name, inUse[set])
		}
	}
	return nil
}

// collectGroups adds the groups of a device to each counter set it draws from.
func collectGroups(to map[counterSet][][]string, p *pool, d *resourceapi.Device) {
	for _, consumption := range d.ConsumesCounters {
		set := counterSet{p, consumption.CounterSet}
		to[set] = append(to[set], consumption.CompatibilityGroups)
	}
}

func plainFirst(groups [][]string) [][]string {
	return slices.SortedStableFunc(slices.Values(groups), func(a, b []string) int {
		return compareBool(len(a) > 0, len(b) > 0)
	})
}

func plainLast(groups [][]string) [][]string {
	turned := plainFirst(groups)
	slices.Reverse(turned)
	return turned
}

func goTogether(inUse, joining [][]string) bool {
	var m members
	for _, groups := range inUse {
		m = m.with(groups)
	}
	for _, groups := range joining {
		if !m.admits(groups) {
			return false
		}
		m = m.with(groups)
	}
	return true
}

// members are the devices that draw from a counter set: all without groups, or with
// the groups that they have in common.
type members struct {
	any    bool
	common []string
	plain  bool // they have no groups
}

func (m members) admits(groups []string) bool {
	switch {
	case !m.any:
		return true
	case len(groups) == 0 || m.plain:
		return len(groups) == 0 && m.plain
	}
	return len(intersect(m.common, groups)) > 0
}

// with adds a device. The first one decides whether the members have groups.
func (m members) with(groups []string) members {
	switch {
	case !m.any:
		return members{any: true, common: groups, plain: len(groups) == 0}
	case len(groups) == 0 || m.plain:
		return m
	}
	m.common = intersect(m.common, groups)
	return m
}

func intersect(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}
