package differential

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/clustergen"
)

// keptDisagreements bounds how many cases a report holds on to.
const keptDisagreements = 10

// Report counts verdicts. It is not safe for concurrent use.
type Report struct {
	Cases, Disagreements, PeerTimeouts int
	// Decided counts cases by the decision that excuses the difference.
	Decided map[string]int
	Classes map[Class]int
	// Disagreed are the first cases with a disagreement.
	Disagreed []Disagreement
	// Over counts the cases that we took longer than Slow for; Slowest are those that
	// took longest, longest first.
	Over    int
	Slowest []Timed

	tags map[clustergen.Tag]map[Class]int
}

// Disagreement is a case on which we are wrong.
type Disagreement struct {
	Case    *alloctest.Case
	Verdict Verdict
}

// Timed is how long we took for a case.
type Timed struct {
	Case string
	Time time.Duration
}

func newReport() *Report {
	return &Report{Decided: make(map[string]int), Classes: make(map[Class]int), tags: make(map[clustergen.Tag]map[Class]int)}
}

func (r *Report) add(c *alloctest.Case, v Verdict) {
	r.Cases++
	class := v.Class()
	r.Classes[class]++
	for _, tag := range clustergen.Tags(c) {
		if r.tags[tag] == nil {
			r.tags[tag] = make(map[Class]int)
		}
		r.tags[tag][class]++
	}
	if v.PeerTimeout {
		r.PeerTimeouts++
	}
	if v.Decision != "" {
		r.Decided[v.Decision]++
	}
	r.time(Timed{c.Name, v.OurTime})
	if v.Disagreement != "" {
		r.Disagreements++
		if len(r.Disagreed) < keptDisagreements {
			r.Disagreed = append(r.Disagreed, Disagreement{c, v})
		}
	}
}

// keptSlowest is how many of the slowest cases a report names.
const keptSlowest = 5

func (r *Report) time(t Timed) {
	if t.Time > Slow {
		r.Over++
	}
	at, _ := slices.BinarySearchFunc(r.Slowest, t, func(a, b Timed) int { return cmp.Compare(b.Time, a.Time) })
	if at < keptSlowest {
		r.Slowest = slices.Insert(r.Slowest, at, t)
		r.Slowest = r.Slowest[:min(len(r.Slowest), keptSlowest)]
	}
}

func (r *Report) slowest() time.Duration {
	if len(r.Slowest) == 0 {
		return 0
	}
	return r.Slowest[0].Time
}

// Summary is the line that a run ends with. Errors include those of single nodes.
// Cases that the peer did not decide in time count by our answer.
func (r *Report) Summary() string {
	decided := 0
	for _, count := range r.Decided {
		decided += count
	}
	return fmt.Sprintf("differential: cases=%d disagreements=%d decided-differently=%d peer-timeouts=%d satisfiable=%d unsatisfiable=%d errors=%d slowest=%s over-10ms=%d",
		r.Cases, r.Disagreements, decided, r.PeerTimeouts, r.Classes[Satisfiable], r.Classes[Unsatisfiable],
		r.Classes[Failed]+r.Classes[FailedOnNode], r.slowest().Round(time.Microsecond), r.Over)
}

// Print writes the distribution of the cases, the decisions and the slowest case.
func (r *Report) Print(w io.Writer) {
	fmt.Fprintf(w, "%-28s %8s %7s %12s %14s %7s\n", "", "cases", "", "satisfiable", "unsatisfiable", "errors")
	r.printRow(w, "all cases", r.Classes)
	for _, tag := range clustergen.AllTags() {
		r.printRow(w, string(tag), r.tags[tag])
	}
	fmt.Fprintln(w)
	for _, number := range slices.SortedFunc(maps.Keys(r.Decided), cmp.Compare) {
		fmt.Fprintf(w, "decided differently by docs/decisions/%s: %d (%s)\n", number, r.Decided[number], r.share(r.Decided[number]))
	}
	fmt.Fprintf(w, "errors of single nodes: %d\n", r.Classes[FailedOnNode])
	for _, t := range r.Slowest {
		fmt.Fprintf(w, "our slowest cases: %s in %s\n", t.Case, t.Time.Round(time.Microsecond))
	}
}

func (r *Report) printRow(w io.Writer, name string, classes map[Class]int) {
	failed := classes[Failed] + classes[FailedOnNode]
	all := classes[Satisfiable] + classes[Unsatisfiable] + failed
	part := func(n int) string { return percent(n, all) }
	fmt.Fprintf(w, "%-28s %8d %7s %12s %14s %7s\n", name, all, r.share(all),
		part(classes[Satisfiable]), part(classes[Unsatisfiable]), part(failed))
}

func (r *Report) share(n int) string { return percent(n, r.Cases) }

func percent(n, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(of))
}
