// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
)

// Missed is a preferred match that a placement does not have.
type Missed struct {
	// Claim is the name of the claim, empty if the match is across claims.
	Claim string `json:"claim,omitempty"`
	// MatchAttribute is what is compared, over all requests unless some are named.
	MatchAttribute string   `json:"matchAttribute"`
	Requests       []string `json:"requests,omitempty"`
	// Undecided is set if the search for it was given up: see --budget.
	Undecided bool `json:"undecided,omitempty"`

	rank int
}

// missedBy lists what an assignment misses. Claims are those of the problem, with those that were
// allocated before.
func missedBy(assignment *allocator.Assignment, claims []*resourceapi.ResourceClaim) []Missed {
	var list []Missed
	open := slices.DeleteFunc(slices.Clone(claims), func(c *resourceapi.ResourceClaim) bool { return c.Status.Allocation != nil })
	for _, m := range assignment.Missed() {
		missed := Missed{MatchAttribute: string(m.MatchAttribute), Requests: m.Requests, Undecided: m.Undecided, rank: m.Rank}
		if m.Claim >= 0 {
			missed.Claim = open[m.Claim].Name
		}
		list = append(list, missed)
	}
	return list
}

// misses compares what two placements miss: it is negative if the first has a more important
// preference that the second misses.
func misses(a, b []Missed) int {
	for i := range min(len(a), len(b)) {
		if a[i].rank != b[i].rank {
			return cmp.Compare(b[i].rank, a[i].rank)
		}
	}
	return cmp.Compare(len(a), len(b))
}

// String is a line for people.
func (m Missed) String() string {
	text := "preferred matchAttribute " + m.MatchAttribute
	switch {
	case m.Claim == "":
		text += " across claims"
	case len(m.Requests) > 0:
		text += fmt.Sprintf(" of claim %s, request %s", m.Claim, strings.Join(m.Requests, ", "))
	default:
		text += " of claim " + m.Claim
	}
	if m.Undecided {
		text += " (undecided: raise --budget to search on)"
	}
	return text
}
