package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Table returns one row for each verdict, for a terminal and for the page.
func Table(verdicts []*Verdict) string {
	var b strings.Builder
	b.WriteString("| part | counterpart | passed | skipped by the counterpart | other words | fails without Dray | known differences | new |\n|---|---|---|---|---|---|---|---|\n")
	for _, v := range verdicts {
		fmt.Fprintf(&b, "| %s | %s %s | %d | %d | %d | %d | %d | %d |\n", v.Result.Part.Name, v.Result.Part.Counterpart, v.Result.Version,
			v.Passed, len(v.Skipped), len(v.Wording), len(v.Without), len(v.Known), len(v.New)+len(v.Stale))
	}
	return b.String()
}

// wording is the record of differences in words, seen from the page.
const wording = "decisions/" + "0067-errors-are-in-our-words" + ".md"

const introduction = `# Conformance

What others wrote, run on Dray: the tests of the software whose place Dray takes, at the version that Dray is built with.
` + "`make conformance`" + ` runs them and writes this page. Nothing of the counterparts is part of this repository.

- **Skipped by the counterpart**: its test says that it does not apply.
- **Other words**: all that the test compares is equal, but for the text of an error
  ([decision 0067](` + wording + `)). The tests of allocator and cel establish it by asking both,
  those of slices by what else they compare.
- **Fails without Dray**: the program was tested twice with the same libraries, as it is and with Dray's packages, and the
  test failed both times.
- **Known differences** have a decision each.
- **New**: the target fails.

`

// Page returns the text of docs/conformance.md.
func Page(verdicts []*Verdict) string {
	var b strings.Builder
	b.WriteString(introduction)
	b.WriteString(Table(verdicts))
	for _, v := range verdicts {
		fmt.Fprintf(&b, "\n## %s\n\nRuns %s.\n", v.Result.Part.Name, v.Result.Part.About)
		if in := v.Result.Part.inPackage; in != nil {
			list(&b, "Left out of "+strings.Join(in.tests, ", "), slices.Sorted(maps.Keys(in.LeftOut)), func(test string) string {
				return fmt.Sprintf("`%s`: %s", test, in.LeftOut[test])
			})
		}
		list(&b, "Known differences", v.Known, func(k Known) string {
			return fmt.Sprintf("`%s`: %s (decision %s)", k.Test, k.Why, k.Decision)
		})
		list(&b, "In other words", v.Wording, func(o Outcome) string { return "`" + o.Test + "`" })
		list(&b, "Fails without Dray", v.Without, func(o Outcome) string { return "`" + o.Test + "`" })
		list(&b, "Skipped by the counterpart", v.Skipped, func(o Outcome) string { return "`" + o.Test + "`" })
	}
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
