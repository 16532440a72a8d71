// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

func TestUse(t *testing.T) {
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		err  error
		kept bool
	}{
		"a success": {nil, false}, "a failure": {failed, true}, "an interruption": {context.Canceled, false},
	} {
		p := prepared(t, Options{})
		err := p.used(func(used *ControlPlane) error {
			if used != p {
				t.Errorf("%s: another control plane", name)
			}
			return c.err
		})
		if !errors.Is(err, c.err) || c.kept != (err != nil && strings.Contains(err.Error(), p.Folder())) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(p.Folder()); (err == nil) != c.kept {
			t.Errorf("%s: the folder: %v", name, err)
		}
		if err := os.RemoveAll(p.Folder()); err != nil {
			t.Error(err)
		}
	}
}

func TestLaunch(t *testing.T) {
	p := prepared(t, Options{})
	ready := p.path("ready")
	program, err := p.Launch("greeter", "/bin/sh", "-c", "echo hello; touch "+ready+"; sleep 600")
	if err != nil {
		t.Fatal(err)
	}
	if err := program.running.await(t.Context(), becomes(ready)); err != nil || program.Err() != nil {
		t.Errorf("%v, %v", err, program.Err())
	}
	if err := errors.Join(program.Stop(), program.Stop(), program.Kill()); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"greeter ended", "signal: terminated", "hello"} {
		if err := program.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	var never *Program
	if err := errors.Join(never.Stop(), never.Kill()); err != nil {
		t.Errorf("a program that was never launched: %v", err)
	}
}
