// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/diagnosis"
)

// Cause is a request or constraint that is in conflict.
type Cause struct {
	// Text is a phrase such as "request gpu needs 2 devices; 1 of 4 that reach the node
	// can serve it".
	Text       string      `json:"text"`
	Rejections []Rejection `json:"rejections,omitempty"`
	// Hints are about names that do not exist.
	Hints []string `json:"hints,omitempty"`
	// Alternatives are the alternatives of a prioritized list.
	Alternatives []Cause `json:"alternatives,omitempty"`

	hints []diagnosis.Detail
}

// Rejection is a group of devices that cannot serve a request, for one reason.
type Rejection struct {
	Text string `json:"text"`
	// Details name holders, values, amounts and rules. If nodes differ, they are aggregated.
	Details []string `json:"details,omitempty"`

	phrase  string // Text without the number of devices
	details []diagnosis.Detail
}

// explainer puts explanations of a placement into words.
type explainer struct {
	cluster   *cluster.Cluster
	placement *cluster.Placement
	words     *wording
	diagnosis *diagnosis.Diagnosis
}

func newExplainer(c *cluster.Cluster, p *cluster.Placement) *explainer {
	return &explainer{c, p, newWording(c, p), diagnosis.New(c, p)}
}

// groupCauses has the causes of a group of nodes.
type groupCauses struct {
	causes, bystanders []Cause
	// figures says that the numbers in the causes, and the nearest miss, are equal on all nodes.
	// Otherwise they are those of the closest node.
	figures bool
	// details says that the details are equal on all nodes. Otherwise they are aggregated.
	details bool
}

// of returns the causes of a group. They are empty if devices are not the reason.
func (t *explainer) of(group cluster.RefusalGroup) groupCauses {
	var s groupCauses
	if group.Explanation == nil {
		return s
	}
	t.diagnosis.At(group.Closest)
	s.causes, s.bystanders = t.causes(group.Explanation)
	s.figures = group.Uniform
	miss := group.Explanation.NearestMiss
	for _, member := range group.Members {
		nodes := member.Nodes
		if t.diagnosis.Brief && !hasHints(s.causes) {
			nodes = nodes[:1] // the other nodes have the same figures
		}
		for _, node := range nodes {
			if node == group.Closest {
				continue
			}
			t.diagnosis.At(node)
			others, _ := t.causes(member.Explanation)
			s.figures = s.figures && (miss == "" || member.Explanation.NearestMiss == miss) && sameFigures(s.causes, others)
			s.causes = addCauses(s.causes, others, group.Closest)
		}
	}
	s.details = fillTexts(s.causes)
	fillTexts(s.bystanders)
	return s
}

func hasHints(causes []Cause) bool {
	return slices.ContainsFunc(causes, func(c Cause) bool { return len(c.hints) > 0 })
}

// sameFigures reports whether causes are equal except for details.
func sameFigures(a, b []Cause) bool {
	return slices.EqualFunc(a, b, func(a, b Cause) bool {
		return a.Text == b.Text && sameFigures(a.Alternatives, b.Alternatives) &&
			slices.EqualFunc(a.Rejections, b.Rejections, func(a, b Rejection) bool { return a.Text == b.Text })
	})
}

// addCauses adds the details of another node.
func addCauses(causes, others []Cause, first string) []Cause {
	for i := range causes {
		cause, other := &causes[i], Cause{}
		if i < len(others) {
			other = others[i]
		}
		cause.hints = diagnosis.Add(cause.hints, other.hints, first)
		cause.Alternatives = addCauses(cause.Alternatives, other.Alternatives, first)
		for k := range cause.Rejections {
			of := &cause.Rejections[k]
			var details []diagnosis.Detail
			if at := slices.IndexFunc(other.Rejections, func(r Rejection) bool { return r.phrase == of.phrase }); at >= 0 {
				details = other.Rejections[at].details
			}
			of.details = diagnosis.Add(of.details, details, first)
		}
	}
	return causes
}

// fillTexts sets the texts of details and hints. It reports whether they are equal on all nodes.
func fillTexts(causes []Cause) bool {
	same := true
	for i := range causes {
		cause := &causes[i]
		var one bool
		cause.Hints, one = sentences(cause.hints)
		same = fillTexts(cause.Alternatives) && one && same
		for k := range cause.Rejections {
			cause.Rejections[k].Details, one = sentences(cause.Rejections[k].details)
			same = same && one
		}
	}
	return same
}

func sentences(details []diagnosis.Detail) (texts []string, same bool) {
	same = true
	for _, detail := range details {
		texts = append(texts, detail.String())
		same = same && !detail.Differs()
	}
	return texts, same
}

// causes returns the causes for the core of an explanation, with details of the diagnosed node.
// bystanders has the other requests.
func (t *explainer) causes(e *explain.Explanation) (core, bystanders []Cause) {
	cited := make(map[string]bool)
	for _, item := range e.Core {
		cause := Cause{Text: t.ofClaim(item.Claim)}
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
			cause.hints = t.diagnosis.Constraint(item, e)
		case item.Capacity:
			cause.Text += item.Constraint
		case item.Constraint != "":
			cause.Text += fmt.Sprintf("constraints[%d]: %s", item.Position, item.Constraint)
			cause.hints = t.diagnosis.Constraint(item, e)
		case len(reports) == 1 && reports[0].Request == item.Request:
			cause.Text += "request " + item.Request + " " + supply(e, reports[0])
			if alone := len(e.Core) == 1 && !reports[0].All; alone && reports[0].Candidates >= reports[0].Needed {
				cause.Text += rivalry(reports[0])
			}
			cause.Rejections = t.rejections(reports[0])
		default:
			cause.Text += "request " + item.Request + " accepts one of these"
			for _, report := range reports {
				cause.Alternatives = append(cause.Alternatives, Cause{Text: report.Request + " " + supply(e, report), Rejections: t.rejections(report)})
			}
		}
		core = append(core, cause)
	}
	if together := t.diagnosis.Together(e); together != nil {
		core[len(core)-1].hints = append(core[len(core)-1].hints, *together)
	}
	for _, report := range e.Requests {
		if !cited[report.Claim+" "+report.Request] {
			text := t.ofClaim(report.Claim) + "request " + report.Request + " " + supply(e, report)
			bystanders = append(bystanders, Cause{Text: text, Rejections: t.rejections(report)})
		}
	}
	return core, bystanders
}

// ofClaim returns a prefix with the claim's name in the pod, if there are several claims.
func (t *explainer) ofClaim(name string) string {
	if len(t.placement.Before) > 1 {
		for _, claim := range t.placement.Before {
			if claim.Namespace+"/"+claim.Name == name {
				return "claim " + t.cluster.NameInPod(t.placement.Workload, claim) + ": "
			}
		}
	}
	return ""
}

// supply returns a phrase with the number of devices that a request needs, and of those that can
// serve it.
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

// rivalry returns why the devices that can serve a request cannot serve it together.
func rivalry(report explain.RequestReport) string {
	if report.Totals != "" {
		return ", but as many as it may have together have less"
	}
	return ", but not that many together: they draw on the same counters"
}

func (t *explainer) rejections(report explain.RequestReport) []Rejection {
	var list []Rejection
	for _, finding := range t.diagnosis.Request(report) {
		list = append(list, Rejection{Text: finding.String(), phrase: finding.Phrase, details: finding.Details})
	}
	return list
}

// line returns the cause as one sentence without details.
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

// cause prints a cause, and its details on separate lines.
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
