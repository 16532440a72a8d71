// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Known says why a test of a counterpart may differ.
type Known struct {
	// Test is the name of one, or begins those of several and ends in a slash or a star.
	Test string `json:"test"`
	// Decision is the number of a section in docs/decisions.
	Decision string `json:"decision"`
	Why      string `json:"why"`
}

//go:embed known.yaml
var knownText []byte

// known returns the known differences by part.
func known(text []byte) (map[string][]Known, error) {
	var byPart map[string][]Known
	if err := yaml.UnmarshalStrict(text, &byPart); err != nil {
		return nil, fmt.Errorf("known.yaml: %w", err)
	}
	for _, part := range slices.Sorted(maps.Keys(byPart)) {
		for i, k := range byPart[part] {
			if k.Test == "" || k.Decision == "" || k.Why == "" {
				return nil, fmt.Errorf("known.yaml: %s[%d]: test, decision and why are required", part, i)
			}
		}
	}
	return byPart, nil
}

func (k Known) covers(test string) bool {
	begin, several := strings.CutSuffix(k.Test, "*")
	return k.Test == test || (several || strings.HasSuffix(k.Test, "/")) && strings.HasPrefix(test, begin)
}

// Verdict sorts the outcomes of a run.
type Verdict struct {
	Result  *Result
	Passed  int
	Skipped []Outcome
	Wording []Outcome // both say the same, in other words: decision 0067
	Known   []Known
	Without []Outcome // fail without Dray, too
	New     []Outcome // fail
	Stale   []Known   // listed, but passed or not there: fail
}

// OK reports whether nothing is new or stale.
func (v *Verdict) OK() bool { return len(v.New) == 0 && len(v.Stale) == 0 }

// Judge compares a run with the known differences.
func Judge(result *Result) (*Verdict, error) {
	byPart, err := known(knownText)
	if err != nil {
		return nil, err
	}
	return judge(result, byPart[result.Part.Name]), nil
}

func judge(result *Result, listed []Known) *Verdict {
	verdict := &Verdict{Result: result}
	seen := make(map[string]bool)
	for _, outcome := range result.Outcomes {
		if outcome.Status == Passed && strings.Contains(outcome.Output, answersDiffer) {
			outcome.Status = Failed
		}
		i := slices.IndexFunc(listed, func(k Known) bool { return k.covers(outcome.Test) })
		switch {
		case outcome.Status == Passed && strings.Contains(outcome.Output, inOtherWords):
			verdict.Wording = append(verdict.Wording, outcome)
		case outcome.Status == Passed:
			verdict.Passed++
		case outcome.Status == Skipped:
			verdict.Skipped = append(verdict.Skipped, outcome)
		case outcome.Status == FailedWithout:
			verdict.Without = append(verdict.Without, outcome)
		case i >= 0:
			seen[listed[i].Test] = true
			verdict.Known = append(verdict.Known, Known{Test: outcome.Test, Decision: listed[i].Decision, Why: listed[i].Why})
		case strings.Contains(outcome.Output, refusedByBoth),
			result.Part.otherWords != nil && result.Part.otherWords(outcome.Output):
			verdict.Wording = append(verdict.Wording, outcome)
		default:
			verdict.New = append(verdict.New, outcome)
		}
	}
	for _, k := range listed {
		if !seen[k.Test] {
			verdict.Stale = append(verdict.Stale, k)
		}
	}
	return verdict
}
