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

// APIVersion is that of the JSON and YAML that dray writes, but for objects of Kubernetes.
// Fields may be added within a version; docs/command-line.md describes them.
const APIVersion = "dray-project.github.io/v1alpha1"

// Answer is what dray explain says of a pod or claim.
type Answer struct {
	metav1.TypeMeta `json:",inline"`
	Subject         Subject `json:"subject"`
	// Settled says that there is nothing to allocate any more, and how it is.
	Settled string `json:"settled,omitempty"`
	// Before is how many workloads that come before it were placed first.
	Before int `json:"placedBefore"`
	// Node is where it goes, or is; empty if nowhere.
	Node string `json:"node,omitempty"`
	// Fits are all nodes to which it could go.
	Fits []string `json:"fits,omitempty"`
	// Missed are the preferred matches that the devices on Node would not have.
	Missed []cluster.Missed `json:"missed,omitempty"`
	// NotLookedAt names what else decides where the pod can go.
	NotLookedAt []string `json:"notLookedAt,omitempty"`
	// Undecided is how many nodes were given up: see --budget.
	Undecided int `json:"undecided,omitempty"`
	// Reason holds for all nodes. Error is about wrong input.
	Reason   string    `json:"reason,omitempty"`
	Error    string    `json:"error,omitempty"`
	Refusals []Refusal `json:"refusals,omitempty"`
	// Notes are about the input, such as slices for nodes that do not exist.
	Notes []string `json:"notes,omitempty"`
	// Claims are those of the pod, or the claim, as they would be in the end.
	Claims []*resourceapi.ResourceClaim `json:"claims,omitempty"`
	// Alike are other pods that are refused for the same reasons. Of several answers the first one
	// names them.
	Alike []string `json:"alike,omitempty"`

	asked     int
	headline  string
	placement *cluster.Placement
	reasons   reasons
}

// Subject is what an answer is about.
type Subject struct {
	Kind      string `json:"kind"` // Pod or ResourceClaim
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Refusal is nodes that are refused for the same reasons.
type Refusal struct {
	Count   int      `json:"count"`
	Nodes   []string `json:"nodes"`
	Summary string   `json:"summary"`
	// Uniform is set if the summary and the causes are true of each of the nodes. Otherwise
	// their figures are those of Closest, as those of the explanation always are, and their
	// details are summed up over the nodes.
	Uniform bool   `json:"uniform"`
	Closest string `json:"closest"`
	// Causes are the requests and constraints that are in conflict, with what stands behind
	// their figures.
	Causes      []Cause              `json:"causes,omitempty"`
	Explanation *explain.Explanation `json:"explanation,omitempty"`

	statement  string
	bystanders []Cause
}

// NewAnswer is the answer for a surveyed workload; before is how many were placed first.
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
	told := newTeller(c, p.Asked())
	var first said // of the nodes that come closest
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

// Headline is one line on why the workload is not placed, with what is in the way of the nodes that come closest. It
// is empty if it is placed.
func (a *Answer) Headline() string { return a.headline }

// AnswersDocument is answers for programs: one by itself, or a list.
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

// Allocated reports whether there are, or could be, devices.
func (a *Answer) Allocated() bool { return a.Node != "" || a.Settled != "" }

// SettledAnswer is the answer for what needs no allocation any more.
func SettledAnswer(w cluster.Workload, how string, claims []*resourceapi.ResourceClaim) *Answer {
	return settled(w, how, claims)
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

// Explain prints an answer for people, and where its phrases are explained if nodes refuse.
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

// why says why nodes refuse, and what is wrong with the input.
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

// sources names the templates that claims come from, because positions in an explanation
// are positions there.
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

// precedence says what was placed before, and in which order nodes are listed.
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

// refusal prints a group of nodes: who, what is in conflict, what comes closest. The
// figures of requests that are not in the way are left out unless all is set.
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

// Report explains one pod or claim that cannot be placed after the other, as soon as its answer is
// there, and counts the others. Pods that are refused for the same reasons are explained once, and named
// at the end: only figures of theirs may differ, since more is in use when their turn comes.
type Report struct {
	terminal    *Terminal
	cluster     *cluster.Cluster
	all, placed int
	explained   []*reported
	byReasons   map[reasons]*reported
	byPlacement map[*cluster.Placement]*reported
}

// reported is a pod that was explained, and those that are refused for the same reasons.
type reported struct {
	subject Subject
	alike   []string
}

// NewReport returns a Report that has printed nothing.
func (t *Terminal) NewReport(c *cluster.Cluster) *Report {
	return &Report{terminal: t, cluster: c, byReasons: make(map[reasons]*reported), byPlacement: make(map[*cluster.Placement]*reported)}
}

// AddPlaced counts what is placed or can be.
func (r *Report) AddPlaced() {
	r.all, r.placed = r.all+1, r.placed+1
	clear(r.byPlacement) // none later is like an earlier one
}

// Add explains why a workload was refused; before is how many were placed first.
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

// reasons is equal for pods that are refused for the same reasons.
type reasons [sha256.Size]byte

func reasonsOf(c *cluster.Cluster, p *cluster.Placement, groups []cluster.RefusalGroup) reasons {
	parts := []string{p.Question, headline(c, p)}
	for i := range groups {
		parts = append(parts, groups[i].Kind())
	}
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}

// End names the pods that were refused like others, sums up, and says where phrases are explained if there was a refusal.
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

// nameAlike fills in which of several pods are refused for the same reasons.
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
