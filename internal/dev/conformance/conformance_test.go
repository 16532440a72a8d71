// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestReadOutcomes(t *testing.T) {
	outcomes, err := readOutcomes(strings.NewReader(`{"Action":"start"}
{"Action":"run","Test":"TestA"}
{"Action":"run","Test":"TestA/one"}
{"Action":"output","Test":"TestA/one","Output":"said\n"}
{"Action":"fail","Test":"TestA/one"}
{"Action":"fail","Test":"TestA"}
{"Action":"run","Test":"TestAB"}
{"Action":"pass","Test":"TestAB"}
{"Action":"fail"}
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(outcomes) != 2 || outcomes[0] != (Outcome{"TestA/one", Failed, "said\n"}) || outcomes[1] != (Outcome{"TestAB", Passed, ""}) {
		t.Errorf("outcomes: %+v", outcomes)
	}
}

func TestReadOutcomesOfATestThatDied(t *testing.T) {
	_, err := readOutcomes(strings.NewReader(`{"Action":"run","Test":"TestA"}
{"Action":"output","Test":"TestA","Output":"panic: oh\n"}
{"Action":"fail"}
`))
	if err == nil || !strings.Contains(err.Error(), "TestA did not end") {
		t.Errorf("error: %v", err)
	}
}

func TestJudge(t *testing.T) {
	listed := []Known{
		{Test: "T/known", Decision: "0002", Why: "so"},
		{Test: "T/mended", Decision: "0002", Why: "so"},
		{Test: "T/gone", Decision: "0002", Why: "so"},
		{Test: "T/asked/", Decision: "0002", Why: "so"},
	}
	verdict := judge(&Result{Outcomes: []Outcome{
		{"T/known", Failed, ""},
		{"T/mended", Passed, ""},
		{"T/new", Failed, "anything"},
		{"T/ok", Passed, ""},
		{"T/skipped", Skipped, ""},
		{"T/wording", Failed, "x\n" + refusedByBoth + " a, b\n"},
		{"T/words", Passed, "x\n" + inOtherWords + " a, b\n"},
		{"T/worse", Failed, "x\n" + inOtherWords + " a, b\n"},
		{"T/asked/1", Passed, "x\n" + answersDiffer + " a, b\n"},
		{"T/asked/2", Passed, "x\n" + answersDiffer + " a, b\n"},
		{"T/asking", Passed, "x\n" + answersDiffer + " a, b\n"},
	}}, listed)
	var got []string
	for _, o := range verdict.New {
		got = append(got, "new "+o.Test)
	}
	for _, o := range verdict.Wording {
		got = append(got, "wording "+o.Test)
	}
	for _, k := range verdict.Known {
		got = append(got, "known "+k.Test)
	}
	for _, k := range verdict.Stale {
		got = append(got, "stale "+k.Test)
	}
	const want = "new T/new, new T/worse, new T/asking, wording T/wording, wording T/words, known T/known, known T/asked/1, known T/asked/2, stale T/mended, stale T/gone"
	if s := strings.Join(got, ", "); s != want || verdict.Passed != 2 || len(verdict.Skipped) != 1 || verdict.OK() {
		t.Errorf("got %s, %d passed, %d skipped, OK %v", s, verdict.Passed, len(verdict.Skipped), verdict.OK())
	}
}

// TestKnown reads the list as it is committed: each entry names a part that exists. House rules look for its decision.
func TestKnown(t *testing.T) {
	byPart, err := known(knownText)
	if err != nil {
		t.Fatal(err)
	}
	for part := range byPart {
		if _, err := Select([]string{part}); err != nil {
			t.Error(err)
		}
	}
	if _, err := known([]byte("allocator:\n- test: a\n  why: b\n")); err == nil {
		t.Error("an entry without a decision is taken")
	}
}

func TestSelect(t *testing.T) {
	if _, err := Select([]string{"allocator", "nothing"}); err == nil || !strings.Contains(err.Error(), `"nothing"`) {
		t.Errorf("error: %v", err)
	}
}

// slowTest says that it runs, and does until the go command that started it is gone.
const slowTest = `package slow

import (
	"os"
	"testing"
	"time"
)

func TestSlow(t *testing.T) {
	parent := os.Getppid()
	if err := os.WriteFile("started", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for os.Getppid() == parent {
		time.Sleep(10 * time.Millisecond)
	}
}
`

// TestCancelled has the context end while a test of a module runs.
func TestCancelled(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.com/slow\n", "slow_test.go": slowTest} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	go func() {
		_, err := testAll(ctx, folder)
		ended <- err
	}()
	for {
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			return
		case <-time.After(10 * time.Millisecond):
			if _, err := os.Stat(filepath.Join(folder, "started")); err == nil {
				cancel()
			}
		}
	}
}

// TestLayOut looks at what a part is compiled as. That it compiles is what running it shows.
func TestLayOut(t *testing.T) {
	checkout, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := layOut(t.Context(), Parts[0], checkout, folder); err != nil {
		t.Fatal(err)
	}
	goMod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"module k8s.io/dynamic-resource-allocation/structured/dray\n", "replace github.com/dray-project/dray => " + checkout} {
		if !strings.Contains(string(goMod), line) {
			t.Errorf("go.mod lacks %q:\n%s", line, goMod)
		}
	}
}

func TestWithout(t *testing.T) {
	const source = `package p

import (
	"fmt"
	other "os"

	"example.com/thing/v2"
)

// TestA stays.
func TestA() { fmt.Println() }

// TestB goes.
func TestB() { thing.Do(other.Args) }
`
	got, had, err := without([]byte(source), map[string]string{"TestB": "why", "TestC": "why"})
	const want = `package p

import (
	"fmt"
	_ "os"

	_ "example.com/thing/v2"
)

// TestA stays.
func TestA() { fmt.Println() }

// TestB goes.

`
	if err != nil || string(got) != want || !slices.Equal(had, []string{"TestB"}) {
		t.Errorf("%v, had %v\n%s", err, had, got)
	}
}

// TestOtherWords: results that differ only in wording count as known.
func TestOtherWords(t *testing.T) {
	part := Part{otherWords: sameNumberOfErrors}
	verdict := judge(&Result{Part: part, Outcomes: []Outcome{
		{"T/words", Failed, "x_test.go:1: expected errors:\n  a\ngot:\n  b\n"},
		{"T/objects", Failed, "Error Trace: x_test.go:1\nx_test.go:2: expected errors:\n  a\ngot:\n  b\n"},
		{"T/number", Failed, "x_test.go:1: expected 1 errors, got 2:\n  a\n"},
	}}, nil)
	if len(verdict.Wording) != 1 || verdict.Wording[0].Test != "T/words" || len(verdict.New) != 2 {
		t.Errorf("%+v", verdict)
	}
}

// TestPage: a page keeps what it says of parts that did not run.
func TestPage(t *testing.T) {
	verdict := func(name string, passed int) *Verdict {
		parts, err := Select([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		return &Verdict{Result: &Result{Part: parts[0], Version: "v1"}, Passed: passed, Skipped: []Outcome{{Test: "T/" + name}}}
	}
	both := Page("", []*Verdict{verdict("slices", 1), verdict("scheduler/unit", 2)})
	if again := Page(both, []*Verdict{verdict("slices", 1)}); again != both {
		t.Errorf("the same run gives another page:\n%s\nwant:\n%s", again, both)
	}
	changed := Page(both, []*Verdict{verdict("slices", 3)})
	for _, text := range []string{"| slices | k8s.io/dynamic-resource-allocation v1 | 3 |", "| scheduler/unit | k8s.io/kubernetes v1 | 2 |", "- `T/scheduler/unit`\n"} {
		if strings.Count(changed, text) != 1 {
			t.Errorf("%q is not there once:\n%s", text, changed)
		}
	}
}

// TestCovers: an entry is about one test, or about those that it begins.
func TestCovers(t *testing.T) {
	for entry, want := range map[string][]string{
		"TestA":   {"TestA"},
		"TestA/":  {"TestA/one", "TestA/two"},
		"TestA/o": nil,
		"TestA*":  {"TestA", "TestA/one", "TestA/two", "TestAll"},
	} {
		var got []string
		for _, test := range []string{"TestA", "TestA/one", "TestA/two", "TestAll", "TestB"} {
			if (Known{Test: entry}).covers(test) {
				got = append(got, test)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s covers %q, want %q", entry, got, want)
		}
	}
}
