// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Progress returns a function that says at each interval how far a run of so many cases
// is, and at once what disagreements there are.
func Progress(w io.Writer, cases int, interval time.Duration) func(*Report) {
	start := time.Now()
	next, told := start.Add(interval), 0
	return func(r *Report) {
		for ; told < len(r.Disagreed); told++ {
			d := r.Disagreed[told]
			reason, _, _ := strings.Cut(d.Verdict.Disagreement, "\n")
			fmt.Fprintf(w, "%s: %s\n", d.Case.Name, reason)
		}
		if now := time.Now(); !now.Before(next) {
			next = now.Add(interval)
			fmt.Fprintf(w, "%s: %d of %d cases, %d disagreements, %d peer timeouts, %.0f cases per second\n",
				now.Sub(start).Round(time.Second), r.Cases, cases, r.Disagreements, r.PeerTimeouts, float64(r.Cases)/now.Sub(start).Seconds())
		}
	}
}
