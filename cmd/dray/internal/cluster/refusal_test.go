// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/input"
)

// Groups which devices are not the reason for come after those with devices, those of most
// nodes first; nodes that have no device at all come last.
func TestOrderOfGroups(t *testing.T) {
	several := 0
	forEachExample(t, func(t *testing.T, objects *input.Objects) {
		c := newCluster(t, objects)
		placements, err := c.Run(context.Background(), c.Workloads(), c.Nodes, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range placements {
			groups := GroupRefusals(p.Refusals)
			for i := 1; i < len(groups); i++ {
				several++
				before, after := groups[i-1], groups[i]
				switch {
				case rankOf(before) > rankOf(after):
					t.Errorf("%s: %q comes before %q", p.Workload, before.Summary, after.Summary)
				case rankOf(before) == otherReasons && rankOf(after) == otherReasons && len(before.Nodes) < len(after.Nodes):
					t.Errorf("%s: %q is about fewer nodes than %q", p.Workload, before.Summary, after.Summary)
				}
			}
		}
	})
	if several == 0 {
		t.Error("no workload has several groups of refusals")
	}
}

func rankOf(g RefusalGroup) int {
	if g.Explanation == nil {
		return otherReasons
	}
	return rank(g.Explanation)
}
