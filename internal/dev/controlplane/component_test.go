// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func shell(t *testing.T, script string) *component {
	t.Helper()
	c, err := launch(t.TempDir(), "shell", "/bin/sh", []string{"-c", script})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.kill(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// becomes is ready once a file exists.
func becomes(path string) func(context.Context) error {
	return func(context.Context) error {
		_, err := os.Stat(path)
		return err
	}
}

func TestAwait(t *testing.T) {
	ready := t.TempDir() + "/ready"
	c := shell(t, "touch "+ready+"; sleep 60")
	if err := c.await(t.Context(), becomes(ready)); err != nil {
		t.Error(err)
	}
}

func TestAwaitQuotesLogOfTheDead(t *testing.T) {
	c := shell(t, "echo address in use; exit 3")
	err := c.await(t.Context(), func(context.Context) error { return errors.New("not ready") })
	for _, want := range []string{"shell ended", "exit status 3", "address in use"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestAwaitSaysWhatIsMissing(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	missing := errors.New("no leader")
	err := shell(t, "sleep 60").await(ctx, func(context.Context) error { return missing })
	if !errors.Is(err, missing) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestTerminate(t *testing.T) {
	folder := t.TempDir()
	c := shell(t, "trap 'touch "+folder+"/ended; exit' TERM; touch "+folder+"/ready; while true; do sleep 0.05; done")
	if err := c.await(t.Context(), becomes(folder+"/ready")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.terminate(), c.terminate()); err != nil {
		t.Error(err)
	}
	if err := becomes(folder + "/ended")(t.Context()); err != nil || !c.gone() {
		t.Errorf("gone %t; %v", c.gone(), err)
	}
}

func TestKill(t *testing.T) {
	c := shell(t, "trap '' TERM; sleep 60")
	if err := c.kill(); err != nil || !c.gone() {
		t.Errorf("gone %t; %v", c.gone(), err)
	}
	var never *component
	if err := errors.Join(never.kill(), never.terminate()); err != nil {
		t.Errorf("a component that was never launched: %v", err)
	}
}

func TestTail(t *testing.T) {
	c := shell(t, "for i in 1 2 3; do head -c 999 /dev/zero | tr '\\0' $i; echo; done")
	<-c.exited
	if got := c.tail(); !strings.HasPrefix(got, "3") && !strings.HasPrefix(got, "2") || len(got) > tailLength {
		t.Errorf("tail begins with %.10s and has %d bytes", got, len(got))
	}
}
