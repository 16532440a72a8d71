package conformance

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
