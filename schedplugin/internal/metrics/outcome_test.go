// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/dray-project/dray/allocator"
)

// An answer is what was found. Without one, it matters whether anybody still wants to know, and whether time was up.
func TestOutcome(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	late := fmt.Errorf("node a: %w", context.DeadlineExceeded)
	for name, test := range map[string]struct {
		ctx     context.Context
		verdict allocator.Verdict
		err     error
		want    string
	}{
		"found":               {t.Context(), allocator.Satisfiable, nil, Satisfiable},
		"found, too late":     {over, allocator.Satisfiable, nil, Satisfiable},
		"none":                {t.Context(), allocator.NotSatisfiable, nil, Unsatisfiable},
		"not decided":         {t.Context(), allocator.NotDecided, nil, Undecided},
		"out of time":         {t.Context(), allocator.NoVerdict, late, Timeout},
		"nobody wants it":     {over, allocator.NoVerdict, late, Cancelled},
		"nobody, and failed":  {over, allocator.NoVerdict, errors.New("failed"), Cancelled},
		"failed":              {t.Context(), allocator.NoVerdict, errors.New("failed"), Error},
		"cancelled elsewhere": {t.Context(), allocator.NoVerdict, context.Canceled, Error},
	} {
		if got := Outcome(test.ctx, test.verdict, test.err); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
