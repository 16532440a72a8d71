// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/mix"
)

// The line about a mix of nodes says how many there are, and whether it is known that nothing costs less.
func TestMixSummary(t *testing.T) {
	undecided := []mix.Left{{Reason: mix.Undecided}}
	for want, plan := range map[string]mix.Plan{
		"0 new nodes cost 0, and nothing less will do":                                                      {},
		"1 new node costs 2.5, and nothing less will do; 1 pod on the nodes there are":                      {Nodes: make([]mix.Node, 1), Cost: 2.5, Bound: 2.5, Existing: make([]simulate.Placement, 1)},
		"2 new nodes cost 20; no plan for as many pods costs less than 15":                                  {Nodes: make([]mix.Node, 2), Cost: 20, Bound: 15},
		"2 new nodes cost 20; it is not proven that no plan is better; 3 pods on the nodes there are":       {Nodes: make([]mix.Node, 2), Cost: 20, Bound: 20, Left: undecided, Existing: make([]simulate.Placement, 3)},
		"2 new nodes cost 20; no plan for as many pods costs less than 19.5; 2 pods on the nodes there are": {Nodes: make([]mix.Node, 2), Cost: 20, Bound: 19.5, Left: undecided, Existing: make([]simulate.Placement, 2)},
	} {
		if got := mixSummary(&plan); got != want {
			t.Errorf("said %q, want %q", got, want)
		}
	}
}
