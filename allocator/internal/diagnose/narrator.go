package diagnose

import (
	"fmt"
	"strings"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/model"
)

// narrator puts an explanation into words.
type narrator struct {
	in          *model.Instance
	inspections map[*claims.Alternative]*inspection
	core        []claims.Part
	explanation *explain.Explanation
}

// request is the one that a part is.
func (n *narrator) request(p claims.Part) *claims.Request {
	return &n.in.Problem.Claims[p.Claim].Requests[p.Position]
}

func (n *narrator) coreItems() []explain.CoreItem {
	var items []explain.CoreItem
	for _, p := range n.core {
		if p.Constraint {
			items = append(items, n.constraintItem(p))
			continue
		}
		r := n.request(p)
		items = append(items, explain.CoreItem{
			Claim: n.in.Problem.Claims[p.Claim].Ref(), Position: p.Position, Request: r.Name, Text: n.requestText(r),
		})
	}
	return items
}

func (n *narrator) constraintItem(p claims.Part) explain.CoreItem {
	constraint := &n.in.Problem.Constraints[p.Position]
	item := explain.CoreItem{Constraint: constraint.String(), Attribute: string(constraint.Attribute), Position: constraint.Position}
	if p.Claim == claims.AcrossClaims {
		item.Text = item.Constraint + " across claims"
		return item
	}
	item.Claim = n.in.Problem.Claims[p.Claim].Ref()
	if constraint.Capacity {
		item.Text, item.Capacity = item.Constraint, true
		return item
	}
	item.Text = fmt.Sprintf("constraint %d: %s", item.Position, item.Constraint)
	return item
}

// requestText describes what a request needs and what there is for it.
func (n *narrator) requestText(r *claims.Request) string {
	if !r.Prioritized {
		return fmt.Sprintf("request %s %s", r.Name, n.supply(r.Least()))
	}
	var options []string
	for _, alt := range r.Alternatives {
		if alt.Extra {
			continue
		}
		options = append(options, fmt.Sprintf("%s %s", alt.Name, n.supply(alt)))
	}
	return fmt.Sprintf("request %s accepts: %s", r.Name, strings.Join(options, "; "))
}

func (n *narrator) supply(alt *claims.Alternative) string {
	report := n.inspections[alt].report
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

func (n *narrator) summary() string {
	var sentence strings.Builder
	fmt.Fprintf(&sentence, "node %s: %s", n.in.Node.Object.Name, n.conflict())
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
		if items[0].Claim == "" {
			return items[0].Text
		}
		return fmt.Sprintf("claim %s: %s%s", items[0].Claim, items[0].Text, n.rivalry(n.core[0]))
	}
	var names []string
	for i, p := range n.core {
		names = append(names, n.partName(p, items[i]))
	}
	return fmt.Sprintf("%s and %s are in conflict", strings.Join(names[:len(names)-1], ", "), names[len(names)-1])
}

// rivalry explains how a request can fail by itself though there are candidates.
func (n *narrator) rivalry(p claims.Part) string {
	if p.Constraint {
		return ""
	}
	r := n.request(p)
	report := n.inspections[r.Least()].report
	if r.Prioritized || report.All || report.Candidates < report.Needed {
		return ""
	}
	if report.Totals != "" {
		return ", but as many as it may have together have less"
	}
	return ", but not that many together: they draw on the same counters"
}

// partName is short, and names the claim only where there are several.
func (n *narrator) partName(p claims.Part, item explain.CoreItem) string {
	name := item.Constraint
	if !p.Constraint {
		r := n.request(p)
		name = "request " + r.Name
		if !r.Prioritized {
			report := n.inspections[r.Least()].report
			name = fmt.Sprintf("request %s (%s, %s)", r.Name, explain.Count(report.Needed, "device"), explain.Count(report.Candidates, "candidate"))
		}
	}
	switch {
	case p.Claim == claims.AcrossClaims:
		name += " across claims"
	case len(n.in.Problem.Claims) > 1:
		name += " of claim " + item.Claim
	}
	return name
}
