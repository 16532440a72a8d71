// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Front is a kubelet API through which devices are allocated to pods.
type Front string

// The fronts. The values are stored in checkpoints.
const (
	FrontDRA          Front = "dra"
	FrontDevicePlugin Front = "device-plugin"
)

// Fronts has all fronts.
var Fronts = []Front{FrontDRA, FrontDevicePlugin}

// Hold says that a user has a device.
type Hold struct {
	Device ID    `json:"device"`
	Front  Front `json:"front"`
	// User is the UID of a ResourceClaim. For the device plugin, it is the resource's domain and
	// the plugin device's ID.
	User string `json:"user"`
	// Counters has the names of the counter sets that the device consumes, separated by commas.
	// They are stored because the device may be missing in the inventory later.
	Counters string `json:"counters,omitempty"`
	// Assumed says that the device may be in use, since records were lost. It is neither known to
	// be in use nor known to be free.
	Assumed bool `json:"assumed,omitempty"`
	// Serial increases with each allocation. It is 0 if the hold comes from a report, not from an
	// allocation.
	Serial uint64 `json:"serial,omitempty"`
}

// HoldOf returns the hold of a user on a device.
func HoldOf(device *Device, front Front, user string) Hold {
	var counters []string
	for _, consumption := range device.Consumes {
		counters = append(counters, consumption.CounterSet)
	}
	return Hold{Device: device.ID, Front: front, User: user, Counters: strings.Join(counters, ",")}
}

// sameAs tells whether both holds have the same user and device.
func (h Hold) sameAs(other Hold) bool {
	return h.Device == other.Device && h.Front == other.Front && h.User == other.User
}

func compareHolds(a, b Hold) int {
	return cmp.Or(cmp.Compare(a.Device.String(), b.Device.String()), cmp.Compare(a.Front, b.Front), cmp.Compare(a.User, b.User))
}

// merged returns the holds sorted, with one per user and device. A known hold replaces an assumed
// one, and the higher serial is kept.
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

// InUseError says that another user has the device, or a device that shares counters with it.
type InUseError struct {
	Device ID
	Hold   Hold // the hold of the other user
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

// Conflict says that both fronts allocated a device, or devices with the same counters. Neither
// front allocates the devices again before one of the users releases its device.
type Conflict struct{ Plugin, Claim Hold }

func (c Conflict) String() string {
	return fmt.Sprintf("device %s has two users: kubelet says that a container has %s, and claim %s has device %s",
		c.Plugin.Device, c.Plugin.User, c.Claim.User, c.Claim.Device)
}

// conflicts returns the conflicts between holds that are not assumed.
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

// excludes tells whether two fronts must not allocate the devices of both holds at the same time.
func (h Hold) excludes(other Hold) bool {
	return h.Device == other.Device || slices.ContainsFunc(h.counterSets(), func(set counterSetID) bool {
		return slices.Contains(other.counterSets(), set)
	})
}

// blocker returns a hold that prevents this one, or nil. shares is how many users the device may
// have. If the user already has the device, only a hold of the other front is returned.
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
