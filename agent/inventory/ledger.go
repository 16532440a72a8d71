// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/dray-project/dray/agent/internal/checkpoint"
)

// DamagedError says that the checkpoint of a ledger is not what was written.
type DamagedError = checkpoint.DamagedError

// UnknownError says that a ledger hands out nothing, because it does not know yet who has
// devices through some of the fronts.
type UnknownError struct{ Fronts []Front }

func (err *UnknownError) Error() string {
	var names []string
	for _, front := range err.Fronts {
		names = append(names, string(front))
	}
	return fmt.Sprintf("it is not known yet who has devices through %s", strings.Join(names, " and "))
}

// Ledger is which devices are in use, and through which front. It is written to
// its checkpoint before a change is reported as done. Methods may be called
// concurrently, and any number of processes may have a ledger of the same checkpoint: each
// change is made to what was written last.
type Ledger struct {
	store checkpoint.Store

	mutex   sync.Mutex
	state   ledgerState
	stored  json.RawMessage // of which state was made
	changed func()
}

// ledgerState is what the checkpoint has.
type ledgerState struct {
	// Known are the fronts all of whose users are among the holds.
	Known  []Front `json:"known"`
	Holds  []Hold  `json:"holds"`
	Serial uint64  `json:"serial"` // the last that was given
}

// OpenLedger reads the checkpoint at path, which need not exist.
//
// A ledger without checkpoint knows no user of any front, and Acquire refuses until Rebuild was called
// for each of them. If the checkpoint is damaged, the error is a *DamagedError, and the ledger
// is usable as if there was none: the caller reports the error.
func OpenLedger(path string) (*Ledger, error) { return NewLedger(checkpoint.File{Path: path}) }

// NewLedger is OpenLedger for tests of this module, which have stores that fail.
func NewLedger(store checkpoint.Store) (*Ledger, error) {
	l := &Ledger{store: store, changed: func() {}}
	_, err := l.read()
	var damaged *DamagedError
	if err != nil && !errors.As(err, &damaged) {
		return nil, err
	}
	return l, err
}

// OnChange has f called after each change, by whoever made it. It must not wait,
// and must not call the ledger. OnChange is to be called before the ledger is shared.
func (l *Ledger) OnChange(f func()) { l.changed = f }

// Unknown are the fronts whose users are not known: Rebuild was not called for them since the
// checkpoint was lost.
func (l *Ledger) Unknown() []Front {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.state.unknown()
}

func (s *ledgerState) unknown() []Front {
	return slices.DeleteFunc(slices.Clone(Fronts), func(front Front) bool { return slices.Contains(s.Known, front) })
}

// Acquire notes that a user has devices, all or none of them. What the user has
// already stays with it, so that it is no error to ask twice. An *InUseError
// says what stands in the way:
//   - another user of the device, if it is not shared, or has as many users as
//     it has shares;
//   - a user of the other front, be the device shared or not, also if the user has the
//     device already;
//   - a user of the other front who has a device that consumes the same
//     counters. Within a front, this is for the scheduler to decide.
//
// The error is an *UnknownError while the users of a front are not known. An unknown device is an error.
func (l *Ledger) Acquire(in *Inventory, front Front, user string, devices []ID) error {
	var wanted []Hold
	for _, id := range devices {
		wanted = append(wanted, Hold{Device: id, Front: front, User: user})
	}
	return l.AcquireAll(in, wanted, nil)
}

// AcquireAll is Acquire for several users: all get what they want, or none. If allow is not nil, it
// is asked for each device, with the holds that there are before; its error is returned.
func (l *Ledger) AcquireAll(in *Inventory, wanted []Hold, allow func(holds []Hold, device ID) error) error {
	return l.change(func(s *ledgerState) error {
		if unknown := s.unknown(); len(unknown) > 0 {
			return &UnknownError{unknown}
		}
		if len(wanted) > 0 {
			s.Serial++
		}
		for _, hold := range wanted {
			device := in.Device(hold.Device)
			if device == nil {
				if slices.ContainsFunc(s.Holds, hold.sameAs) {
					continue // it went while the user has it
				}
				return fmt.Errorf("device %s: not on this node", hold.Device)
			}
			hold = HoldOf(device, hold.Front, hold.User)
			if blocker := hold.blocker(s.Holds, device.Shares); blocker != nil {
				return &InUseError{hold.Device, *blocker}
			}
			if allow != nil {
				if err := allow(s.Holds, hold.Device); err != nil {
					return err
				}
			}
			hold.Serial = s.Serial
			s.Holds = append(s.Holds, hold)
		}
		return nil
	})
}

// Release notes that a user has no devices any more. It is no error if it had none.
func (l *Ledger) Release(front Front, user string) error {
	return l.Update(func(holds []Hold) []Hold {
		return slices.DeleteFunc(holds, func(hold Hold) bool { return hold.Front == front && hold.User == user })
	})
}

// Rebuild makes holds all that there are of one front, whose users are known from now on. It does
// nothing if they are known already: another process may have been first.
func (l *Ledger) Rebuild(front Front, holds []Hold) error {
	return l.change(func(s *ledgerState) error {
		if slices.Contains(s.Known, front) {
			return nil
		}
		s.Holds = append(slices.DeleteFunc(s.Holds, func(hold Hold) bool { return hold.Front == front }), holds...)
		s.Known = append(s.Known, front)
		slices.Sort(s.Known)
		return nil
	})
}

// Update makes what change returns all that there are. Change gets a copy of all
// holds. Nothing happens to the ledger in between.
func (l *Ledger) Update(change func([]Hold) []Hold) error {
	return l.change(func(s *ledgerState) error {
		s.Holds = change(s.Holds)
		return nil
	})
}

// Holds are all holds, by device.
func (l *Ledger) Holds() []Hold {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Clone(l.state.Holds)
}

// Conflicts are the devices that both fronts handed out.
func (l *Ledger) Conflicts() []Conflict { return conflicts(l.Holds()) }

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
		for _, set := range hold.counterSets() {
			counters[set] = true
		}
	}
	return func(id ID) bool {
		device := in.Device(id)
		return used[id] || device != nil && slices.ContainsFunc(HoldOf(device, front, "").counterSets(), func(set counterSetID) bool { return counters[set] })
	}
}

// Reread takes over what other processes changed.
func (l *Ledger) Reread() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	changed, err := l.read()
	if changed {
		l.changed()
	}
	return err
}

// change makes one change to what was written last. Nothing is changed if there is an error.
func (l *Ledger) change(f func(*ledgerState) error) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	unlock, err := l.store.Lock()
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	defer unlock()
	changed, err := l.read()
	defer func() {
		if changed {
			l.changed()
		}
	}()
	var damaged *DamagedError
	if err != nil && (len(l.state.Known) > 0 || !errors.As(err, &damaged)) {
		return fmt.Errorf("ledger: it cannot be told what others changed: %w", err)
	}
	next := ledgerState{slices.Clone(l.state.Known), slices.Clone(l.state.Holds), l.state.Serial}
	if err := f(&next); err != nil {
		return err
	}
	next.Holds = merged(next.Holds)
	if reflect.DeepEqual(next, l.state) && l.stored != nil {
		return nil
	}
	content, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	if err := l.store.Write(content); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	l.state, l.stored, changed = next, content, true
	return nil
}

// read makes state what was written last, and tells whether it was something else. If nothing is
// stored, or what is stored is damaged, state stays as it is.
func (l *Ledger) read() (changed bool, err error) {
	content, err := l.store.Read()
	if err != nil || content == nil || string(content) == string(l.stored) {
		return false, err
	}
	var state ledgerState
	if err := json.Unmarshal(content, &state); err != nil {
		return false, &DamagedError{Path: "of the ledger", Reason: err.Error()}
	}
	l.state, l.stored = state, content
	return true, nil
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
