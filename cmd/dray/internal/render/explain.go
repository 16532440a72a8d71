// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"crypto/sha256"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/diagnosis"
)

// APIVersion is the version of dray's own JSON and YAML. Fields may be added within a version;
// docs/command-line.md describes them.
const APIVersion = "dray-project.github.io/v1alpha1"

// Answer is the result of dray explain for a pod or claim.
type Answer struct {
	metav1.TypeMeta `json:",inline"`
	Subject         Subject `json:"subject"`
	// Settled describes the state of a workload that needs no allocation. It is empty otherwise.
	Settled string `json:"settled,omitempty"`
	// Before is the number of workloads that were placed before this one.
	Before int `json:"placedBefore"`
	// Node is the node on which the workload is or can be placed, or empty.
	Node string `json:"node,omitempty"`
	// Fits are the nodes on which it can be placed.
	Fits []string `json:"fits,omitempty"`
	// Missed are the preferences that the devices on Node would not meet.
	Missed []cluster.Missed `json:"missed,omitempty"`
	// NotLookedAt are aspects of the pod that are not looked at, and that may affect placement.
	NotLookedAt []string `json:"notLookedAt,omitempty"`
	// Undecided is the number of nodes on which the search ran out of budget: see --budget.
	Undecided int `json:"undecided,omitempty"`
	// Reason is why it cannot be placed on any node. Error is an error of the input.
	Reason   string    `json:"reason,omitempty"`
	Error    string    `json:"error,omitempty"`
	Refusals []Refusal `json:"refusals,omitempty"`
	// Notes are problems of the input, such as slices for nodes that do not exist.
	Notes []string `json:"notes,omitempty"`
	// Claims are the claims of the pod, or the claim, in their final state.
	Claims []*resourceapi.ResourceClaim `json:"claims,omitempty"`
	// Alike are other pods that are refused for the same reasons. Of several answers, the first has
	// them.
	Alike []string `json:"alike,omitempty"`

	// bypassed says that a settled pod does not get its devices.
	bypassed  bool
	asked     int
	headline  string
	placement *cluster.Placement
	reasons   reasons
}

// Subject is the pod or claim of an answer.
type Subject struct {
	Kind      string `json:"kind"` // Pod or ResourceClaim
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Refusal is a group of nodes that are refused for the same reasons.
type Refusal struct {
	Count   int      `json:"count"`
	Nodes   []string `json:"nodes"`
	Summary string   `json:"summary"`
	// Uniform says that summary and causes apply to each of the nodes. Otherwise their figures are
	// those of Closest, and details are aggregated. The explanation is always that of Closest.
	Uniform bool   `json:"uniform"`
	Closest string `json:"closest"`
	// Causes are the requests and constraints in conflict, with details.
	Causes      []Cause              `json:"causes,omitempty"`
	Explanation *explain.Explanation `json:"explanation,omitempty"`

	statement  string
	bystanders []Cause
}

// NewAnswer returns the answer for a workload after Survey. before is the number of workloads that
// were placed before.
func NewAnswer(c *cluster.Cluster, p *cluster.Placement, before int) *Answer {
	return newAnswer(c, p, before, cluster.GroupRefusals(p.Refusals))
}

func newAnswer(c *cluster.Cluster, p *cluster.Placement, before int, groups []cluster.RefusalGroup) *Answer {
	a := settled(p.Workload, "", p.FinalClaims())
	a.Before = before
	a.Undecided = p.Undecided()
	a.Node, a.Fits, a.Reason, a.Missed = p.Node, p.Fits, p.Reason, p.Missed
	a.NotLookedAt = c.NotLookedAt(p.Workload.Pod)
	if p.Err != nil {
		a.Error = diagnosis.Error(c, p)
	}
	told := newExplainer(c, p.Asked())
	var first groupCauses // of the closest nodes
	for i, group := range groups {
		refusal := Refusal{
			Count: len(group.Nodes), Nodes: group.Nodes, Summary: group.Summary,
			Uniform: group.Uniform, Closest: group.Closest, Explanation: group.Explanation,
			statement: group.Statement,
		}
		if group.Explanation != nil {
			said := told.of(group)
			if i == 0 {
				first = said
			}
			refusal.Causes, refusal.bystanders = said.causes, said.bystanders
			refusal.Uniform = said.figures && said.details
			if group.Uniform && !said.figures {
				refusal.statement += ", with the figures of " + group.Closest
			}
		}
		a.Refusals = append(a.Refusals, refusal)
	}
	if !p.Placed() {
		a.Notes = diagnosis.Environment(c, p)
	}
	a.asked = len(p.Refusals) + len(p.Fits)
	a.placement, a.reasons = p, reasonsOf(c, p, groups)
	if !p.Placed() {
		a.headline = headline(c, p)
		if len(groups) > 0 {
			a.headline += "; " + told.line(groups[0], first)
		}
	}
	return a
}

// Headline returns one line on why the workload is not placed, with the conflict on the closest
// nodes. It is empty if the workload is placed.
func (a *Answer) Headline() string { return a.headline }

// AnswersDocument returns answers as a document: a single one, or a list.
func AnswersDocument(answers []*Answer, single bool) Document {
	nameAlike(answers)
	d := Document{}
	for _, a := range answers {
		d.Items = append(d.Items, a)
		kind := "pod/"
		if a.Subject.Kind != "Pod" {
			kind = "resourceclaim.resource.k8s.io/"
		}
		d.Names = append(d.Names, kind+a.Subject.Name)
	}
	if single && len(answers) == 1 {
		d.Value = answers[0]
		return d
	}
	if answers == nil {
		answers = []*Answer{}
	}
	d.Value = answerList{metav1.TypeMeta{APIVersion: APIVersion, Kind: "ExplanationList"}, answers}
	return d
}

type answerList struct {
	metav1.TypeMeta `json:",inline"`
	Items           []*Answer `json:"items"`
}

// Allocated reports whether devices are or can be allocated.
func (a *Answer) Allocated() bool { return !a.bypassed && (a.Node != "" || a.Settled != "") }

// SettledAnswer returns the answer for a workload that needs no allocation, or that was bypassed.
func SettledAnswer(w cluster.Workload, how string, bypassed bool, claims []*resourceapi.ResourceClaim) *Answer {
	a := settled(w, how, claims)
	a.bypassed = bypassed
	return a
}

func settled(w cluster.Workload, how string, claims []*resourceapi.ResourceClaim) *Answer {
	a := &Answer{
		TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: "Explanation"},
		Subject:  Subject{Kind: "ResourceClaim", Namespace: w.Key().Namespace, Name: w.Key().Name},
		Settled:  how,
	}
	if w.Pod != nil {
		a.Subject.Kind, a.Node = "Pod", w.Pod.Spec.NodeName
	}
	for _, claim := range claims {
		a.Claims = append(a.Claims, typedClaim(claim))
	}
	return a
}

// Guide is the page that explains the phrases of explanations.
const Guide = "https://github.com/dray-project/dray/blob/main/docs/pending.md"

// Explain prints an answer. If nodes refuse, it also prints a link to the guide.
func (t *Terminal) Explain(c *cluster.Cluster, a *Answer) {
	t.answer(c, a)
	if !a.Allocated() || len(a.Refusals) > 0 {
		t.Line("")
		t.guide()
	}
}

func (t *Terminal) guide() { t.spans(0, 2, faint("What this means: "+Guide)) }

func (t *Terminal) answer(c *cluster.Cluster, a *Answer) {
	subject := a.Subject.String()
	switch {
	case a.Settled != "":
		t.spans(0, 2, heading(subject), plain(" "+a.Settled+"."))
		t.allocated(a.Claims)
		return
	case a.Node != "":
		t.spans(0, 2, heading(subject), good(" can be placed"), plain(" on "+fitting(a)+"."))
	default:
		t.spans(0, 2, heading(subject), bad(" is not placed: "), plain(strings.TrimSuffix(headline(c, a.placement), ".")+"."))
	}
	if a.Error == "" {
		t.sources(c, a)
		t.precedence(a)
	}
	if a.Node != "" {
		t.Line("")
		t.Table([]string{"NODE", "REQUEST", "DEVICES"}, t.nodeRows(c, a))
	}
	if a.placement != nil {
		t.missed([]*cluster.Placement{a.placement})
	}
	t.why(c, a)
	if len(a.NotLookedAt) > 0 {
		t.Line("")
		t.Paragraph(0, 2, "Not looked at: "+strings.Join(a.NotLookedAt, ", ")+".")
	}
}

// why prints why nodes refuse, and problems of the input.
func (t *Terminal) why(c *cluster.Cluster, a *Answer) {
	w := newWording(c, a.placement.Asked())
	for _, refusal := range a.Refusals {
		t.Line("")
		t.refusal(w, refusal, a.asked == 1)
	}
	for _, note := range a.Notes {
		t.Line("")
		t.Paragraph(0, 2, "Note: "+sentence(note))
	}
}

// String is "Pod namespace/name".
func (s Subject) String() string { return s.Kind + " " + s.Namespace + "/" + s.Name }

// sources prints the templates of claims, since positions in an explanation refer to them.
func (t *Terminal) sources(c *cluster.Cluster, a *Answer) {
	for _, claim := range a.placement.Before {
		if source := c.Source(a.placement.Workload, claim); source != "" {
			t.spans(0, 2, faint(fmt.Sprintf("Claim %s is made from %s.", c.NameInPod(a.placement.Workload, claim), source)))
		}
	}
}

func fitting(a *Answer) string {
	if a.asked == 1 {
		return "node " + a.Node
	}
	if a.Node != a.Fits[0] {
		return fmt.Sprintf("%d of %d nodes; %s has most of what is preferred", len(a.Fits), a.asked, a.Node)
	}
	return fmt.Sprintf("%d of %d nodes; the first is %s", len(a.Fits), a.asked, a.Node)
}

// precedence prints what was placed before, and the order of nodes.
func (t *Terminal) precedence(a *Answer) {
	if a.Before > 0 {
		t.spans(0, 2, faint(fmt.Sprintf("Looked at after placing the %s before it; --alone leaves them out.", Count(a.Before, "workload"))))
	}
	if a.Node == "" && len(a.Refusals) > 1 {
		t.spans(0, 2, faint("Nodes that come closest are listed first."))
	}
}

func (t *Terminal) nodeRows(c *cluster.Cluster, a *Answer) [][]string {
	var rows [][]string
	for _, row := range t.requestRows(c, a.placement) {
		rows = append(rows, append([]string{a.Node}, row...))
	}
	if t.Folded {
		leaveOutRepeats(rows, 1)
	}
	return rows
}

func (t *Terminal) allocated(claims []*resourceapi.ResourceClaim) {
	var rows [][]string
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, row := range t.claimRows(claim) {
			rows = append(rows, []string{claim.Name, row[0], row[1]})
		}
	}
	if len(rows) > 0 {
		t.Line("")
		t.Table([]string{"CLAIM", "REQUEST", "DEVICES"}, rows)
	}
}

// refusal prints a group of nodes: their names, the conflict, and the nearest miss. The figures of
// requests without a conflict are printed only with all.
func (t *Terminal) refusal(w *wording, r Refusal, all bool) {
	nodes := fmt.Sprintf("%s (%s)", Count(r.Count, "node"), firstFew(r.Nodes))
	if r.Explanation == nil {
		t.spans(0, 2, heading(nodes), plain(": "+r.Summary))
		return
	}
	t.spans(0, 2, heading(nodes), plain(": "+r.statement+":"))
	for _, cause := range r.Causes {
		t.cause(2, "- ", cause)
	}
	if all {
		for _, cause := range r.bystanders {
			t.cause(2, "not in the way: ", cause)
		}
	}
	for _, pool := range r.Explanation.Pools {
		t.Paragraph(2, 4, fmt.Sprintf("pool %s cannot be used: %s", pool.Pool, pool.Incomplete+pool.Invalid))
	}
	if miss := w.words(r.Explanation.NearestMiss); miss != "" {
		t.Paragraph(2, 4, "nearest miss: "+miss)
	}
}

// Report prints explanations of workloads that cannot be placed, one after the other, and counts
// the others. Pods that are refused for the same reasons are explained once, and listed at the end.
// Only figures may differ between them, since more devices are in use later.
type Report struct {
	terminal    *Terminal
	cluster     *cluster.Cluster
	all, placed int
	explained   []*reported
	byReasons   map[reasons]*reported
	byPlacement map[*cluster.Placement]*reported
}

// reported is an explained pod, with the pods that are refused for the same reasons.
type reported struct {
	subject Subject
	alike   []string
}

// NewReport returns an empty Report.
func (t *Terminal) NewReport(c *cluster.Cluster) *Report {
	return &Report{terminal: t, cluster: c, byReasons: make(map[reasons]*reported), byPlacement: make(map[*cluster.Placement]*reported)}
}

// AddPlaced counts a workload that is placed or can be.
func (r *Report) AddPlaced() {
	r.all, r.placed = r.all+1, r.placed+1
	clear(r.byPlacement) // later placements do not refer to earlier ones
}

// AddBypassed tells of a pod that has a node, and does not get its devices there.
func (r *Report) AddBypassed(w cluster.Workload, how string) {
	r.all++
	r.terminal.Paragraph(0, 2, settled(w, how, nil).Subject.String()+" "+how+".")
	r.terminal.Line("")
}

// Add explains why a workload was refused. before is the number of workloads that were placed
// before.
func (r *Report) Add(p *cluster.Placement, before int) {
	r.all++
	if first := r.byPlacement[p.Like]; first != nil {
		first.alike = append(first.alike, p.Workload.String())
		return
	}
	groups := cluster.GroupRefusals(p.Refusals)
	key := reasonsOf(r.cluster, p, groups)
	if first := r.byReasons[key]; first != nil && p.Workload.Pod != nil {
		first.alike = append(first.alike, p.Workload.String())
		r.byPlacement[p] = first
		return
	}
	a := newAnswer(r.cluster, p, before, groups)
	if p.Workload.Pod != nil {
		one := &reported{subject: a.Subject}
		r.explained = append(r.explained, one)
		r.byReasons[key], r.byPlacement[p] = one, one
	}
	r.terminal.answer(r.cluster, a)
	r.terminal.Line("")
}

// reasons is a hash that is equal for pods that are refused for the same reasons.
type reasons [sha256.Size]byte

func reasonsOf(c *cluster.Cluster, p *cluster.Placement, groups []cluster.RefusalGroup) reasons {
	parts := []string{p.Question, headline(c, p)}
	for i := range groups {
		parts = append(parts, groups[i].Kind())
	}
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}

// End prints the pods that were refused for the same reasons, a summary, and a link to the guide if
// there was a refusal.
func (r *Report) End() {
	alike := false
	for _, one := range r.explained {
		if len(one.alike) == 0 {
			continue
		}
		names := firstFew(one.alike)
		if r.terminal.Wide {
			names = strings.Join(one.alike, ", ")
		}
		r.terminal.Paragraph(0, 2, fmt.Sprintf("For the same reasons as %s: %s (%s).", one.subject, Count(len(one.alike), "other pod"), names))
		alike = true
	}
	if alike {
		r.terminal.Line("")
	}
	r.terminal.Paragraph(0, 0, fmt.Sprintf("Placed, or can be placed: %d of %s.", r.placed, Count(r.all, "pod or claim")))
	if r.placed < r.all {
		r.terminal.guide()
	}
}

// nameAlike sets Alike of answers with the same reasons.
func nameAlike(answers []*Answer) {
	firsts := make(map[reasons]*Answer)
	for _, a := range answers {
		if a.Allocated() || a.placement.Workload.Pod == nil {
			continue
		}
		if first := firsts[a.reasons]; first != nil {
			first.Alike = append(first.Alike, a.placement.Workload.String())
		} else {
			firsts[a.reasons] = a
		}
	}
}
