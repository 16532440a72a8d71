// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"io"
	"strings"
)

// reporter writes a line for each test of a few levels that ended.
type reporter struct {
	to     io.Writer
	what   string
	ended  int
	failed int
}

// reportedDepth leaves out the cases of tables: a configuration is a test, and what it runs.
const reportedDepth = 3

func (r *reporter) report(e packageEvent) {
	switch Status(e.Action) {
	case Passed, Skipped, Failed:
	default:
		return
	}
	if e.Test == "" {
		fmt.Fprintf(r.to, "%s: %s after %.0f s, %d tests ended, %d failed\n", r.what, e.Action, e.Elapsed, r.ended, r.failed)
		return
	}
	r.ended++
	if Status(e.Action) == Failed {
		r.failed++
	}
	if strings.Count(e.Test, "/") < reportedDepth {
		fmt.Fprintf(r.to, "%s: %s %s (%.0f s)\n", r.what, e.Action, e.Test, e.Elapsed)
	}
}
