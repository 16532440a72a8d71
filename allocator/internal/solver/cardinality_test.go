// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver_test

import (
	"testing"

	"github.com/dray-project/dray/allocator/internal/solver"
)

// Two claims want two devices of one value each, and get them: what looks as if there were too few devices is not.
func TestValuesThatServeTwoClaims(t *testing.T) {
	column := func(values ...[]int32) *solver.Column { return &solver.Column{Values: append(values, nil, nil)} }
	one, two := []int32{0}, []int32{1}
	rack, uneven, none := column(one, one, one, one), column(one, one, one, two), column([]int32{}, one, []int32{}, one)
	all := column(one, two, []int32{2}, []int32{3})
	for name, tc := range map[string]struct {
		kind   solver.RelationKind
		values *solver.Column
		differ [2]*solver.Column // by claim
		admin  bool
	}{
		"admin access":        {kind: solver.Match, values: column(one, one, nil, nil), admin: true},
		"values that differ":  {kind: solver.Distinct, values: all},
		"one claim differs":   {kind: solver.Match, values: rack, differ: [2]*solver.Column{uneven}},
		"other values differ": {kind: solver.Match, values: rack, differ: [2]*solver.Column{uneven, all}},
		"none of the values":  {kind: solver.Match, values: rack, differ: [2]*solver.Column{none, none}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &solver.Problem{Claims: 2, MostOfClaim: 32, Domains: []solver.Domain{among(4, 5), among(4)}}
			for range rack.Values {
				p.Devices = append(p.Devices, solver.Device{Pool: -1})
			}
			for claim, differ := range tc.differ {
				d := among(0, 1, 2, 3)
				d.Claim, d.Admin = int32(claim), tc.admin
				cover := func(kind solver.RelationKind, column *solver.Column) {
					d.Covers = append(d.Covers, solver.Cover{Relation: int32(len(p.Relations)), Column: column})
					p.Relations = append(p.Relations, solver.Relation{Kind: kind})
				}
				cover(tc.kind, tc.values)
				if differ != nil {
					cover(solver.Distinct, differ)
				}
				p.Domains = append(p.Domains, d)
				p.Requests = append(p.Requests, solver.Request{Claim: int32(claim), Options: []solver.Option{{Domain: int32(2 + claim), Count: 2}}})
			}
			// The first attempt comes to a dead end: device 4 is for the last request.
			for domain := range int32(2) {
				p.Requests = append(p.Requests, solver.Request{Claim: 1, Options: []solver.Option{{Domain: domain, Count: 1}}})
			}
			compareFound(t, p)
		})
	}
}
