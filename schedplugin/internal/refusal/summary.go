// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/dray-project/dray/allocator/explain"
)

// maxNote is the largest length of an Event's note.
const maxNote = 1024

// kindOf returns a hash of the reasons, without numbers and names of nodes.
func kindOf(refusals []*Refusal) uint64 {
	var reasons []string
	for _, r := range refusals {
		reasons = append(reasons, r.Reason)
	}
	slices.Sort(reasons)
	hash := fnv.New64a()
	for _, reason := range slices.Compact(reasons) {
		hash.Write([]byte(reason + "\n"))
	}
	return hash.Sum64()
}

// undecided reports whether the search on these nodes was given up.
func undecided(r *Refusal) bool { return r.Reason == Undecided || r.Reason == Timeout }

// guide is the last line of an Event: a link to the page that explains each phrase.
const guide = "\nWhat this means: https://github.com/dray-project/dray/blob/main/docs/pending.md"

// summarize returns the text of an Event: each statement with its nodes, as dray explain prints it.
func summarize(who string, refusals []*Refusal) string {
	var grouping explain.Grouping
	others := make(map[string][]string)
	for _, r := range refusals {
		if r.Example == nil {
			others[r.Reason] = append(others[r.Reason], r.Nodes...)
		} else {
			grouping.Add(r.Example.Explain(), r.Nodes...)
		}
	}
	var text strings.Builder
	if slices.ContainsFunc(refusals, undecided) {
		fmt.Fprintf(&text, "It is not decided whether %s gets its devices. The search is repeated with larger limits.", who)
	} else {
		fmt.Fprintf(&text, "%s does not get its devices.", who)
	}
	for _, r := range refusals { // in the order of List
		if nodes := others[r.Reason]; r.Example == nil && nodes != nil {
			fmt.Fprintf(&text, "\n%s: %s", nodesOf(nodes), r.Reason)
			delete(others, r.Reason)
		}
	}
	groups := grouping.Groups()
	for i := range groups {
		describe(&text, &groups[i])
	}
	return cut(text.String(), maxNote-len(guide)) + guide
}

func describe(text *strings.Builder, g *explain.Group) {
	fmt.Fprintf(text, "\n%s: %s:", nodesOf(g.Nodes), g.Statement())
	for _, item := range g.Closest.Core {
		fmt.Fprintf(text, "\n- %s", item.Text)
	}
	for _, pool := range g.Closest.Pools {
		fmt.Fprintf(text, "\npool %s cannot be used: %s", pool.Pool, pool.Incomplete+pool.Invalid)
	}
	if g.Closest.NearestMiss != "" {
		fmt.Fprintf(text, "\nnearest miss: %s", g.Closest.NearestMiss)
	}
}

// maxExamples is how many nodes a statement names.
const maxExamples = 3

func nodesOf(nodes []string) string {
	slices.Sort(nodes)
	names := strings.Join(nodes[:min(len(nodes), maxExamples)], ", ")
	if len(nodes) > maxExamples {
		names += ", …"
	}
	if len(nodes) == 1 {
		return "1 node (" + names + ")"
	}
	return fmt.Sprintf("%d nodes (%s)", len(nodes), names)
}

// Cut shortens a note to what an Event can hold, at the end of a line if possible.
func Cut(note string) string { return cut(note, maxNote) }

func cut(note string, length int) string {
	if len(note) <= length {
		return note
	}
	const more = "\n…"
	note = note[:length-len(more)]
	if end := strings.LastIndexByte(note, '\n'); end > length/2 {
		note = note[:end]
	}
	return strings.ToValidUTF8(note, "") + more
}
