// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"testing"

	"github.com/dray-project/dray/internal/dev/clustergen"
	"github.com/dray-project/dray/internal/dev/differential"
	"github.com/dray-project/dray/internal/dev/peer"
)

func FuzzDifferential(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, seed%2 == 1)
	}
	both := comparer(peer.Dray())
	f.Fuzz(func(t *testing.T, seed uint64, hard bool) {
		profile := clustergen.Default
		if hard {
			profile = clustergen.Hard
		}
		c := clustergen.Generate(seed, profile)
		v := both.Compare(t.Context(), c)
		if v.Disagreement == "" {
			return
		}
		text, err := both.Reduce(t.Context(), differential.Disagreement{Case: c, Verdict: v}).Scenario()
		if err != nil {
			t.Error(err)
		}
		t.Errorf("%s: %s\n%s", c.Name, v.Disagreement, text)
	})
}
