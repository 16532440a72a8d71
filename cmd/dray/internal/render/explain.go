package render

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/cmd/dray/internal/cluster"
)

// Answer is what dray explain says of a pod or claim.
type Answer struct {
	Kind      string `json:"kind"` // Pod or ResourceClaim
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Settled says that there is nothing to allocate any more, and how it is.
	Settled string `json:"settled,omitempty"`
	// Before is how many workloads were placed first.
	Before int `json:"placedBefore"`
	// Node is where it goes, or is; empty if nowhere.
	Node string `json:"node,omitempty"`
	// Fits are all nodes to which it could go.
	Fits []string `json:"fits,omitempty"`
	// Undecided is how many nodes were given up: see --budget.
	Undecided int `json:"undecided,omitempty"`
	// Reason holds for all nodes. Error is about wrong input.
	Reason   string    `json:"reason,omitempty"`
	Error    string    `json:"error,omitempty"`
	Refusals []Refusal `json:"refusals,omitempty"`
	// Claims are those of the pod, or the claim, as they would be in the end.
	Claims []*resourceapi.ResourceClaim `json:"claims,omitempty"`

	asked     int
	placement *cluster.Placement
}

// Refusal is nodes that are refused for the same reasons.
type Refusal struct {
	Count   int      `json:"count"`
	Nodes   []string `json:"nodes"`
	Summary string   `json:"summary"`
	// Uniform is set if all nodes agree in the figures of the summary. Otherwise they
	// are those of Closest, as those of the explanation always are.
	Uniform     bool                   `json:"uniform"`
	Closest     string                 `json:"closest"`
	Explanation *allocator.Explanation `json:"explanation,omitempty"`

	statement string
}

// NewAnswer is the answer for a surveyed workload; before is how many were placed first.
func NewAnswer(p *cluster.Placement, before int) *Answer {
	a := settled(p.Workload, "", p.FinalClaims())
	a.Before = before
	a.Undecided = p.Undecided()
	a.Node, a.Fits, a.Reason = p.Node, p.Fits, p.Reason
	if p.Err != nil {
		a.Error = p.Err.Error()
	}
	for _, group := range cluster.GroupRefusals(p.Refusals) {
		a.Refusals = append(a.Refusals, Refusal{
			Count: len(group.Nodes), Nodes: group.Nodes, Summary: group.Summary,
			Uniform: group.Uniform, Closest: group.Closest, Explanation: group.Explanation,
			statement: group.Statement,
		})
	}
	a.asked = len(p.Refusals) + len(p.Fits)
	a.placement = p
	return a
}

// SettledAnswer is the answer for what needs no allocation any more.
func SettledAnswer(w cluster.Workload, how string, claims []*resourceapi.ResourceClaim) *Answer {
	return settled(w, how, claims)
}

func settled(w cluster.Workload, how string, claims []*resourceapi.ResourceClaim) *Answer {
	a := &Answer{Kind: "ResourceClaim", Namespace: w.Key().Namespace, Name: w.Key().Name, Settled: how}
	if w.Pod != nil {
		a.Kind, a.Node = "Pod", w.Pod.Spec.NodeName
	}
	for _, claim := range claims {
		a.Claims = append(a.Claims, typedClaim(claim))
	}
	return a
}

// Explain prints an answer for people.
func (t *Terminal) Explain(c *cluster.Cluster, a *Answer) {
	subject := fmt.Sprintf("%s %s/%s", a.Kind, a.Namespace, a.Name)
	switch {
	case a.Settled != "":
		t.Paragraph(0, 2, t.heading(subject)+" "+a.Settled+".")
		t.allocated(a.Claims)
		return
	case a.Node != "":
		t.Paragraph(0, 2, t.heading(subject)+t.good(" can be placed")+" on "+fitting(a)+".")
	default:
		t.Paragraph(0, 2, t.heading(subject)+t.bad(" is not placed: ")+headline(a.placement)+".")
	}
	t.precedence(a)
	if a.Node != "" {
		t.Line("")
		t.Table([]string{"NODE", "REQUEST", "DEVICES"}, nodeRows(c, a))
	}
	w := newWording(c, a.placement, t.Verbose)
	for _, refusal := range a.Refusals {
		t.Line("")
		t.refusal(w, refusal, a.asked == 1)
	}
}

func fitting(a *Answer) string {
	if a.asked == 1 {
		return "node " + a.Node
	}
	return fmt.Sprintf("%d of %d nodes; the first is %s", len(a.Fits), a.asked, a.Node)
}

// precedence says what was placed before, and in which order nodes are listed.
func (t *Terminal) precedence(a *Answer) {
	if a.Before > 0 {
		t.Line(t.faint(fmt.Sprintf("Looked at after placing the %s before it; --alone leaves them out.", Count(a.Before, "workload"))))
	}
	if a.Node == "" && len(a.Refusals) > 1 {
		t.Line(t.faint("Nodes that come closest are listed first."))
	}
}

func nodeRows(c *cluster.Cluster, a *Answer) [][]string {
	var rows [][]string
	node := a.Node
	for _, row := range requestRows(c, a.placement) {
		rows = append(rows, append([]string{node}, row...))
		node = ""
	}
	return rows
}

func (t *Terminal) allocated(claims []*resourceapi.ResourceClaim) {
	var rows [][]string
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, row := range ClaimRows(claim) {
			rows = append(rows, []string{claim.Name, row[0], row[1]})
		}
	}
	if len(rows) > 0 {
		t.Line("")
		t.Table([]string{"CLAIM", "REQUEST", "DEVICES"}, rows)
	}
}

// refusal prints a group of nodes: who, what is in conflict, what comes closest. The
// figures of requests that are not in the way are left out unless all is set.
func (t *Terminal) refusal(w *wording, r Refusal, all bool) {
	nodes := fmt.Sprintf("%s (%s)", Count(r.Count, "node"), firstFew(r.Nodes))
	if r.Explanation == nil {
		t.Paragraph(0, 2, t.heading(nodes)+": "+r.Summary)
		return
	}
	t.Paragraph(0, 2, t.heading(nodes)+": "+r.statement+":")
	for _, item := range r.Explanation.Core {
		t.Paragraph(2, 4, "- "+w.words(r.Explanation, ofClaim(r.Explanation, item.Claim)+itemText(item)))
	}
	if all {
		t.bystanders(w, r.Explanation)
	}
	for _, pool := range r.Explanation.Pools {
		t.Paragraph(2, 4, fmt.Sprintf("pool %s cannot be used: %s", pool.Pool, pool.Incomplete+pool.Invalid))
	}
	if miss := w.words(r.Explanation, r.Explanation.NearestMiss); miss != "" {
		t.Paragraph(2, 4, "nearest miss: "+miss)
	}
}

// itemText says where a constraint stands the way the API does.
func itemText(item allocator.CoreItem) string {
	if item.Constraint == "" {
		return item.Text
	}
	return fmt.Sprintf("constraints[%d]: %s", item.Position, item.Constraint)
}

// ofClaim names a claim if there are several.
func ofClaim(e *allocator.Explanation, claim string) string {
	for _, request := range e.Requests {
		if request.Claim != claim {
			return "claim " + claim + ": "
		}
	}
	return ""
}

func (t *Terminal) bystanders(w *wording, e *allocator.Explanation) {
	for _, request := range e.Requests {
		if !cited(e, request) {
			figures := fmt.Sprintf("%srequest %s: %s", ofClaim(e, request.Claim), request.Request, request)
			t.Paragraph(2, 4, "not in the way: "+w.words(e, figures))
		}
	}
}

// cited reports whether the request is in conflict: then its figures are part of that.
func cited(e *allocator.Explanation, r allocator.RequestReport) bool {
	return slices.ContainsFunc(e.Core, func(item allocator.CoreItem) bool { return item.Concerns(&r) })
}
