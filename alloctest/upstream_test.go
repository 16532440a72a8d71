// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
	"github.com/dray-project/dray/internal/dev/peer"
)

// go test -rewrite -run TestUpstream puts the answers of Kubernetes' own allocator
// into the files, except where a scenario says that it differs.
func TestUpstream(t *testing.T) {
	alloctest.Run(t, peer.Upstream(), alloctest.Peer())
}

// The implementation that kube-scheduler picks for the features of a scenario differs where a
// decision says so, and there it does.
func TestPicked(t *testing.T) {
	picked := peer.Picked()
	for s := range alloctest.Scenarios() {
		if s.Differs != "" {
			continue
		}
		differs := slices.Contains(s.Rules, "gates.widest")
		decided := clustergen.PickedDecision(s.Case)
		if differs && decided != clustergen.DecisionWidest {
			t.Errorf("%s/%s: differs, but no decision says so", s.File, s.Name)
		}
		if same := answersAs(t, picked, &s); same == differs && (differs || decided == "") {
			t.Errorf("%s/%s: the same answer: %v", s.File, s.Name, same)
		}
	}
}

// answersAs tells whether an allocator answers as expected, now or later: the oldest
// implementation takes pools in random order.
func answersAs(t *testing.T, a alloctest.Allocator, s *alloctest.Scenario) bool {
	for range 50 {
		if alloctest.Render(s.Case, a(t.Context(), s.Case)) == s.Expected {
			return true
		}
	}
	return false
}

func TestReadmeExampleIsTrue(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	scenarios := 0
	for _, rest, found := strings.Cut(string(readme), "```scenarios\n"); found; _, rest, found = strings.Cut(rest, "```scenarios\n") {
		text, _, _ := strings.Cut(rest, "```\n")
		scenarios += examplesAreTrue(t, text)
	}
	if scenarios < 5 {
		t.Errorf("%d scenarios in the README", scenarios)
	}
}

func examplesAreTrue(t *testing.T, text string) int {
	scenarios, err := alloctest.Parse("README.md", text)
	if err != nil {
		t.Error(err)
	}
	for _, s := range scenarios {
		if answer := alloctest.Render(s.Case, peer.Upstream()(t.Context(), s.Case)); answer != s.Expected {
			t.Errorf("%s: got\n%swant\n%s", s.Name, answer, s.Expected)
		}
	}
	return len(scenarios)
}
