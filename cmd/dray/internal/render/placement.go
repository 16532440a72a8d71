package render

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
)

// Placements prints what goes where, why the rest does not, and a summary.
func (t *Terminal) Placements(c *cluster.Cluster, placements []*cluster.Placement) {
	if len(placements) == 0 {
		t.Line("Nothing to allocate: no pending pod uses claims, and no claim is unallocated.")
		return
	}
	t.Table([]string{"POD/CLAIM", "NODE", "REQUEST", "DEVICES"}, t.placementRows(c, placements))
	t.refused(c, placements)
	t.Line("")
	t.Paragraph(0, 0, t.tally(placements))
}

func (t *Terminal) placementRows(c *cluster.Cluster, placements []*cluster.Placement) [][]string {
	var rows [][]string
	for _, p := range placements {
		if !p.Placed() {
			rows = append(rows, []string{p.Workload.String(), t.bad("-"), "", t.bad("not placed")})
			continue
		}
		first := []string{p.Workload.String(), p.Node}
		for _, row := range requestRows(c, p) {
			rows = append(rows, append(first, row...))
			first = []string{"", ""}
		}
	}
	return rows
}

// requestRows has request and devices of each request of all claims.
func requestRows(c *cluster.Cluster, p *cluster.Placement) [][]string {
	var rows [][]string
	for _, claim := range p.Claims {
		prefix := ""
		if len(p.Claims) > 1 {
			prefix = c.NameInPod(p.Workload, claim) + ": "
		}
		for _, row := range ClaimRows(claim) {
			rows = append(rows, []string{prefix + row[0], row[1]})
		}
	}
	if len(rows) == 0 {
		rows = [][]string{{"", "(no devices needed)"}}
	}
	return rows
}

// ClaimRows has request and devices of each request of an allocated claim.
func ClaimRows(claim *resourceapi.ResourceClaim) [][2]string {
	var rows [][2]string
	results := claim.Status.Allocation.Devices.Results
	for start := 0; start < len(results); {
		end := start + 1
		for end < len(results) && results[end].Request == results[start].Request {
			end++
		}
		rows = append(rows, [2]string{results[start].Request, Devices(results[start:end])})
		start = end
	}
	return rows
}

func (t *Terminal) refused(c *cluster.Cluster, placements []*cluster.Placement) {
	for _, p := range placements {
		if p.Placed() {
			continue
		}
		t.Line("")
		t.Paragraph(0, 2, t.heading(p.Workload.String())+t.bad(" is not placed: "+headline(p)))
		const most = 4
		groups := cluster.GroupRefusals(p.Refusals)
		w := newWording(c, p, t.Verbose)
		for _, group := range groups[:min(most, len(groups))] {
			t.Paragraph(2, 4, groupLine(w, group))
		}
		if len(groups) > most {
			t.Paragraph(2, 4, fmt.Sprintf("and %s for other reasons", Count(remaining(groups[most:]), "node")))
		}
		if p.Err == nil && p.Reason == "" {
			t.Paragraph(2, 4, "See: "+t.explainCommand(p.Workload))
		}
	}
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

// NotPlaced is one line per placement that failed, for output which is not for people.
func NotPlaced(placements []*cluster.Placement) []string {
	var lines []string
	for _, p := range placements {
		if !p.Placed() {
			lines = append(lines, fmt.Sprintf("%s is not placed: %s", p.Workload, headline(p)))
		}
	}
	return lines
}

// headline is the reason in one line, as far as it does not depend on the node.
func headline(p *cluster.Placement) string {
	switch {
	case p.Err != nil && p.Origin != "":
		return fmt.Sprintf("%v (read from %s)", p.Err, p.Origin)
	case p.Err != nil:
		return p.Err.Error()
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

// groupLine is one sentence on nodes that are refused alike.
func groupLine(w *wording, group cluster.RefusalGroup) string {
	nodes := Count(len(group.Nodes), "node")
	summary := group.Summary
	if group.Explanation != nil {
		summary = w.words(group.Explanation, summary)
		// A conflict between several parts does not say what is missing.
		if miss := w.words(group.Explanation, group.Explanation.NearestMiss); miss != "" && len(group.Explanation.Core) > 1 {
			summary += "; nearest miss: " + miss
		}
	}
	if group.Uniform {
		return fmt.Sprintf("%s (%s): %s", nodes, firstFew(group.Nodes), summary)
	}
	return fmt.Sprintf("%s (%s); %s comes closest: %s", nodes, firstFew(group.Nodes), group.Closest, summary)
}

// tally is the summary line.
func (t *Terminal) tally(placements []*cluster.Placement) string {
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
		return t.good(text)
	}
	return t.bad(text)
}
