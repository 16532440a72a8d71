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

// Missed is a preference that a placement does not meet.
type Missed struct {
	// Claim is the name of the claim. It is empty for a preference across claims.
	Claim string `json:"claim,omitempty"`
	// MatchAttribute is the attribute that devices should share. Without Requests, it applies to
	// all requests.
	MatchAttribute string   `json:"matchAttribute"`
	Requests       []string `json:"requests,omitempty"`
	// Undecided says that the search for a better placement ran out of budget: see --budget.
	Undecided bool `json:"undecided,omitempty"`

	rank int
}

// missedBy returns the preferences that an assignment does not meet. claims are those of the
// problem, including claims that were allocated before.
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

// misses compares what two placements miss. It is negative if the first one is better: the most
// important preference in which they differ is one that the second misses.
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
