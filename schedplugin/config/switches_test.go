// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// writeSwitches replaces the file at once, as a mounted ConfigMap is.
func writeSwitches(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// The file is read again while the scheduler runs, and until it ends.
func TestSwitchesFollowed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "switches.yaml")
	s, err := OpenSwitches(file)
	if err != nil || !s.SetAside() || !s.Preemption() {
		t.Fatalf("without a file: %v, %v", s.current.Load(), err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go s.Follow(ctx)
		synctest.Wait()
		writeSwitches(t, file, "setAside: false")
		time.Sleep(switchesPeriod)
		synctest.Wait()
		if s.SetAside() || !s.Preemption() {
			t.Errorf("%v after the file was written", s.current.Load())
		}
		cancel()
		synctest.Wait()
		writeSwitches(t, file, "setAside: true")
		time.Sleep(10 * switchesPeriod)
		if s.SetAside() {
			t.Error("the file is read after the scheduler ended")
		}
	})
	(&SwitchFile{}).Follow(t.Context()) // without a file it returns
}

// A file that cannot be understood keeps a scheduler from starting.
func TestSwitchesRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "switches.yaml")
	writeSwitches(t, file, "setaside: false\nunknown: true")
	if _, err := OpenSwitches(file); err == nil || !strings.Contains(err.Error(), "switches in "+file) {
		t.Errorf("error %v", err)
	}
	if _, err := OpenSwitches(t.TempDir()); err == nil {
		t.Error("a directory is taken for a file")
	}
}
