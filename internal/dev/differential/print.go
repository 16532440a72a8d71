// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/dray-project/dray/internal/dev/clustergen"
)

// Print writes the distribution of the cases over tags and pairs of tags, the decisions
// and the slowest cases.
func (r *Report) Print(w io.Writer) {
	r.printHeader(w, "")
	r.printRow(w, "all cases", &r.all)
	for _, tag := range clustergen.AllTags() {
		r.printRow(w, string(tag), r.tags[tag])
	}
	fmt.Fprintln(w)
	r.printHeader(w, "pairs")
	for _, pair := range allPairs() {
		r.printRow(w, string(pair[0]+", "+pair[1]), r.pairs[pair])
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

func (r *Report) printHeader(w io.Writer, title string) {
	fmt.Fprintf(w, "%-46s %8s %7s %12s %14s %7s %10s\n", title, "cases", "", "satisfiable", "unsatisfiable", "errors", "went back")
}

func (r *Report) printRow(w io.Writer, name string, t *tally) {
	failed := t.classes[Failed] + t.classes[FailedOnNode]
	all := t.classes[Satisfiable] + t.classes[Unsatisfiable] + failed
	part := func(n int) string { return percent(n, all) }
	fmt.Fprintf(w, "%-46s %8d %7s %12s %14s %7s %10s\n", name, all, r.share(all),
		part(t.classes[Satisfiable]), part(t.classes[Unsatisfiable]), part(failed), part(t.back))
}

func (r *Report) share(n int) string { return percent(n, r.Cases) }

func percent(n, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(of))
}
