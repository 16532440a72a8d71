// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"strings"
	"testing"

	"github.com/dray-project/dray/allocator/explain"
)

// A single reason is given if there would be enough devices without it.
func TestMainRejections(t *testing.T) {
	rejected := func(reason explain.Reason, devices int) explain.Rejection {
		return explain.Rejection{Reason: reason, Devices: devices}
	}
	use, taint := explain.RejectedByUse, explain.RejectedByTaint
	for _, test := range []struct {
		report explain.RequestReport
		want   string
	}{
		{explain.RequestReport{Needed: 4, Reachable: 8, Candidates: 3, Rejections: []explain.Rejection{rejected(taint, 2), rejected(use, 3)}},
			"request r wants 4 devices: too few left (the others: in use)"},
		{explain.RequestReport{Needed: 4, Reachable: 8, Candidates: 1, Rejections: []explain.Rejection{rejected(use, 2), rejected(taint, 5)}},
			"request r wants 4 devices: too few left (the others: tainted)"},
		{explain.RequestReport{Needed: 4, Reachable: 4, Rejections: []explain.Rejection{rejected(taint, 1), rejected(taint, 1), rejected(use, 2)}},
			"request r wants 4 devices: too few left (the others: in use, tainted)"},
		{explain.RequestReport{Needed: 1, Reachable: 1, Rejections: []explain.Rejection{rejected(use, 1)}},
			"request r wants 1 device: none left (in use)"},
		{explain.RequestReport{All: true, Needed: 2, Reachable: 4, Candidates: 1, Rejections: []explain.Rejection{rejected(use, 1)}},
			"request r wants all devices: not all can be had (in use)"},
		{explain.RequestReport{All: true, Reachable: 4, Rejections: []explain.Rejection{rejected(explain.RejectedBySelector, 4)}},
			"request r wants all devices: none matches"},
		{explain.RequestReport{Needed: 2, Reachable: 4, Candidates: 3}, "request r wants 2 devices: not that many can be had together"},
		{explain.RequestReport{Needed: 2, Reachable: 2, Candidates: 2}, "request r wants 2 devices: not that many can be had together"},
		{explain.RequestReport{All: true, Needed: 2, Reachable: 4, Candidates: 2}, "request r wants all devices: not that many can be had together"},
		{explain.RequestReport{Needed: 2}, "request r wants 2 devices: the node has none"},
		{explain.RequestReport{All: true}, "request r wants all devices: the node has none"},
		{explain.RequestReport{Needed: 2, Reachable: 1, Rejections: []explain.Rejection{rejected(use, 1)}}, "request r wants 2 devices: the node has fewer"},
		{explain.RequestReport{Needed: 2, Reachable: 2, Candidates: 1}, "request r wants 2 devices: too few left"},
		{explain.RequestReport{Needed: 1, Reachable: 2, Rejections: []explain.Rejection{rejected(taint, 1), rejected(use, 1)}}, "request r wants 1 device: none left (in use)"},
		{explain.RequestReport{All: true, Needed: 4, Reachable: 4, Candidates: 2, Rejections: []explain.Rejection{rejected(taint, 1), rejected(use, 1)}},
			"request r wants all devices: not all can be had (in use, tainted)"},
		{explain.RequestReport{Needed: 3, Reachable: 4, Candidates: 1, Rejections: []explain.Rejection{rejected(explain.RejectedBySelector, 1), rejected(explain.RejectedByCapacity, 1), rejected(explain.RejectedByCounter, 1)}},
			"request r wants 3 devices: too few left (the others: short of counters, short of capacity, not matching)"},
		{explain.RequestReport{Needed: 1, Reachable: 1, Rejections: []explain.Rejection{rejected(explain.RejectedByGroup, 1)}}, "request r wants 1 device: none left (incompatible with others in use)"},
		{explain.RequestReport{Needed: 1, Reachable: 1, Rejections: []explain.Rejection{rejected(explain.RejectedByBinding, 1)}}, "request r wants 1 device: none left (with binding conditions)"},
		{explain.RequestReport{Needed: 1, Reachable: 1, Rejections: []explain.Rejection{rejected(explain.RejectedByNodeOperations, 1)}}, "request r wants 1 device: none left (in need of a feature of the node)"},
	} {
		test.report.Request = "r"
		if got := wantPhrase(test.report); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// single is the names of a pod with one claim.
type single struct{}

func (single) OfClaim(string) string { return "" }
func (single) All() string           { return "" }

// A reason for several requests or constraints names them, and has no numbers.
func TestConflicts(t *testing.T) {
	core := []explain.CoreItem{{Request: "gpu"}, {Request: "nic"}, {Constraint: "matchAttribute numa"}}
	if got, want := conflictPhrase(single{}, core), "request gpu, request nic and matchAttribute numa are in conflict"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := conflictPhrase(single{}, core[2:]), "matchAttribute numa cannot be met"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// several names claims as a pod with several does.
type several struct{}

func (several) OfClaim(claim string) string { return "claim " + claim + ": " }
func (several) All() string                 { return "several" }

// A reason names one request that nothing else stands in the way of, or what is in conflict, and pools that cannot be used.
func TestReasons(t *testing.T) {
	report := func(claim, request string) explain.RequestReport {
		return explain.RequestReport{Claim: claim, Request: request, Needed: 1, Reachable: 1}
	}
	core := func(items ...explain.CoreItem) []explain.CoreItem { return items }
	reports := []explain.RequestReport{report("a", "gpu/big"), report("a", "gpu/small"), report("a", "nic"), report("b", "gpu")}
	incomplete, invalid := explain.PoolReport{Incomplete: "1 of 2 slices"}, explain.PoolReport{Invalid: "two devices of a name"}
	for name, test := range map[string]struct {
		e    explain.Explanation
		want string
	}{
		"a request":    {explain.Explanation{Core: core(explain.CoreItem{Claim: "b", Request: "gpu"}), Requests: reports}, "claim b: request gpu wants 1 device: none left"},
		"a list":       {explain.Explanation{Core: core(explain.CoreItem{Claim: "a", Request: "gpu"}), Requests: reports}, "claim a: request gpu/big wants 1 device: none left, request gpu/small wants 1 device: none left"},
		"a constraint": {explain.Explanation{Core: core(explain.CoreItem{Claim: "a", Constraint: "matchAttribute numa"}), Requests: reports}, "claim a: matchAttribute numa cannot be met"},
		"two claims":   {explain.Explanation{Core: core(explain.CoreItem{Claim: "a", Request: "gpu"}, explain.CoreItem{Claim: "b", Request: "gpu"})}, "claim a: request gpu and claim b: request gpu are in conflict"},
		"all of it":    {explain.Explanation{}, "the node does not have the devices of all claims together"},
		"incomplete":   {explain.Explanation{Pools: []explain.PoolReport{incomplete, incomplete}}, "the node does not have the devices of all claims together; it has incomplete pools"},
		"invalid":      {explain.Explanation{Core: core(explain.CoreItem{Claim: "b", Request: "gpu"}), Requests: reports, Pools: []explain.PoolReport{invalid}}, "claim b: request gpu wants 1 device: none left; it has invalid pools"},
		"both":         {explain.Explanation{Pools: []explain.PoolReport{invalid, incomplete}}, "the node does not have the devices of all claims together; it has incomplete pools; it has invalid pools"},
	} {
		if got := shortReason(several{}, &test.e); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// A summary names what lacks, the pools that cannot be used, and how close the search came.
func TestDescribe(t *testing.T) {
	var text strings.Builder
	describe(&text, &explain.Group{Nodes: []string{"b", "a"}, Closest: &explain.Explanation{
		Core: []explain.CoreItem{{Text: "request gpu: no device"}}, NearestMiss: "all but request gpu",
	}})
	for _, want := range []string{"\n2 nodes (a, b): ", "\n- request gpu: no device", "\nnearest miss: all but request gpu"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in %q", want, text.String())
		}
	}
}
