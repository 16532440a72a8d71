// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestSignal has a process that counts stop and go on. A stopped process writes nothing, and
// the state that the kernel keeps of it says so.
func TestSignal(t *testing.T) {
	c := shell(t, "while :; do sleep 0.01; done")
	state := func() string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.command.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		_, fields, _ := strings.Cut(string(text), ") ")
		return fields[:1]
	}
	if err := c.signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := func(context.Context) error {
		if s := state(); s != "T" {
			return errors.New(s)
		}
		return nil
	}
	if err := c.await(t.Context(), stopped); err != nil {
		t.Error(err)
	}
	if err := c.signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := c.await(t.Context(), func(ctx context.Context) error {
		if stopped(ctx) == nil {
			return errors.New("stopped")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
