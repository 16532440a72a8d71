// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestRecord: a process is the one of a record if its number, its start and the boot are the same, whatever
// its program is called.
func TestRecord(t *testing.T) {
	program := filepath.Join(t.TempDir(), "a) S (b 1 2 3")
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, content, 0o700); err != nil { //nolint:gosec // it is executed
		t.Fatal(err)
	}
	process := exec.Command(program, "600")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	end := func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	}
	defer end()
	mine, err := startOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	is, err := recordOf(process.Process.Pid)
	if err != nil || is.Start < mine || is.Boot == "" {
		t.Fatalf("record %+v, %v: began before the process that started it, at %d", is, err, mine)
	}
	another, start, boot := is, is, is
	another.PID, start.Start, boot.Boot = os.Getppid(), is.Start+1, "another"
	expect := func(of record, found bool) {
		t.Helper()
		handle, err := of.open()
		if err != nil || (handle != nil) != found {
			t.Errorf("%+v: found %v, %v", of, handle != nil, err)
		}
		if handle != nil {
			_ = handle.Close()
		}
	}
	expect(is, true)
	for _, other := range []record{another, start, boot, {}} {
		expect(other, false)
	}
	end()
	expect(is, false)
}
