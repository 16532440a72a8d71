// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Whatever the text and however narrow the terminal: words are not lost, and lines are
// not longer than the terminal, unless a single word is.
func TestParagraphFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-z{}./:-]{1,12}`), 1, 60).Draw(t, "words")
		width := rapid.IntRange(30, 200).Draw(t, "width")
		indent, hang := rapid.IntRange(0, 6).Draw(t, "indent"), rapid.IntRange(0, 6).Draw(t, "hang")
		var out bytes.Buffer
		(&Terminal{Out: &out, Width: width}).Paragraph(indent, hang, strings.Join(words, " "))
		if got, want := strings.Join(strings.Fields(out.String()), " "), strings.Join(words, " "); got != want {
			t.Fatalf("got %q, want the words of %q", got, want)
		}
		for line := range strings.SplitSeq(out.String(), "\n") {
			if len(line) > width {
				t.Fatalf("line of %d columns on a terminal of %d: %q", len(line), width, line)
			}
		}
	})
}

func TestTableFits(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", 40))
	for _, width := range []int{40, 80, 120, 400} {
		var out bytes.Buffer
		(&Terminal{Out: &out, Width: width}).Table([]string{"NAME", "TEXT", "MORE"}, [][]string{{"short", long, long}, {"n", "", "x"}})
		for line := range strings.SplitSeq(out.String(), "\n") {
			if len(line) > width {
				t.Errorf("line of %d columns on a terminal of %d: %q", len(line), width, line)
			}
		}
		if got := strings.Count(out.String(), "word"); got != 80 {
			t.Errorf("width %d: %d of 80 words printed", width, got)
		}
	}
}

func TestColours(t *testing.T) {
	const escape = "\x1b["
	for _, colour := range []bool{false, true} {
		var out bytes.Buffer
		terminal := &Terminal{Out: &out, Width: 80, Colour: colour}
		terminal.table([]string{"NAME"}, [][]string{{"x"}}, bad)
		terminal.spans(0, 0, good("fine"))
		if got := strings.Contains(out.String(), escape); got != colour {
			t.Errorf("colour %v: output has escape sequences: %v", colour, got)
		}
	}
	if NewTerminal(&bytes.Buffer{}).Colour {
		t.Error("a buffer is no terminal, but gets colours")
	}
	if got := columns((&Terminal{Colour: true}).paint(bad("four"))); got != 4 {
		t.Errorf("coloured text takes %d columns, want 4", got)
	}
}
