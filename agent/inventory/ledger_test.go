// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

var ledgerInventory = &Inventory{Devices: []Device{
	gpu("a"), gpu("shared", shared(2)), gpu("whole", consuming), gpu("half-0", consuming), gpu("half-1", consuming),
}}

func openLedger(t *testing.T, path string) *Ledger {
	t.Helper()
	ledger, err := OpenLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	return ledger
}

// knowing is a ledger that knows all users.
func knowing(t *testing.T, path string) *Ledger {
	t.Helper()
	ledger := openLedger(t, path)
	for _, front := range Fronts {
		if err := ledger.Rebuild(front, nil); err != nil {
			t.Fatal(err)
		}
	}
	return ledger
}

func held(name string, front Front, user string) Hold {
	if device := ledgerInventory.Device(id(name)); device != nil {
		return HoldOf(device, front, user)
	}
	return Hold{Device: id(name), Front: front, User: user}
}

func id(name string) ID { return ID{gpus, "node-1", name} }

func TestAcquire(t *testing.T) {
	for name, test := range map[string]struct {
		held   []Hold
		front  Front
		user   string
		device string
		err    string // empty if the device is given
	}{
		"free":                           {nil, FrontDRA, "u", "a", ""},
		"the same user":                  {[]Hold{held("a", FrontDRA, "u")}, FrontDRA, "u", "a", ""},
		"another user":                   {[]Hold{held("a", FrontDRA, "v")}, FrontDRA, "u", "a", "device gpu.example.com/node-1/a: in use by dra v"},
		"the other front":                {[]Hold{held("a", FrontDRA, "u")}, FrontDevicePlugin, "u", "a", "in use by dra u"},
		"somebody may have it":           {[]Hold{{Device: id("a"), Front: FrontDevicePlugin, User: "v", Assumed: true}}, FrontDRA, "u", "a", "device gpu.example.com/node-1/a: perhaps in use by device-plugin v"},
		"the front the other way round":  {[]Hold{held("a", FrontDevicePlugin, "u")}, FrontDRA, "u", "a", "in use by device-plugin u"},
		"a share":                        {[]Hold{held("shared", FrontDRA, "v")}, FrontDRA, "u", "shared", ""},
		"no share left":                  {[]Hold{held("shared", FrontDRA, "v"), held("shared", FrontDRA, "w")}, FrontDRA, "u", "shared", "in use by dra w"},
		"a share of the other front":     {[]Hold{held("shared", FrontDRA, "v")}, FrontDevicePlugin, "u", "shared", "in use by dra v"},
		"two partitions":                 {[]Hold{held("half-0", FrontDRA, "v")}, FrontDRA, "u", "half-1", ""},
		"the whole of a partition":       {[]Hold{held("half-0", FrontDRA, "v")}, FrontDevicePlugin, "u", "whole", "device gpu.example.com/node-1/half-0 has the same counters and is in use by dra v"},
		"a partition of the whole":       {[]Hold{held("whole", FrontDevicePlugin, "v")}, FrontDRA, "u", "half-1", "has the same counters"},
		"counters of a device that went": {[]Hold{{Device: id("gone"), Front: FrontDRA, User: "v", Counters: held("whole", FrontDRA, "v").Counters}}, FrontDevicePlugin, "u", "half-0", "device gpu.example.com/node-1/gone has the same counters"},
		"a device that went":             {[]Hold{held("gone", FrontDRA, "v")}, FrontDevicePlugin, "u", "a", ""},
		"unknown":                        {nil, FrontDRA, "u", "gone", "device gpu.example.com/node-1/gone: not on this node"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger")
			ledger := openLedger(t, path)
			for _, front := range []Front{FrontDRA, FrontDevicePlugin} {
				holds := slices.DeleteFunc(slices.Clone(test.held), func(h Hold) bool { return h.Front != front })
				if err := ledger.Rebuild(front, holds); err != nil {
					t.Fatal(err)
				}
			}
			before := ledger.Holds()
			blocked := ledger.UsedBy(ledgerInventory, other(test.front))(id(test.device))
			err := ledger.Acquire(ledgerInventory, test.front, test.user, []ID{id(test.device)})
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			has := slices.ContainsFunc(ledger.Holds(), held(test.device, test.front, test.user).sameAs)
			if has != (test.err == "") || err != nil && !slices.Equal(before, ledger.Holds()) {
				t.Errorf("holds %v, before %v", ledger.Holds(), before)
			}
			var inUse *InUseError
			if byOther := errors.As(err, &inUse) && inUse.Hold.Front != test.front; byOther != blocked {
				t.Errorf("used by the other front: %v, but the error is %v", blocked, err)
			}
			if got := openLedger(t, path).Holds(); !slices.Equal(got, ledger.Holds()) {
				t.Errorf("after a restart: %v, before: %v", got, ledger.Holds())
			}
		})
	}
}

func other(front Front) Front {
	if front == FrontDRA {
		return FrontDevicePlugin
	}
	return FrontDRA
}

func TestAcquireAllOrNothing(t *testing.T) {
	ledger := knowing(t, filepath.Join(t.TempDir(), "ledger"))
	changes := 0
	ledger.OnChange(func() { changes++ })
	if err := ledger.Acquire(ledgerInventory, FrontDRA, "u", []ID{id("a"), id("shared"), id("gone")}); err == nil || len(ledger.Holds()) > 0 {
		t.Errorf("error %v, holds %v", err, ledger.Holds())
	}
	if err := ledger.Acquire(ledgerInventory, FrontDRA, "u", []ID{id("a"), id("shared")}); err != nil || len(ledger.Holds()) != 2 {
		t.Errorf("error %v, holds %v", err, ledger.Holds())
	}
	if err := ledger.Release(FrontDevicePlugin, "u"); err != nil || len(ledger.Holds()) != 2 {
		t.Errorf("error %v, holds %v", err, ledger.Holds())
	}
	if err := ledger.Release(FrontDRA, "u"); err != nil || len(ledger.Holds()) != 0 {
		t.Errorf("error %v, holds %v", err, ledger.Holds())
	}
	if changes != 2 {
		t.Errorf("%d changes were announced, want 2", changes)
	}
}

// TestAcquireConcurrently: of many users who want one device, one gets it.
func TestAcquireConcurrently(t *testing.T) {
	ledger := knowing(t, filepath.Join(t.TempDir(), "ledger"))
	var all sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		front := FrontDRA
		if i%2 == 0 {
			front = FrontDevicePlugin
		}
		all.Go(func() { errs[i] = ledger.Acquire(ledgerInventory, front, fmt.Sprint(i), []ID{id("a")}) })
	}
	all.Wait()
	got := 0
	for _, err := range errs {
		if err == nil {
			got++
		}
	}
	if got != 1 || len(ledger.Holds()) != 1 {
		t.Errorf("%d users got the device, holds %v", got, ledger.Holds())
	}
}

// TestDamagedCheckpoint: any change of the file is noticed, and the ledger is usable.
func TestDamagedCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	if err := knowing(t, path).Acquire(ledgerInventory, FrontDRA, "u", []ID{id("a")}); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := map[string][]byte{"empty": {}, "cut": written[:len(written)/2], "null": []byte("null")}
	for at := range written {
		changed := slices.Clone(written)
		changed[at] ^= 1
		damaged[fmt.Sprint("bit ", at)] = changed
	}
	for name, content := range damaged {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		ledger, err := OpenLedger(path)
		var damage *DamagedError
		if !errors.As(err, &damage) || len(ledger.Holds()) > 0 {
			t.Errorf("%s: error %v, holds %v", name, err, ledger.Holds())
			continue
		}
		if err := ledger.Rebuild(FrontDRA, []Hold{held("a", FrontDRA, "v")}); err != nil {
			t.Error(err)
		}
		if got := openLedger(t, path).Holds(); len(got) != 1 || got[0].User != "v" {
			t.Errorf("%s: rebuilt to %v", name, got)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 2 { // the other one is the lock
		t.Errorf("files left behind: %v, %v", entries, err)
	}
	if _, err := OpenLedger(filepath.Dir(path)); err == nil || errors.As(err, new(*DamagedError)) {
		t.Errorf("a checkpoint that cannot be read: %v", err)
	}
	ledger := openLedger(t, filepath.Join(t.TempDir(), "none", "ledger"))
	if err := ledger.Rebuild(FrontDRA, nil); err == nil || len(ledger.Holds()) > 0 {
		t.Errorf("a checkpoint that cannot be written: error %v, holds %v", err, ledger.Holds())
	}
}

// TestAssumedIsNotHeld: who is only assumed to have a device does not take it from somebody who has it.
func TestAssumedIsNotHeld(t *testing.T) {
	ledger := knowing(t, filepath.Join(t.TempDir(), "ledger"))
	assumed := held("a", FrontDRA, "u")
	assumed.Assumed = true
	if err := ledger.Update(func([]Hold) []Hold { return []Hold{assumed, held("a", FrontDRA, "v")} }); err != nil {
		t.Fatal(err)
	}
	if err := ledger.Acquire(ledgerInventory, FrontDRA, "u", []ID{id("a")}); !errors.As(err, new(*InUseError)) {
		t.Errorf("error %v", err)
	}
	if err := ledger.Release(FrontDRA, "v"); err != nil {
		t.Fatal(err)
	}
	if err := ledger.Acquire(ledgerInventory, FrontDRA, "u", []ID{id("a")}); err != nil || len(ledger.Holds()) != 1 || ledger.Holds()[0].Assumed {
		t.Errorf("error %v, holds %v", err, ledger.Holds())
	}
}

// TestUnknown: nothing is handed out before the users of both fronts are known.
func TestUnknown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	ledger := openLedger(t, path)
	want := func(fronts ...Front) {
		t.Helper()
		var unknown *UnknownError
		err := ledger.Acquire(ledgerInventory, FrontDRA, "u", []ID{id("a")})
		if !errors.As(err, &unknown) || !slices.Equal(unknown.Fronts, fronts) || !slices.Equal(ledger.Unknown(), fronts) {
			t.Errorf("error %v, unknown %v, want %v", err, ledger.Unknown(), fronts)
		}
	}
	want(FrontDRA, FrontDevicePlugin)
	if err := ledger.Rebuild(FrontDRA, []Hold{held("shared", FrontDRA, "v")}); err != nil {
		t.Fatal(err)
	}
	want(FrontDevicePlugin)
	ledger = openLedger(t, path) // killed in between
	want(FrontDevicePlugin)
	if err := ledger.Rebuild(FrontDevicePlugin, nil); err != nil {
		t.Fatal(err)
	}
	if err := ledger.Acquire(ledgerInventory, FrontDRA, "u", []ID{id("a")}); err != nil {
		t.Error(err)
	}
	// Another process was first.
	if err := ledger.Rebuild(FrontDRA, nil); err != nil || len(ledger.Holds()) != 2 {
		t.Errorf("error %v, holds %v", err, ledger.Holds())
	}
}

// TestTwoProcesses: each change is made to what was written last.
func TestTwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	one := knowing(t, path)
	other := openLedger(t, path)
	changes := 0
	other.OnChange(func() { changes++ })
	if err := one.Acquire(ledgerInventory, FrontDRA, "u", []ID{id("a")}); err != nil {
		t.Fatal(err)
	}
	var inUse *InUseError
	if err := other.Acquire(ledgerInventory, FrontDevicePlugin, "v", []ID{id("a")}); !errors.As(err, &inUse) || changes != 1 {
		t.Errorf("error %v, %d changes were announced", err, changes)
	}
	if err := other.Release(FrontDRA, "u"); err != nil {
		t.Fatal(err)
	}
	if err := one.Reread(); err != nil || len(one.Holds()) != 0 {
		t.Errorf("error %v, holds %v", err, one.Holds())
	}
	// Somebody damages it: what the other one did is not known.
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var damaged *DamagedError
	if err := one.Acquire(ledgerInventory, FrontDRA, "u", []ID{id("a")}); !errors.As(err, &damaged) || len(one.Holds()) != 0 {
		t.Errorf("error %v, holds %v", err, one.Holds())
	}
}

// TestConflicts are what both fronts handed out, not what somebody may have.
func TestConflicts(t *testing.T) {
	ledger := knowing(t, filepath.Join(t.TempDir(), "ledger"))
	assumed := held("shared", FrontDRA, "v")
	assumed.Assumed = true
	holds := []Hold{
		held("a", FrontDRA, "u"), held("a", FrontDevicePlugin, "p"), assumed, held("shared", FrontDevicePlugin, "q"),
		held("half-0", FrontDRA, "w"), held("whole", FrontDevicePlugin, "r"),
	}
	if err := ledger.Update(func([]Hold) []Hold { return holds }); err != nil {
		t.Fatal(err)
	}
	got := ledger.Conflicts()
	if len(got) != 2 || got[0].Claim.User != "u" || got[0].Plugin.User != "p" || got[1].Claim.User != "w" || got[1].Plugin.User != "r" {
		t.Errorf("conflicts %v", got)
	}
	// Those who have it are not given it again.
	for front, user := range map[Front]string{FrontDRA: "u", FrontDevicePlugin: "p"} {
		if err := ledger.Acquire(ledgerInventory, front, user, []ID{id("a")}); !errors.As(err, new(*InUseError)) {
			t.Errorf("%s was given a device that %s has, too: %v", user, other(front), err)
		}
	}
	// It is known now that v has it.
	if err := ledger.Update(func(holds []Hold) []Hold { return append(holds, held("shared", FrontDRA, "v")) }); err != nil {
		t.Fatal(err)
	}
	if got := ledger.Conflicts(); len(got) != 3 || !strings.Contains(got[1].String(), "shared has two users") {
		t.Errorf("conflicts %v", got)
	}
}
