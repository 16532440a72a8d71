package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/dray-project/dray/agent/internal/checkpoint"
)

// Front is one of the ways in which kubelet hands out devices.
type Front string

// The fronts, as they are written to checkpoints.
const (
	FrontDRA          Front = "dra"
	FrontDevicePlugin Front = "device-plugin"
)

// Hold says that a device is in use.
type Hold struct {
	Device ID    `json:"device"`
	Front  Front `json:"front"`
	// User is the UID of a ResourceClaim, or whatever tells users of the device
	// plugin apart.
	User string `json:"user"`
}

// InUseError says who has a device that was asked for.
type InUseError struct {
	Device ID
	Hold   Hold // which stands in the way, perhaps of hardware that both share
}

func (err *InUseError) Error() string {
	if err.Device == err.Hold.Device {
		return fmt.Sprintf("device %s: in use by %s %s", err.Device, err.Hold.Front, err.Hold.User)
	}
	return fmt.Sprintf("device %s: device %s has the same counters and is in use by %s %s", err.Device, err.Hold.Device, err.Hold.Front, err.Hold.User)
}

// DamagedError says that the checkpoint of a ledger is not what was written.
type DamagedError = checkpoint.DamagedError

// Ledger is which devices are in use, and through which front. It is written to
// its checkpoint before a change is reported as done. Methods may be called
// concurrently.
type Ledger struct {
	path string

	mutex   sync.Mutex
	holds   []Hold
	changed func()
}

// OpenLedger reads the checkpoint at path, which need not exist.
//
// If the checkpoint is damaged, the error is a *DamagedError, and the ledger is
// empty but usable: the caller reports the error and rebuilds the ledger
// with Replace.
func OpenLedger(path string) (*Ledger, error) {
	holds, err := checkpoint.Read[[]Hold](path)
	var damaged *DamagedError
	if err != nil && !errors.As(err, &damaged) {
		return nil, err
	}
	return &Ledger{path: path, holds: holds, changed: func() {}}, err
}

// OnChange has f called after each change, by whoever made it. It must not wait,
// and must not call the ledger. OnChange is to be called before the ledger is shared.
func (l *Ledger) OnChange(f func()) { l.changed = f }

// Acquire notes that a user has devices, all or none of them. What the user has
// already stays with it, so that it is no error to ask twice. An *InUseError
// says what stands in the way:
//   - another user of the device, if it is not shared, or has as many users as
//     it has shares;
//   - a user of the other front, be the device shared or not;
//   - a user of the other front who has a device that consumes the same
//     counters. Within a front, this is for the scheduler to decide.
//
// An unknown device is an error.
func (l *Ledger) Acquire(in *Inventory, front Front, user string, devices []ID) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	holds := slices.Clone(l.holds)
	for _, id := range devices {
		hold := Hold{id, front, user}
		if slices.Contains(holds, hold) {
			continue
		}
		device := in.Device(id)
		if device == nil {
			return fmt.Errorf("device %s: not on this node", id)
		}
		if blocker := device.blocker(in, holds, front); blocker != nil {
			return &InUseError{id, *blocker}
		}
		holds = append(holds, hold)
	}
	return l.store(holds)
}

// Release notes that a user has no devices any more. It is no error if it had none.
func (l *Ledger) Release(front Front, user string) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.store(slices.DeleteFunc(slices.Clone(l.holds), func(hold Hold) bool {
		return hold.Front == front && hold.User == user
	}))
}

// Replace makes holds all that there are of one front.
func (l *Ledger) Replace(front Front, holds []Hold) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	kept := slices.DeleteFunc(slices.Clone(l.holds), func(hold Hold) bool { return hold.Front == front })
	return l.store(append(kept, holds...))
}

// Update makes what change returns all that there are. Change gets a copy of all
// holds. Nothing happens to the ledger in between.
func (l *Ledger) Update(change func([]Hold) []Hold) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.store(change(slices.Clone(l.holds)))
}

// Holds are all holds, by device.
func (l *Ledger) Holds() []Hold {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Clone(l.holds)
}

// UsedBy returns a function that tells which devices cannot be handed out by
// the other front, because of what this front handed out at the moment of the call.
func (l *Ledger) UsedBy(in *Inventory, front Front) func(ID) bool {
	used := make(map[ID]bool)
	counters := make(map[counterSetID]bool)
	for _, hold := range l.Holds() {
		if hold.Front != front {
			continue
		}
		used[hold.Device] = true
		if device := in.Device(hold.Device); device != nil {
			for _, set := range device.counterSets() {
				counters[set] = true
			}
		}
	}
	return func(id ID) bool {
		device := in.Device(id)
		return used[id] || device != nil && slices.ContainsFunc(device.counterSets(), func(set counterSetID) bool { return counters[set] })
	}
}

// store expects the mutex to be locked.
func (l *Ledger) store(holds []Hold) error {
	slices.SortFunc(holds, func(a, b Hold) int {
		return cmp.Or(cmp.Compare(a.Device.String(), b.Device.String()), cmp.Compare(a.Front, b.Front), cmp.Compare(a.User, b.User))
	})
	holds = slices.Compact(holds)
	if slices.Equal(holds, l.holds) {
		return nil
	}
	if err := checkpoint.Write(l.path, holds); err != nil {
		return err
	}
	l.holds = holds
	l.changed()
	return nil
}

// Device finds a device, or returns nil.
func (in *Inventory) Device(id ID) *Device {
	for i := range in.Devices {
		if in.Devices[i].ID == id {
			return &in.Devices[i]
		}
	}
	return nil
}

// counterSetID identifies a counter set on a node.
type counterSetID struct{ driver, pool, name string }

func (d *Device) counterSets() []counterSetID {
	var out []counterSetID
	for _, consumption := range d.Consumes {
		out = append(out, counterSetID{d.Driver, d.Pool, consumption.CounterSet})
	}
	return out
}

// blocker is a hold that keeps a new user of a front from the device, or nil.
func (d *Device) blocker(in *Inventory, holds []Hold, front Front) *Hold {
	users := 0
	for i, hold := range holds {
		switch {
		case hold.Front == front && hold.Device == d.ID:
			if users++; users >= max(d.Shares, 1) {
				return &holds[i]
			}
		case hold.Front != front && (hold.Device == d.ID || sharesCounters(d, in.Device(hold.Device))):
			return &holds[i]
		}
	}
	return nil
}

func sharesCounters(a, b *Device) bool {
	return b != nil && slices.ContainsFunc(a.counterSets(), func(set counterSetID) bool {
		return slices.Contains(b.counterSets(), set)
	})
}
