// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/dray-project/dray/allocator"
)

func TestSuiteIsLarge(t *testing.T) {
	files := make(map[string]int)
	total := 0
	for s := range Scenarios() {
		files[s.File]++
		total++
	}
	if len(files) < 14 || total < 170 {
		t.Errorf("%d files with %d scenarios, want at least 14 with 170", len(files), total)
	}
}

func TestEveryRuleIsProved(t *testing.T) {
	proved := make(map[string]int)
	for s := range Scenarios() {
		if len(s.Rules) == 0 {
			t.Errorf("%s/%s names no rule", s.File, s.Name)
		}
		for _, rule := range s.Rules {
			proved[rule]++
		}
	}
	for rule := range Rules() {
		if proved[rule.ID] == 0 {
			t.Errorf("no scenario proves %s: %s", rule.ID, rule.Sentence)
		}
		delete(proved, rule.ID)
	}
	for rule := range proved {
		t.Errorf("rule %s is not in rules.md, or more than once", rule)
	}
}

// Each feature has a rule about being off, and scenarios of the rule have it off.
func TestEveryGateIsProvedOff(t *testing.T) {
	off := make(map[string]int)
	for s := range Scenarios() {
		for _, rule := range s.Rules {
			feature, isGate := strings.CutPrefix(rule, "gates.")
			switch {
			case !isGate || feature == "none" || feature == "widest":
			case slices.Contains(featuresOff(s.Case.Features), feature):
				off[feature]++
			default:
				t.Errorf("%s/%s is about %s, which is on", s.File, s.Name, rule)
			}
		}
	}
	for _, feature := range featuresOff(allocator.Features{}) {
		if off[feature] == 0 {
			t.Errorf("no scenario shows what happens without %s", feature)
		}
	}
}

func scenarioFiles(t *testing.T) []string {
	files, err := filepath.Glob("scenarios/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenario files, error %v", err)
	}
	return files
}

func TestFilesOpenWithTheirRule(t *testing.T) {
	for _, file := range scenarioFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if opening, _, _ := strings.Cut(string(text), "\n\n"); !strings.HasPrefix(opening, "# ") || strings.Contains(opening, "\ncluster") {
			t.Errorf("%s does not open with a comment of its own", file)
		}
	}
}

// Both readers of the format must see the same directives: one runs the suite,
// the other one rewrites it.
func TestDatadrivenReadsTheSame(t *testing.T) {
	for _, file := range scenarioFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := readDirectives(string(text))
		if err != nil {
			t.Fatal(err)
		}
		datadriven.RunTestFromString(t, string(text), func(t *testing.T, theirs *datadriven.TestData) string {
			our := ours[0]
			ours = ours[1:]
			if our.command != theirs.Cmd || !reflect.DeepEqual(our.args, theirs.CmdArgs) ||
				inputText(our) != theirs.Input || our.expected != theirs.Expected {
				t.Fatalf("%s: read %+v, datadriven reads %+v", file, our, theirs)
			}
			return theirs.Expected
		})
		if len(ours) > 0 {
			t.Errorf("%s: datadriven overlooks %+v", file, ours)
		}
	}
}

func inputText(d directive) string {
	var lines []string
	for _, line := range d.input {
		lines = append(lines, line.text)
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

var fenced = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

func TestReadmeExamplesParse(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := make(map[string]int)
	for _, example := range fenced.FindAllStringSubmatch(string(readme), -1) {
		kind, text := example[1], example[2]
		examples[kind]++
		switch kind {
		case "scenarios":
			_, err = Parse("README.md", text)
		case "statements":
			_, err = Parse("README.md", "allocate example\nnode here\n"+text+"----\n")
		}
		if err != nil {
			t.Errorf("%v in:\n%s", err, text)
		}
	}
	if examples["scenarios"] == 0 || examples["statements"] == 0 {
		t.Errorf("examples are %v", examples)
	}
}

// The README's tables of what can be said must not forget anything.
func TestReadmeIsComplete(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{
		"cluster", "allocate", "then", "dry-run", "gone", "released", "explain", "node", "declares", "class", "where", "config", "slice", "name=", "generation=", "of=",
		"on", "all-nodes", "each-device", "nodes", "field:", "skips", "counters", "capacity", "default", "min", "max", "step",
		"values", "shareable", "consumes", "groups=", "taint", "binds-to-node", "binding-conditions", "failure-conditions",
		"allocated", "share", "consumed", "admin", "tolerates", "claim", "namespace=", "uid=", "request", "count", "mode=",
		"all", "tolerate", "for", "derive", "option", "match", "distinct", "requests=", "yaml",
	} {
		if !strings.Contains(string(readme), word) {
			t.Errorf("README.md says nothing about %q", word)
		}
	}
}
