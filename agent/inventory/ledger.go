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

// DamagedError says that the checkpoint of a ledger is damaged.
type DamagedError = checkpoint.DamagedError

// UnknownError says that a ledger refuses allocations, because the users of some fronts are not
// known yet.
type UnknownError struct{ Fronts []Front }

func (err *UnknownError) Error() string {
	var names []string
	for _, front := range err.Fronts {
		names = append(names, string(front))
	}
	return fmt.Sprintf("it is not known yet who has devices through %s", strings.Join(names, " and "))
}

// Ledger records which devices are in use, and through which front. A change is written to the
// checkpoint before it is reported as done. Methods may be called concurrently. Several processes
// may use the same checkpoint: each change applies to the version that was last written.
type Ledger struct {
	store checkpoint.Store

	mutex   sync.Mutex
	state   ledgerState
	stored  json.RawMessage // JSON of state
	changed func()
}

// ledgerState is the content of the checkpoint.
type ledgerState struct {
	// Known are the fronts whose users are all among the holds.
	Known  []Front `json:"known"`
	Holds  []Hold  `json:"holds"`
	Serial uint64  `json:"serial"` // the last serial that was used
}

// OpenLedger reads the checkpoint at path, which need not exist.
//
// Without a checkpoint, no users are known, and Acquire fails until Rebuild was called for each
// front. If the checkpoint is damaged, the error is a *DamagedError. The ledger is then usable, as
// if there were no checkpoint, and the caller should log the error.
func OpenLedger(path string) (*Ledger, error) { return NewLedger(checkpoint.File{Path: path}) }

// NewLedger is OpenLedger with another store, for tests of this module.
func NewLedger(store checkpoint.Store) (*Ledger, error) {
	l := &Ledger{store: store, changed: func() {}}
	_, err := l.read()
	var damaged *DamagedError
	if err != nil && !errors.As(err, &damaged) {
		return nil, err
	}
	return l, err
}

// OnChange registers a function that is called after each change, by any process. The function must
// not block, and must not call the ledger. OnChange must be called before the ledger is shared.
func (l *Ledger) OnChange(f func()) { l.changed = f }

// Unknown returns the fronts whose users are unknown, because Rebuild was not called since the
// checkpoint was lost.
func (l *Ledger) Unknown() []Front {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.state.unknown()
}

func (s *ledgerState) unknown() []Front {
	return slices.DeleteFunc(slices.Clone(Fronts), func(front Front) bool { return slices.Contains(s.Known, front) })
}

// Acquire records that a user has devices: all of them, or none after an error. It is no error if
// the user already has them. An *InUseError says which hold prevents it:
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

// AcquireAll is Acquire for several users: all get their devices, or none. If allow is not nil, it
// is called for each device with the current holds. If it returns an error, so does AcquireAll.
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
					continue // the device disappeared while the user has it
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

// Release records that a user no longer has devices. It is no error if it had none.
func (l *Ledger) Release(front Front, user string) error {
	return l.Update(func(holds []Hold) []Hold {
		return slices.DeleteFunc(holds, func(hold Hold) bool { return hold.Front == front && hold.User == user })
	})
}

// Rebuild sets the holds of one front, whose users are known from then on. It does nothing if they
// are known already, for instance because another process was first.
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

// Update replaces all holds by the result of change, which gets a copy of them. The ledger is
// locked meanwhile.
func (l *Ledger) Update(change func([]Hold) []Hold) error {
	return l.change(func(s *ledgerState) error {
		s.Holds = change(s.Holds)
		return nil
	})
}

// Holds returns all holds, sorted by device.
func (l *Ledger) Holds() []Hold {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Clone(l.state.Holds)
}

// Conflicts returns the devices that both fronts have allocated.
func (l *Ledger) Conflicts() []Conflict { return conflicts(l.Holds()) }

// UsedBy returns a function that tells which devices the other front must not allocate, because of
// what this front has allocated at the time of the call.
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

// Reread reads changes of other processes.
func (l *Ledger) Reread() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	changed, err := l.read()
	if changed {
		l.changed()
	}
	return err
}

// change applies one change to the version that was last written. After an error, nothing has
// changed.
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

// read updates state from the checkpoint, and returns whether it has changed. If there is no
// checkpoint, or it is damaged, state remains.
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

// Device returns a device, or nil.
func (in *Inventory) Device(id ID) *Device {
	for i := range in.Devices {
		if in.Devices[i].ID == id {
			return &in.Devices[i]
		}
	}
	return nil
}
