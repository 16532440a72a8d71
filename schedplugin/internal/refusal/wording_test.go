// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package refusal

import (
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
