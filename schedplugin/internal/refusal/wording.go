// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"fmt"
	"strings"

	"k8s.io/utils/lru"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/explain"
)

// Reasons caches short reasons across pods: finding a reason takes longer than Filter. It is safe for
// concurrent use.
type Reasons struct{ known *lru.Cache }

// NewReasons returns an empty cache for 10,000 reasons.
func NewReasons() Reasons { return Reasons{known: lru.New(10_000)} }

// Names has the names by which a pod refers to its claims.
type Names interface {
	// OfClaim returns the prefix for reasons about one claim, given as namespace/name. It is empty if the pod
	// has only one claim.
	OfClaim(claim string) string
	// All returns the names of all claims and requests.
	All() string
}

// reasonKey is all that a reason depends on: the equivalence class of the answer, which has no names, and the
// names.
type reasonKey struct {
	alike allocator.Equivalence
	names string
}

// Of returns the reason for an answer, without the name of a node, pool or device.
func (r Reasons) Of(names Names, none *allocator.Unsatisfiable) string {
	key := reasonKey{alike: none.Alike(), names: names.All()}
	if known, found := r.known.Get(key); found {
		return known.(string)
	}
	reason := shortReason(names, none.Explain())
	r.known.Add(key, reason)
	return reason
}

// Len returns the number of cached reasons.
func (r Reasons) Len() int { return r.known.Len() }

// shortReason returns a reason that is the same for many nodes, so that the scheduler can count them:
// "request gpus wants 4 devices: too few left (the others: in use)". Numbers that differ from node to node
// are only in the Event.
func shortReason(names Names, e *explain.Explanation) string {
	if len(e.Core) != 1 || e.Core[0].Constraint != "" {
		return conflictPhrase(names, e.Core) + unusablePools(e)
	}
	item := e.Core[0]
	var phrases []string
	for _, report := range e.Requests {
		if name, _, _ := strings.Cut(report.Request, "/"); report.Claim == item.Claim && name == item.Request {
			phrases = append(phrases, wantPhrase(report))
		}
	}
	return names.OfClaim(item.Claim) + strings.Join(phrases, ", ") + unusablePools(e)
}

// conflictPhrase lists the requests and constraints that cannot be met together on a node.
func conflictPhrase(n Names, core []explain.CoreItem) string {
	if len(core) == 0 {
		return "the node does not have the devices of all claims together"
	}
	names := make([]string, len(core))
	for i, item := range core {
		names[i] = n.OfClaim(item.Claim) + item.Constraint
		if item.Request != "" {
			names[i] = n.OfClaim(item.Claim) + "request " + item.Request
		}
	}
	if len(names) == 1 {
		return names[0] + " cannot be met"
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1] + " are in conflict"
}

func wantPhrase(report explain.RequestReport) string {
	amount := fmt.Sprintf("%d devices", report.Needed)
	switch {
	case report.All:
		amount = "all devices"
	case report.Needed == 1:
		amount = "1 device"
	}
	return fmt.Sprintf("request %s wants %s: %s", report.Request, amount, lackPhrase(report))
}

func lackPhrase(report explain.RequestReport) string {
	left, rest := "too few left", "the others: "
	switch {
	case report.Reachable == 0:
		return "the node has none"
	case report.All && report.Needed == 0:
		return "none matches"
	case report.Candidates >= report.Needed:
		return "not that many can be had together"
	case report.All:
		left, rest = "not all can be had", ""
	case report.Reachable < report.Needed:
		return "the node has fewer"
	case report.Needed == 1:
		left, rest = "none left", ""
	}
	if kinds := mainRejections(report); kinds != "" {
		left += " (" + rest + kinds + ")"
	}
	return left
}

// rejectionPhrases has a phrase for each reason to reject devices. Reasons that change most often come first.
var rejectionPhrases = []struct {
	reason explain.Reason
	phrase string
}{
	{explain.RejectedByUse, "in use"},
	{explain.RejectedByCounter, "short of counters"},
	{explain.RejectedByGroup, "incompatible with others in use"},
	{explain.RejectedByCapacity, "short of capacity"},
	{explain.RejectedByTaint, "tainted"},
	{explain.RejectedByBinding, "with binding conditions"},
	{explain.RejectedByNodeOperations, "in need of a feature of the node"},
	{explain.RejectedBySelector, "not matching"},
}

// mainRejections lists the reasons to reject devices that leave too few: a single one if there would be
// enough without it, else all.
func mainRejections(report explain.RequestReport) string {
	counts := make(map[explain.Reason]int)
	for _, rejection := range report.Rejections {
		counts[rejection.Reason] += rejection.Devices
	}
	var phrases []string
	for _, kind := range rejectionPhrases {
		devices := counts[kind.reason]
		if devices == 0 {
			continue
		}
		phrases = append(phrases, kind.phrase)
		if !report.All && report.Candidates+devices >= report.Needed {
			phrases = []string{kind.phrase}
			break
		}
	}
	return strings.Join(phrases, ", ")
}

// unusablePrefix is the prefix of a phrase about pools that cannot be used.
const unusablePrefix = "; it has "

func unusablePools(e *explain.Explanation) string {
	incomplete, invalid := false, false
	for _, pool := range e.Pools {
		invalid = invalid || pool.Invalid != ""
		incomplete = incomplete || pool.Invalid == ""
	}
	text := ""
	if incomplete {
		text += unusablePrefix + "incomplete pools"
	}
	if invalid {
		text += unusablePrefix + "invalid pools"
	}
	return text
}
