package render

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/diagnosis"
)

// Cause is one request or constraint that is in conflict.
type Cause struct {
	// Text is a phrase such as "request gpu needs 2 devices; 1 of 4 that reach the node
	// can serve it".
	Text       string      `json:"text"`
	Rejections []Rejection `json:"rejections,omitempty"`
	// Hints are about names that nothing has.
	Hints []string `json:"hints,omitempty"`
	// Alternatives are those of a prioritized list.
	Alternatives []Cause `json:"alternatives,omitempty"`
}

// Rejection is devices that cannot serve a request for one reason.
type Rejection struct {
	Text string `json:"text"`
	// Details name holders, values, amounts and rules.
	Details []string `json:"details,omitempty"`
}

// agrees reports whether all that is said of the node that comes closest is true of each node
// of the group: values of attributes, holders, amounts.
func agrees(c *cluster.Cluster, p *cluster.Placement, group cluster.RefusalGroup, core []Cause) bool {
	for _, e := range group.Each {
		if e.Node == group.Closest {
			continue
		}
		there, _ := causes(c, p, e)
		if miss := group.Explanation.NearestMiss; miss != "" && e.NearestMiss != miss || !reflect.DeepEqual(there, core) {
			return false
		}
	}
	return true
}

// causes puts the core of an explanation, and what stands behind it, into words. It also
// returns the requests that are not in the way.
func causes(c *cluster.Cluster, p *cluster.Placement, e *explain.Explanation) (core, bystanders []Cause) {
	d := diagnosis.New(c, p, e)
	cited := make(map[string]bool)
	for _, item := range e.Core {
		cause := Cause{Text: ofClaim(c, p, item.Claim)}
		var reports []explain.RequestReport
		for _, report := range e.Requests {
			if item.Constraint == "" && item.Concerns(&report) {
				reports = append(reports, report)
				cited[report.Claim+" "+report.Request] = true
			}
		}
		switch {
		case item.Constraint != "" && item.Claim == "":
			cause.Text += item.Constraint + " across claims"
			cause.Hints = d.Constraint(item, e)
		case item.Capacity:
			cause.Text += item.Constraint
		case item.Constraint != "":
			cause.Text += fmt.Sprintf("constraints[%d]: %s", item.Position, item.Constraint)
			cause.Hints = d.Constraint(item, e)
		case len(reports) == 1 && reports[0].Request == item.Request:
			cause.Text += "request " + item.Request + " " + supply(e, reports[0])
			if alone := len(e.Core) == 1 && !reports[0].All; alone && reports[0].Candidates >= reports[0].Needed {
				cause.Text += rivalry(reports[0])
			}
			cause.Rejections = rejections(d, reports[0])
		default:
			cause.Text += "request " + item.Request + " accepts one of these"
			for _, report := range reports {
				cause.Alternatives = append(cause.Alternatives, Cause{Text: report.Request + " " + supply(e, report), Rejections: rejections(d, report)})
			}
		}
		core = append(core, cause)
	}
	if together := d.Together(e); together != "" {
		core[len(core)-1].Hints = append(core[len(core)-1].Hints, together)
	}
	for _, report := range e.Requests {
		if !cited[report.Claim+" "+report.Request] {
			text := ofClaim(c, p, report.Claim) + "request " + report.Request + " " + supply(e, report)
			bystanders = append(bystanders, Cause{Text: text, Rejections: rejections(d, report)})
		}
	}
	return core, bystanders
}

// ofClaim names a claim as the pod does, if there are several.
func ofClaim(c *cluster.Cluster, p *cluster.Placement, name string) string {
	if len(p.Before) > 1 {
		for _, claim := range p.Before {
			if claim.Namespace+"/"+claim.Name == name {
				return "claim " + c.NameInPod(p.Workload, claim) + ": "
			}
		}
	}
	return ""
}

// supply is what a request needs and how much there is.
func supply(e *explain.Explanation, report explain.RequestReport) string {
	need := "needs " + Count(report.Needed, "device")
	switch {
	case report.All && report.Needed == 0:
		need = "needs all matching devices"
	case report.All:
		need = fmt.Sprintf("needs all %d matching devices", report.Needed)
	case report.Totals != "":
		need = fmt.Sprintf("needs devices with %s in all", report.Totals)
	}
	switch {
	case report.Reachable == 0 && len(e.Pools) > 0:
		return need + ", and the pools of the node cannot be used"
	case report.Reachable == 0:
		return need + ", and no driver publishes a device for the node"
	case report.All && report.Needed == 0:
		return fmt.Sprintf("%s, and none of %d matches", need, report.Reachable)
	}
	return fmt.Sprintf("%s; %d of %d that reach the node can serve it", need, report.Candidates, report.Reachable)
}

// rivalry says why enough devices that can serve a request do not serve it together.
func rivalry(report explain.RequestReport) string {
	if report.Totals != "" {
		return ", but as many as it may have together have less"
	}
	return ", but not that many together: they draw on the same counters"
}

func rejections(d *diagnosis.Diagnosis, report explain.RequestReport) []Rejection {
	var list []Rejection
	for _, finding := range d.Request(report) {
		list = append(list, Rejection{finding.String(), finding.Details})
	}
	return list
}

// line is a cause in one sentence, without details.
func (c Cause) line() string {
	text := c.Text
	if len(c.Rejections) > 0 {
		phrases := make([]string, len(c.Rejections))
		for i, r := range c.Rejections {
			phrases[i] = r.Text
		}
		text += " (" + strings.Join(phrases, ", ") + ")"
	}
	if len(c.Alternatives) > 0 {
		lines := make([]string, len(c.Alternatives))
		for i, alternative := range c.Alternatives {
			lines[i] = alternative.line()
		}
		text += ": " + strings.Join(lines, "; ")
	}
	if len(c.Hints) > 0 {
		text += " (" + strings.Join(c.Hints, "; ") + ")"
	}
	return text
}

// cause prints a cause with its details, each on lines of its own.
func (t *Terminal) cause(indent int, bullet string, c Cause) {
	text := c.Text
	if len(c.Rejections)+len(c.Alternatives)+len(c.Hints) > 0 {
		text += ":"
	}
	t.Paragraph(indent, indent+2, bullet+text)
	for _, r := range c.Rejections {
		t.rejection(indent+4, r)
	}
	for _, hint := range c.Hints {
		t.Paragraph(indent+4, indent+6, hint)
	}
	for _, alternative := range c.Alternatives {
		t.cause(indent+2, "- ", alternative)
	}
}

func (t *Terminal) rejection(indent int, r Rejection) {
	if len(r.Details) == 1 {
		t.Paragraph(indent, indent+2, r.Text+": "+r.Details[0])
		return
	}
	if len(r.Details) > 1 {
		r.Text += ":"
	}
	t.Paragraph(indent, indent+2, r.Text)
	for _, detail := range r.Details {
		t.Paragraph(indent+2, indent+4, detail)
	}
}
