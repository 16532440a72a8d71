// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"testing"
)

func TestSupply(t *testing.T) {
	report := func(claim, request string, needed, candidates int) RequestReport {
		return RequestReport{Claim: claim, Request: request, Needed: needed, Candidates: candidates}
	}
	for name, test := range map[string]struct {
		reports             []RequestReport
		lacking, candidates int
	}{
		"enough of one does not make up for another": {[]RequestReport{report("c", "a", 1, 9), report("c", "b", 4, 1)}, 3, 10},
		"the best alternative counts":                {[]RequestReport{report("c", "a/x", 4, 0), report("c", "a/y", 2, 1), report("c", "a/z", 8, 0)}, 1, 1},
		"an alternative there is enough for":         {[]RequestReport{report("c", "a/x", 1, 1), report("c", "a/y", 2, 0)}, 0, 1},
		"claims apart":                               {[]RequestReport{report("c", "a", 1, 0), report("d", "a", 1, 0)}, 2, 0},
		"nothing asked":                              {nil, 0, 0},
	} {
		lacking, candidates := (&Explanation{Requests: test.reports}).supply()
		if lacking != test.lacking || candidates != test.candidates {
			t.Errorf("%s: %d lacking of %d candidates, want %d of %d", name, lacking, candidates, test.lacking, test.candidates)
		}
	}
}

// Nodes are grouped by what lasts, whatever is in use; the figures are those of the node that
// comes closest, and groups that lack less come first.
func TestGrouping(t *testing.T) {
	explained := func(node string, needed, candidates int, rejections ...Rejection) *Explanation {
		return &Explanation{
			Node: node, Summary: "node " + node + ": short",
			Requests: []RequestReport{{Claim: "c", Request: "r", Needed: needed, Reachable: 8, Candidates: candidates, Rejections: rejections}},
			Core:     []CoreItem{{Claim: "c", Request: "r"}},
		}
	}
	used := func(n int) Rejection { return Rejection{Reason: RejectedByUse, Devices: n} }
	tainted := Rejection{Reason: RejectedByTaint, Detail: "key", Devices: 7}
	further := explained("used-2", 4, 1, used(7))
	further.Summary = "node used-2: shorter"
	var g Grouping
	g.Add(explained("tainted", 4, 1, tainted), "tainted")
	g.Add(further, "used-2", "used-3")
	g.Add(explained("used-1", 4, 3, used(5)), "used-1")
	groups := g.Groups()
	if len(groups) != 2 {
		t.Fatalf("%d groups, want 2", len(groups))
	}
	first, second := groups[0], groups[1]
	if !slices.Equal(first.Nodes, []string{"used-2", "used-3", "used-1"}) || first.Uniform || first.Summary() != "short" ||
		first.Statement() != "this cannot be met, with the figures of used-1, which comes closest" {
		t.Errorf("first group: %+v, %s", first, first.Statement())
	}
	if !slices.Equal(second.Nodes, []string{"tainted"}) || !second.Uniform || second.Statement() != "this cannot be met" {
		t.Errorf("second group: %+v, %s", second, second.Statement())
	}
}
