// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMigration: a driver that was written against upstream's package does the same when
// nothing but the import path is changed.
func TestMigration(t *testing.T) {
	const program = "testdata/driver/main.go"
	source, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	const theirs, ours = `"k8s.io/dynamic-resource-allocation/resourceslice"`, `"github.com/dray-project/dray/agent/resourceslice"`
	if strings.Count(string(source), theirs) != 1 {
		t.Fatalf("%s does not import upstream's package", program)
	}
	want := runProgram(t, program, source)
	got := runProgram(t, program, []byte(strings.Replace(string(source), theirs, ours, 1)))
	if got != want || !strings.Contains(got, "0 slices, written {NumCreates:3 NumUpdates:1 NumDeletes:3}") {
		t.Errorf("printed\n%s\nwith upstream's package\n%s", got, want)
	}
}

// runProgram runs a program of this module as if its only file had this content.
func runProgram(t *testing.T, path string, source []byte) string {
	t.Helper()
	absolute, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	replacement := filepath.Join(folder, "main.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {absolute: replacement}})
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{replacement: source, filepath.Join(folder, "overlay.json"): overlay} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "go", "run", "-overlay", filepath.Join(folder, "overlay.json"), "./"+filepath.Dir(path))
	command.Env = append(command.Environ(), "CGO_ENABLED=0") // what other builds have compiled, also under the race detector
	var complaints strings.Builder
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, complaints.String())
	}
	return string(out)
}
