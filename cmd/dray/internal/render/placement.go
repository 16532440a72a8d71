// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/diagnosis"
)

// Cells of workloads that are not placed.
const nowhere, notPlaced = "-", "not placed"

// Placements prints the placed workloads, why others are not placed, and a summary.
func (t *Terminal) Placements(c *cluster.Cluster, placements []*cluster.Placement) {
	if len(placements) == 0 {
		t.Paragraph(0, 0, "Nothing to allocate: no pending pod uses claims or extended resources, and no claim is unallocated.")
		return
	}
	t.table([]string{"POD/CLAIM", "NODE", "REQUEST", "DEVICES"}, t.placementRows(c, placements), func(cell string) span {
		if cell == nowhere || cell == notPlaced {
			return bad(cell)
		}
		return plain(cell)
	})
	t.missed(placements)
	t.refused(c, placements)
	if t.NoHeaders {
		return
	}
	t.Line("")
	t.spans(0, 0, tally(placements))
	t.remarks(c, placements)
}

// NotSelected prints that none of the pending workloads is selected.
func (t *Terminal) NotSelected(pending int) {
	t.Paragraph(0, 0, "Nothing that is pending is selected: -n, -A, -l and --field-selector leave out "+Count(pending, "pod or claim")+".")
}

// remarks prints notes about all placements: aspects that were not looked at, and problems of the
// input if something was not placed.
func (t *Terminal) remarks(c *cluster.Cluster, placements []*cluster.Placement) {
	if unseen := NotLookedAt(c, placements); unseen != "" {
		t.Paragraph(0, 2, unseen)
	}
	var refused []*cluster.Placement
	for _, p := range placements {
		if !p.Placed() {
			refused = append(refused, p)
		}
	}
	if len(refused) > 0 {
		for _, note := range diagnosis.Environment(c, refused...) {
			t.Paragraph(0, 2, "Note: "+sentence(note))
		}
	}
}

// NotLookedAt returns a sentence about aspects of the pods that kube-scheduler looks at and Dray
// does not. It is empty if there are none.
func NotLookedAt(c *cluster.Cluster, placements []*cluster.Placement) string {
	pods := make(map[string]int)
	var order []string
	for _, p := range placements {
		for _, aspect := range c.NotLookedAt(p.Workload.Pod) {
			if pods[aspect] == 0 {
				order = append(order, aspect)
			}
			pods[aspect]++
		}
	}
	for i, aspect := range order {
		order[i] = fmt.Sprintf("%s of %s", aspect, Count(pods[aspect], "pod"))
	}
	if len(order) == 0 {
		return ""
	}
	return "Not looked at: " + strings.Join(order, ", ") + "."
}

func (t *Terminal) placementRows(c *cluster.Cluster, placements []*cluster.Placement) [][]string {
	var rows [][]string
	for _, p := range placements {
		if !p.Placed() {
			rows = append(rows, []string{p.Workload.String(), nowhere, "", notPlaced})
			continue
		}
		for _, row := range t.requestRows(c, p) {
			rows = append(rows, append([]string{p.Workload.String(), p.Node}, row...))
		}
	}
	if t.Folded {
		leaveOutRepeats(rows, 2)
	}
	return rows
}

// leaveOutRepeats empties the first cells of rows that equal those of the row above.
func leaveOutRepeats(rows [][]string, cells int) {
	for i := len(rows) - 1; i > 0; i-- {
		if slices.Equal(rows[i][:cells], rows[i-1][:cells]) {
			rows[i] = append(make([]string, cells), rows[i][cells:]...)
		}
	}
}

// requestRows returns request and devices for each request of all claims.
func (t *Terminal) requestRows(c *cluster.Cluster, p *cluster.Placement) [][]string {
	var rows [][]string
	for _, claim := range p.Claims {
		prefix := ""
		if len(p.Claims) > 1 {
			prefix = c.NameInPod(p.Workload, claim) + ": "
		}
		for _, row := range t.claimRows(claim) {
			rows = append(rows, []string{prefix + row[0], row[1]})
		}
	}
	if len(rows) == 0 {
		rows = [][]string{{"", "(no devices needed)"}}
	}
	return rows
}

// claimRows returns request and devices for each request of an allocated claim.
func (t *Terminal) claimRows(claim *resourceapi.ResourceClaim) [][2]string {
	var rows [][2]string
	results := claim.Status.Allocation.Devices.Results
	for start := 0; start < len(results); {
		name := requestName(claim, start)
		end := start + 1
		for end < len(results) && requestName(claim, end) == name {
			end++
		}
		if t.Folded && !t.Wide {
			rows = append(rows, [2]string{name, Devices(results[start:end])})
		} else {
			for _, device := range deviceRows(results[start:end], t.Wide) {
				rows = append(rows, [2]string{name, device})
			}
		}
		start = end
	}
	return rows
}

// requestName returns the request that a device serves, with the class if the request permits
// several.
func requestName(claim *resourceapi.ResourceClaim, result int) string {
	name := claim.Status.Allocation.Devices.Results[result].Request
	if classes := cluster.ClassesOf(claim); classes != nil && cluster.HasClasses(claim, name) {
		name += " (" + classes[result] + ")"
	}
	return name
}

// missed prints the preferences that are not met.
func (t *Terminal) missed(placements []*cluster.Placement) {
	for i, line := range Missed(placements) {
		if i == 0 {
			t.Line("")
		}
		t.Paragraph(0, 2, line)
	}
}

// Missed returns one line per preference that a placement does not meet.
func Missed(placements []*cluster.Placement) []string {
	var lines []string
	for _, p := range placements {
		for _, m := range p.Missed {
			lines = append(lines, fmt.Sprintf("%s does not have the %s", p.Workload, m))
		}
	}
	return lines
}

// refusedAlike is a group of failed placements with the same explanation.
type refusedAlike struct {
	placements []*cluster.Placement
	lines      []string
}

// refused prints why workloads are not placed, once for those with the same explanation.
func (t *Terminal) refused(c *cluster.Cluster, placements []*cluster.Placement) {
	for _, r := range groupAlike(c, placements) {
		first := r.placements[0]
		t.Line("")
		if len(r.placements) == 1 {
			t.spans(0, 2, heading(first.Workload.String()), bad(" is not placed: "), plain(headline(c, first)))
		} else {
			names := make([]string, len(r.placements))
			for i, p := range r.placements {
				names[i] = p.Workload.String()
			}
			t.spans(0, 2, heading(fmt.Sprintf("%d pods (%s)", len(names), firstFew(names))), bad(" are not placed, each of them because "), plain(headline(c, first)))
		}
		for _, line := range r.lines {
			t.Paragraph(2, 4, line)
		}
		if first.Err == nil && first.Reason == "" {
			t.Paragraph(2, 4, "See: "+t.explainCommand(first.Workload))
		}
	}
}

func groupAlike(c *cluster.Cluster, placements []*cluster.Placement) []*refusedAlike {
	var order []*refusedAlike
	known := make(map[string]*refusedAlike)
	byPlacement := make(map[*cluster.Placement]*refusedAlike)
	for _, p := range placements {
		if p.Placed() {
			continue
		}
		if like := byPlacement[p.Like]; like != nil {
			like.placements = append(like.placements, p)
			continue
		}
		lines := refusalLines(c, p)
		key := strings.Join(append(lines, headline(c, p), fmt.Sprint(p.Workload.Pod == nil)), "\x00")
		if known[key] == nil {
			known[key] = &refusedAlike{lines: lines}
			order = append(order, known[key])
		}
		known[key].placements = append(known[key].placements, p)
		byPlacement[p] = known[key]
	}
	return order
}

// refusalLines returns a sentence for each group of refusals, the closest first.
func refusalLines(c *cluster.Cluster, p *cluster.Placement) []string {
	const most = 4
	groups := cluster.GroupRefusals(p.Refusals)
	told := newExplainer(c, p.Asked())
	told.diagnosis.Brief = true
	var lines []string
	for _, group := range groups[:min(most, len(groups))] {
		lines = append(lines, told.line(group, told.of(group)))
	}
	if len(groups) > most {
		lines = append(lines, fmt.Sprintf("and %s for other reasons", Count(remaining(groups[most:]), "node")))
	}
	return lines
}

func remaining(groups []cluster.RefusalGroup) int {
	n := 0
	for _, group := range groups {
		n += len(group.Nodes)
	}
	return n
}

func (t *Terminal) explainCommand(w cluster.Workload) string {
	subject := w.Key().Name
	if w.Pod == nil {
		subject = "claim/" + subject
	}
	return fmt.Sprintf("%s explain %s -n %s%s", t.Program, subject, w.Key().Namespace, t.Flags)
}

// NotPlaced returns one line per failed placement, to be printed beside output for programs.
func NotPlaced(c *cluster.Cluster, placements []*cluster.Placement) []string {
	var lines []string
	for _, p := range placements {
		if !p.Placed() {
			lines = append(lines, fmt.Sprintf("%s is not placed: %s", p.Workload, headline(c, p)))
		}
	}
	return lines
}

// headline returns the reason in one line, if it does not depend on the node.
func headline(c *cluster.Cluster, p *cluster.Placement) string {
	switch {
	case p.Err != nil:
		return diagnosis.Error(c, p)
	case p.Reason != "":
		return p.Reason
	case len(p.Refusals) == 0:
		return "there are no nodes"
	case p.Undecided() > 0:
		return fmt.Sprintf("it fits none of %s for certain, but %d could not be decided", Count(len(p.Refusals), "node"), p.Undecided())
	case len(p.Refusals) == 1:
		return "it does not fit node " + p.Refusals[0].Node
	}
	return fmt.Sprintf("it fits none of %d nodes", len(p.Refusals))
}

// line returns one sentence about a group of refused nodes.
func (t *explainer) line(group cluster.RefusalGroup, said groupCauses) string {
	nodes := fmt.Sprintf("%s (%s)", Count(len(group.Nodes), "node"), firstFew(group.Nodes))
	if group.Explanation == nil {
		return nodes + ": " + group.Summary
	}
	summary := t.conflict(group.Explanation, said.causes)
	switch {
	case said.figures:
		return nodes + ": " + summary
	case group.Uniform:
		return fmt.Sprintf("%s, with the figures of %s: %s", nodes, group.Closest, summary)
	}
	return fmt.Sprintf("%s; %s comes closest: %s", nodes, group.Closest, summary)
}

// conflict returns one sentence about the conflict.
func (t *explainer) conflict(e *explain.Explanation, core []Cause) string {
	if len(core) == 1 {
		line := core[0].line()
		for _, pool := range e.Pools {
			line += fmt.Sprintf("; pool %s cannot be used: %s", pool.Pool, pool.Incomplete+pool.Invalid)
		}
		return line
	}
	line := t.words.words(strings.TrimPrefix(e.Summary, "node "+e.Node+": "))
	// a conflict between several requests or constraints does not say what is missing
	if miss := t.words.words(e.NearestMiss); miss != "" {
		return line + "; nearest miss: " + miss
	}
	return line
}

// tally returns the summary line.
func tally(placements []*cluster.Placement) span {
	var pods, placedPods, claims, allocatedClaims int
	for _, p := range placements {
		all, placed := &claims, &allocatedClaims
		if p.Workload.Pod != nil {
			all, placed = &pods, &placedPods
		}
		*all++
		if p.Placed() {
			*placed++
		}
	}
	var parts []string
	if pods > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s placed", placedPods, Count(pods, "pod")))
	}
	if claims > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s without a pod allocated", allocatedClaims, Count(claims, "claim")))
	}
	text := strings.Join(parts, ", ") + "."
	if placedPods == pods && allocatedClaims == claims {
		return good(text)
	}
	return bad(text)
}
