// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"strings"
	"testing"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/oracle"
	"github.com/dray-project/dray/internal/dev/peer"
)

// Cases that were constructed against the search may spend the budget. What is decided is right.
func TestConstructedCases(t *testing.T) {
	scenarios, err := Constructed()
	if err != nil {
		t.Fatal(err)
	}
	undecided := 0
	for _, s := range scenarios {
		m, err := new(peer.Meter).Measure(t.Context(), s.Case)
		if err != nil {
			t.Fatal(s.File, err)
		}
		switch outcome := m.Outcome.(type) {
		case *allocator.Undecided:
			undecided++
			t.Logf("%s: undecided after %d steps", s.File, outcome.Stats().Steps)
		case *allocator.Assignment:
			checkConstructed(t, &s, "")
			if err := oracle.Verify(s.Case, outcome.Results()); err != nil {
				t.Errorf("%s: %v", s.File, err)
			}
		case *allocator.Unsatisfiable:
			checkConstructed(t, &s, "unsatisfiable")
		default:
			checkConstructed(t, &s, "error")
		}
	}
	t.Logf("%d of %d undecided", undecided, len(scenarios))
	if undecided == len(scenarios) {
		t.Errorf("%d of %d undecided", undecided, len(scenarios))
	}
}

// checkConstructed compares the kind of an outcome, which is how a file's outcome begins. Empty is
// an allocation. Where the file says undecided, the outcome is not known.
func checkConstructed(t *testing.T, s *alloctest.Scenario, kind string) {
	t.Helper()
	if strings.HasPrefix(s.Expected, "error on this node") {
		return
	}
	want := ""
	for _, known := range []string{"unsatisfiable", "error"} {
		if strings.HasPrefix(s.Expected, known) {
			want = known
		}
	}
	if kind != want {
		t.Errorf("%s: %q, want %q", s.File, kind, want)
	}
}
