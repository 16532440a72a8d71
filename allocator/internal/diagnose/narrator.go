// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/model"
)

// narrator puts an explanation into words.
type narrator struct {
	in          *model.Instance
	inspections []inspection // by alternative
	core        []claims.Part
	requests    []*claims.Request // of the core
}

// narrate words the parts of the core and the conflict. One request is described by what it lacks, several
// parts by their names. Names of claims are included if there are several claims.
func (n *narrator) narrate() (items []explain.CoreItem, conflict string) {
	var requests, constraints []string
	for _, p := range n.core {
		item, name := n.part(p)
		if item.Claim != "" && len(n.in.Compiled.Claims) > 1 {
			name += " of claim " + item.Claim
		}
		items = append(items, item)
		if item.Constraint != "" {
			constraints = append(constraints, name)
		} else {
			requests = append(requests, name)
		}
	}
	names := slices.Concat(shorten(requests), fold(constraints))
	switch last := len(names) - 1; {
	case last < 0:
		return nil, "the claims cannot be allocated"
	case last > 0:
		return items, fmt.Sprintf("%s and %s are in conflict", strings.Join(names[:last], ", "), names[last])
	case items[0].Claim == "":
		return items, items[0].Text
	}
	return items, fmt.Sprintf("claim %s: %s%s", items[0].Claim, items[0].Text, n.rivalry())
}

// mostNamed is how many requests the sentence names. CoreItems list all.
const mostNamed = 6

func shorten(requests []string) []string {
	if more := len(requests) - mostNamed; more > 0 {
		return append(requests[:mostNamed:mostNamed], explain.Count(more, "more request"))
	}
	return requests
}

// fold replaces repeated names by one with a count.
func fold(names []string) (folded []string) {
	times := make(map[string]int)
	for _, name := range names {
		if times[name]++; times[name] == 1 {
			folded = append(folded, name)
		}
	}
	for i, name := range folded {
		if times[name] > 1 {
			folded[i] = fmt.Sprintf("%s (%d times)", name, times[name])
		}
	}
	return folded
}

func (n *narrator) part(p claims.Part) (item explain.CoreItem, name string) {
	r, c := n.in.Compiled.Part(p)
	if r != nil {
		return n.request(r)
	}
	item = explain.CoreItem{Constraint: c.String(), Attribute: string(c.Attribute), Position: c.Position, Capacity: c.Capacity, Text: c.String()}
	if c.Claim == claims.AcrossClaims {
		item.Text += " across claims"
		return item, item.Text
	}
	item.Claim = n.in.Compiled.Claims[c.Claim].Ref()
	if c.InSpec() {
		item.Text = fmt.Sprintf("constraint %d: %s", item.Position, item.Constraint)
	}
	return item, item.Constraint
}

// request describes what a request needs and which devices are available.
func (n *narrator) request(r *claims.Request) (item explain.CoreItem, name string) {
	item = explain.CoreItem{Claim: n.in.Compiled.Claims[r.Claim].Ref(), Position: r.Position, Request: r.Name}
	var options []string
	for _, alt := range r.Alternatives {
		if !alt.Extra {
			options = append(options, alt.Name+" "+n.supply(alt))
		}
	}
	if name = "request " + r.Name; r.Prioritized {
		item.Text = fmt.Sprintf("%s accepts: %s", name, strings.Join(options, "; "))
		return item, name
	}
	item.Text = "request " + options[0]
	report := &n.inspections[r.Least().ID]
	return item, fmt.Sprintf("%s (%s, %s)", name, explain.Count(report.Needed, "device"), explain.Count(report.Candidates, "candidate"))
}

func (n *narrator) supply(alt *claims.Alternative) string {
	report := &n.inspections[alt.ID]
	need := "needs " + explain.Count(report.Needed, "device")
	switch {
	case alt.All && report.Needed == 0:
		return "needs all matching devices, and none matches" + report.Because()
	case alt.All:
		need = fmt.Sprintf("needs all %d matching devices", report.Needed)
	case report.Totals != "":
		need = fmt.Sprintf("needs devices with %s in all", report.Totals)
	}
	if report.Reachable == 0 {
		return need + ", and no device of a usable pool reaches the node"
	}
	return fmt.Sprintf("%s; %d of %d that reach the node can serve it%s", need, report.Candidates, report.Reachable, report.Because())
}

// rivalry explains how a single request can fail although it has enough candidates.
func (n *narrator) rivalry() string {
	if len(n.requests) == 0 {
		return ""
	}
	report := &n.inspections[n.requests[0].Least().ID]
	switch {
	case n.requests[0].Prioritized || report.All || report.Candidates < report.Needed:
		return ""
	case report.Totals != "":
		return ", but as many as it may have together have less"
	}
	return ", but not that many together: they draw on the same counters"
}
