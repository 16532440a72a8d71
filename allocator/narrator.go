package allocator

import (
	"fmt"
	"strings"
)

// narrator puts an explanation into words.
type narrator struct {
	in          *instance
	inspections map[*alternative]*inspection
	core        []part
	explanation *Explanation
}

func (n *narrator) coreItems() []CoreItem {
	var items []CoreItem
	for _, p := range n.core {
		c := &n.in.problem.claims[p.claim]
		item := CoreItem{Claim: c.ref(), Position: p.position}
		if p.constraint {
			item.Constraint = c.constraints[p.position].String()
			item.Text = fmt.Sprintf("constraint %d: %s", p.position, item.Constraint)
		} else {
			item.Request = c.requests[p.position].name
			item.Text = n.requestText(&c.requests[p.position])
		}
		items = append(items, item)
	}
	return items
}

// requestText describes what a request needs and what there is for it.
func (n *narrator) requestText(r *request) string {
	if !r.prioritized {
		return fmt.Sprintf("request %s %s", r.name, n.supply(r.alternatives[0]))
	}
	var options []string
	for _, alt := range r.alternatives {
		options = append(options, fmt.Sprintf("%s %s", alt.name, n.supply(alt)))
	}
	return fmt.Sprintf("request %s accepts: %s", r.name, strings.Join(options, "; "))
}

func (n *narrator) supply(alt *alternative) string {
	report := n.inspections[alt].report
	need := "needs " + count(report.Needed, "device")
	switch {
	case alt.all && report.Needed == 0:
		return "needs all matching devices, and none matches" + because(report)
	case alt.all:
		need = fmt.Sprintf("needs all %d matching devices", report.Needed)
	}
	if report.Reachable == 0 {
		return need + ", and no device of a usable pool reaches the node"
	}
	return fmt.Sprintf("%s; %d of %d that reach the node can serve it%s", need, report.Candidates, report.Reachable, because(report))
}

func because(report RequestReport) string {
	if len(report.Rejections) == 0 {
		return ""
	}
	var reasons []string
	for _, r := range report.Rejections {
		reasons = append(reasons, r.String())
	}
	return " (" + strings.Join(reasons, ", ") + ")"
}

// String is a phrase such as "3 in use".
func (r Rejection) String() string { return fmt.Sprintf("%d %s", r.Devices, r.phrase()) }

// phrase is String without the number.
func (r Rejection) phrase() string {
	phrase := map[RejectionReason]string{
		RejectedByUse:            "in use",
		RejectedByBinding:        "with binding conditions: %s",
		RejectedBySelector:       "rejected by %s",
		RejectedByNode:           "for other nodes",
		RejectedByCapacity:       "without the capacity: %s",
		RejectedByNodeOperations: "that skip node operations: %s",
		RejectedByGroup:          "of other compatibility groups",
		RejectedByCounter:        "short of counters (%s)",
		RejectedByTaint:          "tainted %s",
	}[r.Reason]
	return strings.ReplaceAll(phrase, "%s", r.Detail)
}

func (n *narrator) summary() string {
	var sentence strings.Builder
	fmt.Fprintf(&sentence, "node %s: %s", n.in.node.Name, n.conflict())
	for _, p := range n.explanation.Pools {
		fmt.Fprintf(&sentence, "; pool %s cannot be used: %s", p.Pool, p.Incomplete+p.Invalid)
	}
	return sentence.String()
}

// conflict words the core: one request by what it lacks, several parts by name.
func (n *narrator) conflict() string {
	items := n.explanation.Core
	switch len(items) {
	case 0:
		return "the claims cannot be allocated"
	case 1:
		return fmt.Sprintf("claim %s: %s%s", items[0].Claim, items[0].Text, n.rivalry(n.core[0]))
	}
	var names []string
	for i, p := range n.core {
		names = append(names, n.partName(p, items[i]))
	}
	return fmt.Sprintf("%s and %s cannot be had together", strings.Join(names[:len(names)-1], ", "), names[len(names)-1])
}

// rivalry explains how a request can fail by itself though there are candidates.
func (n *narrator) rivalry(p part) string {
	if p.constraint {
		return ""
	}
	r := &n.in.problem.claims[p.claim].requests[p.position]
	report := n.inspections[r.alternatives[0]].report
	if r.prioritized || report.All || report.Candidates < report.Needed {
		return ""
	}
	return ", but not that many together: they draw on the same counters"
}

// partName is short, and names the claim only where there are several.
func (n *narrator) partName(p part, item CoreItem) string {
	name := item.Constraint
	if !p.constraint {
		r := &n.in.problem.claims[p.claim].requests[p.position]
		name = "request " + r.name
		if !r.prioritized {
			report := n.inspections[r.alternatives[0]].report
			name = fmt.Sprintf("request %s (%s, %s)", r.name, count(report.Needed, "device"), count(report.Candidates, "candidate"))
		}
	}
	if len(n.in.problem.claims) > 1 {
		name += " of claim " + item.Claim
	}
	return name
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
