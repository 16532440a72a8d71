// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Front is one of the ways in which kubelet hands out devices.
type Front string

// The fronts, as they are written to checkpoints.
const (
	FrontDRA          Front = "dra"
	FrontDevicePlugin Front = "device-plugin"
)

// Fronts are all fronts.
var Fronts = []Front{FrontDRA, FrontDevicePlugin}

// Hold says that a device is in use.
type Hold struct {
	Device ID    `json:"device"`
	Front  Front `json:"front"`
	// User is the UID of a ResourceClaim, or whatever tells users of the device
	// plugin apart.
	User string `json:"user"`
	// Counters are the names of the counter sets that the device consumes, with commas between. They
	// are here because the inventory may not have the device at the moment.
	Counters string `json:"counters,omitempty"`
	// Assumed says that nobody is known to have the device, and that it is not known to
	// be free, either: what was known is lost.
	Assumed bool `json:"assumed,omitempty"`
	// Serial tells when the user was given the device last: it is higher the later that was. It is 0
	// if others said that the user has the device.
	Serial uint64 `json:"serial,omitempty"`
}

// HoldOf is the hold of a user of a device.
func HoldOf(device *Device, front Front, user string) Hold {
	var counters []string
	for _, consumption := range device.Consumes {
		counters = append(counters, consumption.CounterSet)
	}
	return Hold{Device: device.ID, Front: front, User: user, Counters: strings.Join(counters, ",")}
}

// sameAs tells whether both holds are of the same user and the same device.
func (h Hold) sameAs(other Hold) bool {
	return h.Device == other.Device && h.Front == other.Front && h.User == other.User
}

func compareHolds(a, b Hold) int {
	return cmp.Or(cmp.Compare(a.Device.String(), b.Device.String()), cmp.Compare(a.Front, b.Front), cmp.Compare(a.User, b.User))
}

// merged are holds with each user of a device once, in order. Who is known to have a device is
// not assumed to have it, and the higher serial is the later one.
func merged(holds []Hold) []Hold {
	slices.SortStableFunc(holds, compareHolds)
	out := holds[:0]
	for _, hold := range holds {
		if last := len(out) - 1; last >= 0 && out[last].sameAs(hold) {
			out[last].Assumed = out[last].Assumed && hold.Assumed
			out[last].Serial = max(out[last].Serial, hold.Serial)
			out[last].Counters = cmp.Or(out[last].Counters, hold.Counters)
			continue
		}
		out = append(out, hold)
	}
	return out
}

// InUseError says who has a device that was asked for.
type InUseError struct {
	Device ID
	Hold   Hold // which stands in the way, perhaps of hardware that both share
}

func (err *InUseError) Error() string {
	how := "in use by"
	if err.Hold.Assumed {
		how = "perhaps in use by"
	}
	if err.Device == err.Hold.Device {
		return fmt.Sprintf("device %s: %s %s %s", err.Device, how, err.Hold.Front, err.Hold.User)
	}
	return fmt.Sprintf("device %s: device %s has the same counters and is %s %s %s", err.Device, err.Hold.Device, how, err.Hold.Front, err.Hold.User)
}

// Conflict says that both fronts handed out a device, or devices with the same counters. None of the fronts
// hands them out again before one of the users gives them back.
type Conflict struct{ Plugin, Claim Hold }

func (c Conflict) String() string {
	return fmt.Sprintf("device %s has two users: kubelet says that a container has %s, and claim %s has device %s",
		c.Plugin.Device, c.Plugin.User, c.Claim.User, c.Claim.Device)
}

// conflicts are those between holds that are known, not assumed.
func conflicts(holds []Hold) []Conflict {
	var out []Conflict
	for _, plugin := range holds {
		if plugin.Front != FrontDevicePlugin || plugin.Assumed {
			continue
		}
		for _, claim := range holds {
			if claim.Front == FrontDRA && !claim.Assumed && plugin.excludes(claim) {
				out = append(out, Conflict{plugin, claim})
			}
		}
	}
	return out
}

// counterSetID identifies a counter set on a node.
type counterSetID struct{ driver, pool, name string }

func (h Hold) counterSets() []counterSetID {
	if h.Counters == "" {
		return nil
	}
	var out []counterSetID
	for name := range strings.SplitSeq(h.Counters, ",") {
		out = append(out, counterSetID{h.Device.Driver, h.Device.Pool, name})
	}
	return out
}

// excludes tells whether two fronts cannot hand out the devices of both holds at the same time.
func (h Hold) excludes(other Hold) bool {
	return h.Device == other.Device || slices.ContainsFunc(h.counterSets(), func(set counterSetID) bool {
		return slices.Contains(other.counterSets(), set)
	})
}

// blocker is a hold that keeps a user from being given a device that so many may have, or nil. If the
// user is known to have it already, only the other front can be in the way.
func (h Hold) blocker(holds []Hold, shares int) *Hold {
	has := slices.ContainsFunc(holds, func(hold Hold) bool { return hold.sameAs(h) && !hold.Assumed })
	users := 0
	for i, hold := range holds {
		switch {
		case hold.sameAs(h):
		case hold.Front == h.Front && hold.Device == h.Device:
			if users++; users >= max(shares, 1) && !has {
				return &holds[i]
			}
		case hold.Front != h.Front && h.excludes(hold):
			return &holds[i]
		}
	}
	return nil
}
