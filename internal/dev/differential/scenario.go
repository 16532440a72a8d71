// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dray-project/dray/alloctest"
)

// reduceLimit is how long a single case may be reduced.
const reduceLimit = time.Minute

// Reduce makes the case of a disagreement as small as it can be with any disagreement
// left, and returns the disagreement on that.
func (r *Comparer) Reduce(ctx context.Context, d Disagreement) Disagreement {
	ctx, cancel := context.WithTimeout(ctx, reduceLimit)
	defer cancel()
	smallest := Reduce(d.Case, func(c *alloctest.Case) bool {
		return ctx.Err() == nil && r.Compare(ctx, c).Disagreement != ""
	})
	return Disagreement{Case: smallest, Verdict: r.Compare(context.WithoutCancel(ctx), smallest)}
}

// Scenario is the text of a scenario file with the peer's answer, preceded by the
// disagreement as a comment.
func (d Disagreement) Scenario() (string, error) {
	if d.Turns != nil {
		return d.Turns.Scenario()
	}
	text, err := alloctest.Format(d.Case, d.Verdict.Peer)
	if err != nil {
		return "", fmt.Errorf("case %s: %w", d.Case.Name, err)
	}
	return comment(d.Verdict.Disagreement) + "\n" + text, nil
}

// Write puts the scenario into a folder, which it makes if necessary, and returns the
// path of the file.
func (d Disagreement) Write(folder string) (string, error) {
	text, err := d.Scenario()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("folder for scenarios: %w", err)
	}
	path := filepath.Join(folder, d.Case.Name+".txt")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return "", fmt.Errorf("scenario: %w", err)
	}
	return path, nil
}
