// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest_test

import (
	"testing"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
	"github.com/dray-project/dray/internal/dev/peer"
)

// A generated case that becomes a scenario file must still ask the same question.
func TestGeneratedCasesRoundTrip(t *testing.T) {
	upstream := peer.Upstream()
	for seed := range uint64(300) {
		c := clustergen.Generate(seed, clustergen.Default)
		outcome := upstream(t.Context(), c)
		text, err := alloctest.Format(c, outcome)
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			continue
		}
		scenarios, err := alloctest.Parse("generated", text)
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			continue
		}
		s := scenarios[0]
		if answer := alloctest.Render(s.Case, upstream(t.Context(), s.Case)); answer != s.Expected {
			t.Errorf("seed %d: read back, the outcome is\n%swas\n%sof\n%s", seed, answer, s.Expected, text)
		}
	}
}
