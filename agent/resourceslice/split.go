// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// Split divides a slice with any number of devices and counter sets into valid ones, by the rules
// of resource.k8s.io/v1: at most 128 devices per slice, or 64 if one of them has taints, consumes
// counters or has attributes that are lists; at most 8 counter sets per slice, and none beside
// devices. Other fields are copied from content to each result. PartitionTypeAttribute is copied
// only to slices with devices that consume counters.
//
// previous is the last result of Split, or nil. Devices and counter sets stay in their slices as
// far as the rules permit, so that a change of one device rewrites one ResourceSlice. New ones fill
// free places, or go to new slices at the end. A slice that becomes empty stays, unless it is at
// the end. Without previous, results have the order of content. With it, each slice has that order.
//
// The results share memory with content. There is always at least one slice, possibly empty, so
// that a pool without devices can be published.
func Split(previous []Slice, content Slice) []Slice {
	s := newSplitting(previous)
	s.addCounterSets(content.SharedCounters)
	s.addDevices(content.Devices)
	return s.results(content)
}

// part is a slice that is being filled.
type part struct {
	counterSets []resourceapi.CounterSet
	devices     []int // indexes in content, ascending
	limited     int   // number of devices that impose the lower limit
}

// splitting is the state of one call of Split.
type splitting struct {
	parts       []*part
	ofCounters  map[string]int // index of the part of each known counter set
	ofDevice    map[string]int // index of the part of each known device
	forDevices  []bool         // whether a part is for devices, by index
	fresh       bool           // previous was empty
	nextPlain   int            // parts before this one have no room for devices without the lower limit
	nextLimited int            // parts before this one have no room for devices with the lower limit
}

func newSplitting(previous []Slice) *splitting {
	s := &splitting{ofCounters: make(map[string]int), ofDevice: make(map[string]int), fresh: len(previous) == 0}
	for i := range previous {
		s.addPart(len(previous[i].SharedCounters) == 0)
		for _, counterSet := range previous[i].SharedCounters {
			s.ofCounters[counterSet.Name] = i
		}
		for _, device := range previous[i].Devices {
			s.ofDevice[device.Name] = i
		}
	}
	return s
}

func (s *splitting) addPart(forDevices bool) {
	s.parts = append(s.parts, &part{})
	s.forDevices = append(s.forDevices, forDevices)
}

func (s *splitting) addCounterSets(counterSets []resourceapi.CounterSet) {
	hasRoom := func(i int) bool {
		return !s.forDevices[i] && len(s.parts[i].counterSets) < resourceapi.ResourceSliceMaxCounterSets
	}
	var added []resourceapi.CounterSet
	for _, counterSet := range counterSets {
		if i, known := s.ofCounters[counterSet.Name]; known && hasRoom(i) {
			s.parts[i].counterSets = append(s.parts[i].counterSets, counterSet)
		} else {
			added = append(added, counterSet)
		}
	}
	at := 0
	for _, counterSet := range added {
		for at < len(s.parts) && !hasRoom(at) {
			at++
		}
		if at == len(s.parts) {
			s.addPart(false)
		}
		s.parts[at].counterSets = append(s.parts[at].counterSets, counterSet)
	}
}

func (s *splitting) addDevices(devices []resourceapi.Device) {
	var homeless []int
	for i := range devices {
		if at, known := s.ofDevice[devices[i].Name]; known && s.forDevices[at] {
			s.parts[at].add(i, isLimited(&devices[i]))
		} else {
			homeless = append(homeless, i)
		}
	}
	for _, part := range s.parts {
		homeless = append(homeless, part.evict(devices)...)
	}
	slices.Sort(homeless)
	for _, i := range homeless {
		limited := isLimited(&devices[i])
		s.parts[s.room(limited)].add(i, limited)
	}
	for _, part := range s.parts {
		slices.Sort(part.devices)
	}
}

// room returns the index of a part with room for another device, and adds one if necessary. The
// room of a part never grows.
func (s *splitting) room(limited bool) int {
	next := &s.nextPlain
	if limited {
		next = &s.nextLimited
	}
	for *next < len(s.parts) && (!s.forDevices[*next] || !s.parts[*next].hasRoom(limited)) {
		*next++
	}
	if *next == len(s.parts) {
		s.addPart(true)
	}
	if s.fresh {
		s.nextPlain, s.nextLimited = *next, *next // keep the order of content
	}
	return *next
}

func (p *part) add(device int, limited bool) {
	p.devices = append(p.devices, device)
	if limited {
		p.limited++
	}
}

func (p *part) hasRoom(limited bool) bool {
	return len(p.devices) < limit(limited || p.limited > 0)
}

// evict removes and returns the devices above the part's limit. Devices that impose the lower limit
// go first, because the others may then stay.
func (p *part) evict(devices []resourceapi.Device) []int {
	var evicted []int
	for _, limitedFirst := range []bool{true, false} {
		for i := len(p.devices) - 1; i >= 0 && len(p.devices) > limit(p.limited > 0); i-- {
			device := p.devices[i]
			limited := isLimited(&devices[device])
			if limitedFirst && !limited {
				continue
			}
			if limited {
				p.limited--
			}
			p.devices = slices.Delete(p.devices, i, i+1)
			evicted = append(evicted, device)
		}
	}
	return evicted
}

func limit(limited bool) int {
	if limited {
		return resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	return resourceapi.ResourceSliceMaxDevices
}

// isLimited tells whether a device imposes the lower limit on its slice.
func isLimited(device *resourceapi.Device) bool {
	if len(device.Taints) > 0 || len(device.ConsumesCounters) > 0 {
		return true
	}
	for _, attribute := range device.Attributes {
		if attribute.IntValues != nil || attribute.BoolValues != nil || attribute.StringValues != nil || attribute.VersionValues != nil {
			return true
		}
	}
	return false
}

func (s *splitting) results(content Slice) []Slice {
	for len(s.parts) > 1 && s.parts[len(s.parts)-1].isEmpty() {
		s.parts = s.parts[:len(s.parts)-1]
	}
	if len(s.parts) == 0 {
		s.addPart(true)
	}
	out := make([]Slice, len(s.parts))
	for i, part := range s.parts {
		out[i] = content
		out[i].SharedCounters = part.counterSets
		out[i].Devices = nil
		for _, device := range part.devices {
			out[i].Devices = append(out[i].Devices, content.Devices[device])
		}
		if !slices.ContainsFunc(out[i].Devices, func(d resourceapi.Device) bool { return len(d.ConsumesCounters) > 0 }) {
			withoutPartitions(&out[i])
		}
	}
	return out
}

func (p *part) isEmpty() bool { return len(p.devices) == 0 && len(p.counterSets) == 0 }
