// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/clustergen"
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

	all   tally
	tags  map[clustergen.Tag]*tally
	pairs map[pair]*tally
}

// tally counts cases by the class of their answer, and those in which the peer's search
// went back.
type tally struct {
	classes map[Class]int
	back    int
}

// pair is two tags, in the order of clustergen.PairTags.
type pair [2]clustergen.Tag

func (t *tally) add(class Class, back bool) {
	if t.classes == nil {
		t.classes = make(map[Class]int)
	}
	t.classes[class]++
	if back {
		t.back++
	}
}

// Disagreement is a case on which we are wrong.
type Disagreement struct {
	Case    *alloctest.Case
	Verdict Verdict
	// Turns is the sequence in which the case occurred, nil if it stands alone.
	Turns *WrongTurn
}

// Timed is how long we took for a case.
type Timed struct {
	Case string
	Time time.Duration
}

func newReport() *Report {
	r := &Report{
		Decided: make(map[string]int), Classes: make(map[Class]int),
		tags: make(map[clustergen.Tag]*tally), pairs: make(map[pair]*tally),
	}
	for _, tag := range clustergen.AllTags() {
		r.tags[tag] = &tally{}
	}
	for _, pair := range allPairs() {
		r.pairs[pair] = &tally{}
	}
	return r
}

func allPairs() []pair {
	var pairs []pair
	tags := clustergen.PairTags()
	for i, first := range tags {
		for _, second := range tags[i+1:] {
			pairs = append(pairs, pair{first, second})
		}
	}
	return pairs
}

func (r *Report) add(result compared) {
	c, v := result.c, result.verdict
	r.Cases++
	class := v.Class()
	r.Classes[class]++
	r.distribute(c, class, v.PeerTimeout || wentBack(c, v.Peer))
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
			r.Disagreed = append(r.Disagreed, Disagreement{c, v, result.wrong})
		}
	}
}

func (r *Report) distribute(c *alloctest.Case, class Class, back bool) {
	r.all.add(class, back)
	has := make(map[clustergen.Tag]bool)
	for _, tag := range clustergen.Tags(c) {
		has[tag] = true
		r.tags[tag].add(class, back)
	}
	for pair, tally := range r.pairs {
		if has[pair[0]] && has[pair[1]] {
			tally.add(class, back)
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
