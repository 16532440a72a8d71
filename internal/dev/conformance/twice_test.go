// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
)

// TestCopy: a copy lacks what is left out, and has what was edited.
func TestCopy(t *testing.T) {
	counterpart := fstest.MapFS{
		"plugin/plugin.go":        {Data: []byte("package plugin\n\nvar made = New()\n")},
		"plugin/plugin_test.go":   {Data: []byte("package plugin\n\nfunc TestA() {}\n\nfunc TestB() {}\n")},
		"plugin/private_test.go":  {Data: []byte("package plugin\n")},
		"plugin/below/below.go":   {Data: []byte("package below\n")},
		"plugin/other/private.go": {Data: []byte("package other\n")},
	}
	part := &twice{
		LeftOut: map[string]string{"plugin/private_test.go": "why", "plugin/other": "why", "TestB": "why", "TestC": "why"},
		edits:   map[string][]edit{"plugin/plugin.go": {{"New()", "newOther()"}}},
	}
	to := filepath.Join(t.TempDir(), "plugin")
	missing := maps.Clone(part.LeftOut)
	if err := part.copy(counterpart, "plugin", to, missing); err != nil {
		t.Fatal(err)
	}
	if left := slices.Collect(maps.Keys(missing)); !slices.Equal(left, []string{"TestC"}) {
		t.Errorf("missing: %v", left)
	}
	for file, want := range map[string]string{
		"plugin.go": "package plugin\n\nvar made = newOther()\n", "plugin_test.go": "package plugin\n\nfunc TestA() {}\n\n\n", "below/below.go": "package below\n",
	} {
		if text, err := os.ReadFile(filepath.Join(to, file)); err != nil || string(text) != want {
			t.Errorf("%s: %v\n%s", file, err, text)
		}
	}
	for _, file := range []string{"private_test.go", "other"} {
		if _, err := os.Stat(filepath.Join(to, file)); !os.IsNotExist(err) {
			t.Errorf("%s was copied: %v", file, err)
		}
	}
	part.edits["plugin/plugin.go"] = []edit{{"Old()", "newOther()"}}
	if err := part.copy(counterpart, "plugin", to, missing); err == nil || !strings.Contains(err.Error(), `plugin/plugin.go: "Old()" is there 0 times`) {
		t.Errorf("error: %v", err)
	}
}

// TestWithoutGroups: a group that fails because a test of it does is no outcome. One that fails
// by itself is.
func TestWithoutGroups(t *testing.T) {
	leaves := withoutGroups([]Outcome{
		{"p.TestA", Failed, ""}, {"p.TestA/b", Failed, ""}, {"p.TestA/b/c", Failed, ""}, {"p.TestA/d", Passed, ""},
		{"p.TestB", Failed, ""}, {"p.TestB/c", Passed, ""},
	})
	var names []string
	for _, outcome := range leaves {
		names = append(names, outcome.Test)
	}
	if want := []string{"p.TestA/b/c", "p.TestA/d", "p.TestB", "p.TestB/c"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

// TestRunPackage: a test binary runs in the folder of its package, each test that ends is reported, and a
// name with slashes is no group.
func TestRunPackage(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":          "module example.com/two\n",
		"one/one.go":      "package one\n",
		"two/two_test.go": twoTests,
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := (&twice{tested: []string{"./one"}}).testedPackages(t.Context(), folder); err == nil {
		t.Error("a part without tests is no error")
	}
	part := &twice{tested: []string{"./..."}}
	packages, err := part.testedPackages(t.Context(), folder)
	if err != nil || len(packages) != 1 {
		t.Fatalf("%v, %v, want one package with tests", packages, err)
	}
	var progress lockedBuffer
	outcomes, err := part.runPackage(t.Context(), packages[0], folder, nil, &progress)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, outcome := range outcomes {
		got = append(got, outcome.Test+" "+string(outcome.Status))
	}
	if want := []string{"two.TestHere/a/b/c pass", "two.TestSwapped fail"}; !slices.Equal(got, want) {
		t.Errorf("outcomes %q, want %q", got, want)
	}
	for _, line := range []string{"two: building\n", "two, as it is: pass TestSwapped (", "two, with Dray: fail TestSwapped (", "two, with Dray: fail after "} {
		if strings.Count(progress.String(), line) != 1 {
			t.Errorf("%q is not there once:\n%s", line, progress.String())
		}
	}
}

// twoTests fail as the run with Dray does that differs.
const twoTests = `package two

import (
	"os"
	"testing"
)

func TestHere(t *testing.T) {
	t.Run("a/b/c", func(t *testing.T) {
		if _, err := os.Stat("two_test.go"); err != nil {
			t.Error(err)
		}
	})
}

func TestSwapped(t *testing.T) {
	if os.Getenv("CONFORMANCE_WITH_DRAY") != "" {
		t.Error("another answer")
	}
}
`

// lockedBuffer is written by two runs at the same time.
type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
