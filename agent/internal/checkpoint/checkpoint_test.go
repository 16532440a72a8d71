// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dray-project/dray/agent/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestReadReturnsWhatWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	if got, err := Read[[]string](path); err != nil || got != nil {
		t.Errorf("before the first write: %v, %v", got, err)
	}
	for _, content := range [][]string{{"a", "b"}, {"c"}} {
		if err := Write(path, content); err != nil {
			t.Fatal(err)
		}
		if got, err := Read[[]string](path); err != nil || !slices.Equal(got, content) {
			t.Errorf("read %v, %v; want %v", got, err, content)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left beside the checkpoint: %v, %v", entries, err)
	}
}

func TestDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	for _, content := range []string{"", "{", `{"checksum":"x","content":["a"]}`, "[]"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Read[[]string](path); got != nil || !errors.As(err, new(*DamagedError)) {
			t.Errorf("content %q: read %v, %v", content, got, err)
		}
	}
	if err := Write(path, map[string]int{"a": 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := Read[[]string](path); !errors.As(err, new(*DamagedError)) {
		t.Errorf("content of another type: %v", err)
	}
}

func TestErrorsThatAreNoDamage(t *testing.T) {
	folder := t.TempDir()
	if _, err := Read[int](folder); err == nil || errors.As(err, new(*DamagedError)) {
		t.Errorf("a folder was read: %v", err)
	}
	if err := Write(filepath.Join(folder, "none", "checkpoint"), 1); err == nil {
		t.Error("written to a folder that does not exist")
	}
	if err := Write(filepath.Join(folder, "checkpoint"), func() {}); err == nil {
		t.Error("a function was written")
	}
}
