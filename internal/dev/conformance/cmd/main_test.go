// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dray-project/dray/internal/dev/conformance"
)

func selected(t *testing.T, names ...string) []conformance.Part {
	t.Helper()
	parts, err := conformance.Select(names)
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

// TestRunParts: a part that cannot be run does not keep the next one from it.
func TestRunParts(t *testing.T) {
	parts := selected(t, "drivers/dranet", "deviceplugin")
	verdicts, failed := runParts(t.Context(), parts, conformance.Options{})
	err := errors.Join(failed...)
	if len(verdicts) > 0 || err == nil {
		t.Fatalf("%d verdicts, error %v", len(verdicts), err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part.Program.Repository) {
			t.Errorf("%s is not in: %v", part.Name, err)
		}
	}
}

// TestWrite: the page gets the rows of parts whose differences have decisions, and keeps those of others.
func TestWrite(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page")
	verdict := func(name string, passed int) *conformance.Verdict {
		return &conformance.Verdict{Result: &conformance.Result{Part: selected(t, name)[0], Version: "v1"}, Passed: passed}
	}
	stored := conformance.Page("", []*conformance.Verdict{verdict("slices", 1), verdict("kubelet", 2)})
	if err := os.WriteFile(page, []byte(stored), 0o600); err != nil {
		t.Fatal(err)
	}
	differs := verdict("kubelet", 3)
	differs.New = []conformance.Outcome{{Test: "T"}}
	verdicts := []*conformance.Verdict{verdict("slices", 4), differs}
	if err := write(page, verdicts, true); err == nil {
		t.Error("a page with another row is taken for the same")
	}
	if err := write(page, verdicts, false); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{"| slices | k8s.io/dynamic-resource-allocation v1 | 4 |", "| kubelet | k8s.io/kubernetes v1 | 2 |"} {
		if strings.Count(string(text), row) != 1 {
			t.Errorf("%q is not there once:\n%s", row, text)
		}
	}
	if err := write(page, verdicts, true); err != nil {
		t.Error(err)
	}
}
