package cluster

import (
	"context"
	"testing"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/cmd/dray/internal/input"
)

func TestSupply(t *testing.T) {
	report := func(claim, request string, needed, candidates int) allocator.RequestReport {
		return allocator.RequestReport{Claim: claim, Request: request, Needed: needed, Candidates: candidates}
	}
	for name, test := range map[string]struct {
		reports             []allocator.RequestReport
		lacking, candidates int
	}{
		"enough of one does not make up for another": {[]allocator.RequestReport{report("c", "a", 1, 9), report("c", "b", 4, 1)}, 3, 10},
		"the best alternative counts":                {[]allocator.RequestReport{report("c", "a/x", 4, 0), report("c", "a/y", 2, 1), report("c", "a/z", 8, 0)}, 1, 1},
		"an alternative there is enough for":         {[]allocator.RequestReport{report("c", "a/x", 1, 1), report("c", "a/y", 2, 0)}, 0, 1},
		"claims apart":                               {[]allocator.RequestReport{report("c", "a", 1, 0), report("d", "a", 1, 0)}, 2, 0},
		"nothing asked":                              {nil, 0, 0},
	} {
		lacking, candidates := supply(&allocator.Explanation{Requests: test.reports})
		if lacking != test.lacking || candidates != test.candidates {
			t.Errorf("%s: %d lacking of %d candidates, want %d of %d", name, lacking, candidates, test.lacking, test.candidates)
		}
	}
}

// Groups that lack less come first, and those which devices are not the reason for last.
func TestGroupsComeClosestFirst(t *testing.T) {
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
				if before.lacking() > after.lacking() || before.lacking() == after.lacking() && len(before.Nodes) < len(after.Nodes) {
					t.Errorf("%s: %d nodes that lack %d come before %d that lack %d", p.Workload, len(before.Nodes), before.lacking(), len(after.Nodes), after.lacking())
				}
			}
		}
	})
	if several == 0 {
		t.Error("no workload has several groups of refusals")
	}
}
