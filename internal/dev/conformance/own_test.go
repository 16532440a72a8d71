// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOwn: tests of a module in the checkout are run with their flags. A test that passes may still report different answers.
func TestOwn(t *testing.T) {
	checkout := t.TempDir()
	for name, text := range map[string]string{
		"tests/go.mod":        "module example.com/tests\n\nrequire example.com/theirs v1.2.3\n\nreplace example.com/theirs => ./theirs\n",
		"tests/theirs/go.mod": "module example.com/theirs\n",
		"tests/own_test.go": `package tests

import "testing"

func TestAsk(t *testing.T) {
	t.Run("same", func(*testing.T) {})
	t.Run("other/answer", func(t *testing.T) { t.Log("` + answersDiffer + ` no") })
}

func TestLong(t *testing.T) {
	if !testing.Short() {
		t.Error("the flags do not get here")
	}
}
`,
	} {
		file := filepath.Join(checkout, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	part := Part{Name: "theirs", Counterpart: "example.com/theirs", own: &own{folder: "tests", flags: []string{"-short", "."}}}
	result, err := Run(t.Context(), part, Options{Checkout: checkout})
	if err != nil {
		t.Fatal(err)
	}
	if result.Version != "v1.2.3" {
		t.Errorf("version %q", result.Version)
	}
	verdict := judge(result, []Known{{Test: "TestAsk/other/", Decision: "0002", Why: "so"}})
	if !verdict.OK() || verdict.Passed != 2 || len(verdict.Known) != 1 || verdict.Known[0].Test != "TestAsk/other/answer" {
		t.Errorf("%+v", verdict)
	}
}

// TestNewerGo: a module that needs a later Go than the others gets it where the environment says that there is none but the
// installed one, and others keep what the environment says.
func TestNewerGo(t *testing.T) {
	t.Setenv("GOTOOLCHAIN", "local")
	checkout := write(t, map[string]string{
		"tests/go.mod":        "module example.com/tests\n\nrequire example.com/theirs v1.2.3\n\nreplace example.com/theirs => ./theirs\n",
		"tests/theirs/go.mod": "module example.com/theirs\n",
		"tests/own_test.go": `package tests

import (
	"os"
	"testing"
)

func TestToolchain(t *testing.T) {
	t.Run(os.Getenv("GOTOOLCHAIN"), func(*testing.T) {})
}
`,
	})
	for newer, want := range map[bool]string{false: "TestToolchain/local", true: "TestToolchain/auto"} {
		part := Part{Name: "theirs", Counterpart: "example.com/theirs", own: &own{folder: "tests", flags: []string{"."}, newerGo: newer}}
		result, err := Run(t.Context(), part, Options{Checkout: checkout})
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Outcomes) != 1 || result.Outcomes[0].Test != want {
			t.Errorf("newerGo %t: %+v, want %s", newer, result.Outcomes, want)
		}
	}
}
