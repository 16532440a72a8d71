// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Table returns one row for each verdict, for a terminal.
func Table(verdicts []*Verdict) string {
	var b strings.Builder
	b.WriteString(header)
	for _, v := range verdicts {
		b.WriteString(row(v))
	}
	return b.String()
}

const header = "| part | counterpart | passed | skipped by the counterpart | other words | fails without Dray | known differences | new |\n|---|---|---|---|---|---|---|---|\n"

func row(v *Verdict) string {
	return fmt.Sprintf("| %s | %s %s | %d | %d | %d | %d | %d | %d |\n", v.Result.Part.Name, v.Result.Part.Counterpart, v.Result.Version,
		v.Passed, len(v.Skipped), len(v.Wording), len(v.Without), len(v.Known), len(v.New)+len(v.Stale))
}

// wording is the decision about differences in words, seen from the page.
const wording = "decisions/" + "upstream" + ".md#0067-errors-are-in-our-words"

// karpentersOwn is the decision about what Karpenter answers.
const karpentersOwn = "decisions/" + "simulation" + ".md#0093-karpenters-answers-are-counted-and-not-followed"

// aboutKoupleless is about a counterpart that has no part, seen from the page.
const aboutKoupleless = "agent" + ".md#virtual-nodes"

// WithoutPart says of a counterpart that has no part where it is published, and which page has what its tests gave.
const WithoutPart = "koupleless: no part: its packages are changed copies, and https://github.com/koupleless/virtual-kubelet is not in the module proxy; what its tests gave: docs/" + aboutKoupleless

const introduction = `# Conformance

What others wrote, run on Dray: the tests of the software whose place Dray takes, at the version that Dray is built with.
` + "`make conformance`" + ` runs them and writes this page. Nothing of the counterparts is part of this repository.
Parts without a row have not run here: some need a checkout. CONTRIBUTING.md says which targets run them.
One counterpart has no part: the packages of [koupleless/virtual-kubelet](` + aboutKoupleless + `) are changed copies, and the module proxy does not have them.
Their page says what their tests gave, run by hand.

- **Skipped by the counterpart**: its test says that it does not apply.
- **Other words**: all that the test compares is equal, but for the text of an error
  ([decision 0067](` + wording + `)). The tests of allocator and cel establish it by asking both,
  those of slices by what else they compare; those of scheduler expect our text instead.
- **Fails without Dray**: it was tested twice, as it is and with Dray in its place, and the test failed both times. Programs and
  the scheduler are.
- **Known differences** have a decision each. Karpenter's are its own, beside Kubernetes:
  [decision 0093](` + karpentersOwn + `).
- **New**: the target fails.

`

// Page returns the text of docs/conformance.md: what it says of parts that did not run, and
// what is new of those that did.
func Page(stored string, verdicts []*Verdict) string {
	rows, sections := read(stored)
	for _, v := range verdicts {
		rows[v.Result.Part.Name], sections[v.Result.Part.Name] = row(v), section(v)
	}
	var b strings.Builder
	b.WriteString(introduction)
	b.WriteString(header)
	for _, part := range All() {
		b.WriteString(rows[part.Name])
	}
	for _, part := range All() {
		b.WriteString(sections[part.Name])
	}
	return b.String()
}

// read takes a page apart, by names of parts.
func read(page string) (rows, sections map[string]string) {
	rows, sections = make(map[string]string), make(map[string]string)
	name := ""
	for line := range strings.Lines(page) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			name = strings.TrimSpace(title)
			sections[name] = "\n"
		}
		if cells := strings.Split(line, " | "); name == "" && len(cells) > 1 {
			rows[strings.TrimPrefix(cells[0], "| ")] = line
		}
		if name != "" {
			sections[name] += line
		}
	}
	for name, text := range sections { // an empty line stands before a title
		sections[name] = strings.TrimRight(text, "\n") + "\n"
	}
	return rows, sections
}

func section(v *Verdict) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\nRuns %s.\n", v.Result.Part.Name, v.Result.Part.About)
	if from, leftOut := v.Result.Part.leftOut(); len(leftOut) > 0 {
		list(&b, "Left out of "+from, slices.Sorted(maps.Keys(leftOut)), func(test string) string {
			return fmt.Sprintf("`%s`: %s", test, leftOut[test])
		})
	}
	list(&b, "Known differences", v.Known, func(k Known) string {
		return fmt.Sprintf("`%s`: %s (decision %s)", k.Test, k.Why, k.Decision)
	})
	list(&b, "In other words", v.Wording, func(o Outcome) string { return "`" + o.Test + "`" })
	list(&b, "Fails without Dray", v.Without, func(o Outcome) string { return "`" + o.Test + "`" })
	list(&b, "Skipped by the counterpart", v.Skipped, func(o Outcome) string { return "`" + o.Test + "`" })
	return b.String()
}

func list[T any](b *strings.Builder, title string, items []T, line func(T) string) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n\n", title)
	for _, item := range items {
		fmt.Fprintf(b, "- %s\n", line(item))
	}
}
