// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"
)

// Text is the explanation for people, in several lines.
func (e *Explanation) Text() string {
	var text strings.Builder
	fmt.Fprintln(&text, e.Summary)
	if len(e.Core) > 1 {
		fmt.Fprintln(&text, "conflict:")
		for _, item := range e.Core {
			if item.Claim != "" {
				fmt.Fprintf(&text, "  claim %s: %s\n", item.Claim, item.Text)
				continue
			}
			fmt.Fprintf(&text, "  %s\n", item.Text)
		}
	}
	fmt.Fprintln(&text, "requests:")
	for _, r := range e.Requests {
		fmt.Fprintf(&text, "  claim %s: request %s: %s\n", r.Claim, r.Request, r.String())
	}
	for _, p := range e.Pools {
		fmt.Fprintf(&text, "pool %s cannot be used: %s\n", p.Pool, p.Incomplete+p.Invalid)
	}
	if e.NearestMiss != "" {
		fmt.Fprintf(&text, "nearest miss: %s\n", e.NearestMiss)
	}
	return text.String()
}

// String is one line with the counts.
func (r RequestReport) String() string {
	need := fmt.Sprintf("%d needed", r.Needed)
	if r.All {
		need = "all needed"
	}
	if r.Totals != "" {
		need += " with " + r.Totals + " in all"
	}
	return fmt.Sprintf("%s, %d reach the node, %s%s", need, r.Reachable, Count(r.Candidates, "candidate"), r.Because())
}

// Because lists the rejections, in parentheses.
func (r *RequestReport) Because() string {
	if len(r.Rejections) == 0 {
		return ""
	}
	var reasons []string
	for _, rejection := range r.Rejections {
		reasons = append(reasons, rejection.String())
	}
	return " (" + strings.Join(reasons, ", ") + ")"
}

// String is a phrase such as "3 in use".
func (r Rejection) String() string { return fmt.Sprintf("%d %s", r.Devices, r.Phrase()) }

// Phrase is String without the number.
func (r Rejection) Phrase() string {
	phrase := map[Reason]string{
		RejectedByUse:            "in use",
		RejectedByBinding:        "with binding conditions: %s",
		RejectedBySelector:       "rejected by %s",
		RejectedByUnknown:        "of which a value is unknown: %s",
		RejectedByCapacity:       "without the capacity: %s",
		RejectedByNodeOperations: "that skip node operations: %s",
		RejectedByGroup:          "of other compatibility groups",
		RejectedByCounter:        "short of counters (%s)",
		RejectedByTaint:          "tainted %s",
	}[r.Reason]
	return strings.ReplaceAll(phrase, "%s", r.Detail)
}

// Count is a number with its noun: "1 device", "2 devices".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
