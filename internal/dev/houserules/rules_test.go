// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../../.."

func checkout(t *testing.T) *Repository {
	t.Helper()
	repository, err := Load(filepath.FromSlash(root))
	if err != nil {
		t.Fatal(err)
	}
	return repository
}

func TestRules(t *testing.T) {
	repository := checkout(t)
	for _, rule := range Rules {
		t.Run(rule.Name, func(t *testing.T) {
			for _, offence := range rule.Check(repository) {
				t.Error(offence)
			}
		})
	}
}

// TestRulesCatch shows that a rule can fail: each sample offends one rule once,
// or none if want is empty.
func TestRulesCatch(t *testing.T) {
	tested := make(map[string]bool)
	for _, sample := range slices.Concat(importSamples, sizeSamples, nameSamples, patternSamples, referenceSamples, wordSamples) {
		t.Run(sample.rule+"/"+sample.name, func(t *testing.T) {
			tested[sample.rule] = tested[sample.rule] || sample.want != ""
			sample.check(t)
		})
	}
	for _, rule := range Rules {
		if !tested[rule.Name] {
			t.Errorf("no sample shows what rule %s catches", rule.Name)
		}
	}
}

type sample struct {
	rule, name string
	files      map[string]string
	want       string // in the only offence; empty for none
}

func (s sample) check(t *testing.T) {
	t.Helper()
	repository, err := Parse(s.files)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(Rules, func(r Rule) bool { return r.Name == s.rule })
	if at < 0 {
		t.Fatalf("there is no rule %s", s.rule)
	}
	offences := Rules[at].Check(repository)
	switch {
	case s.want == "" && len(offences) > 0:
		t.Errorf("offences in good files: %v", offences)
	case s.want != "" && len(offences) != 1:
		t.Errorf("got %d offences, want one: %v", len(offences), offences)
	case s.want != "" && !strings.Contains(offences[0].String(), s.want):
		t.Errorf("got offence %q, want it to say %q", offences[0], s.want)
	}
}

// one is a repository of a single file.
func one(path, text string) map[string]string { return map[string]string{path: text} }
