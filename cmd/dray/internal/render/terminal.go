// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

const (
	// defaultWidth is the width of terminals whose size is unknown.
	defaultWidth = 80
	// leastWidth is the minimum width of folded output.
	leastWidth = 40
	// unlimited is the width of output to programs, which is not folded.
	unlimited = 1 << 20
)

// Terminal is the output for users.
type Terminal struct {
	Out    io.Writer
	Width  int // columns
	Colour bool
	// Program is the name under which the program was called. Flags are flags that select the same
	// cluster. Both are for commands in the output.
	Program, Flags string
	// Folded says that lines are folded to the width, similar names are combined, and repeated
	// cells are empty. Otherwise each line is complete by itself, for grep and awk.
	Folded bool
	// NoHeaders omits headers of tables.
	NoHeaders bool
	// Wide omits nothing.
	Wide bool
}

// NewTerminal returns the Terminal for a writer. Lines are folded on terminals, and if COLUMNS is
// set. Colours are used only on terminals, and not if NO_COLOR is set (see no-color.org).
func NewTerminal(out io.Writer) *Terminal {
	t := &Terminal{Out: out, Width: unlimited, Program: "dray"}
	columns, err := strconv.Atoi(os.Getenv("COLUMNS"))
	given := err == nil && columns > 0
	if given {
		t.Width, t.Folded = max(columns, leastWidth), true
	}
	if !IsTerminal(out) {
		return t
	}
	t.Folded = true
	if !given {
		t.Width = defaultWidth
		if width, _, err := term.GetSize(int(out.(descriptor).Fd())); err == nil && width > 0 {
			t.Width = width
		}
	}
	t.Colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return t
}

// IsTerminal reports whether out is a terminal.
func IsTerminal(out io.Writer) bool {
	file, ok := out.(descriptor)
	return ok && term.IsTerminal(int(file.Fd()))
}

// descriptor is a file, or a writer that wraps one.
type descriptor interface{ Fd() uintptr }

// span is text with one style.
type span struct {
	text    string
	colours text.Colors
}

func plain(content string) span   { return span{text: content} }
func heading(content string) span { return span{content, text.Colors{text.Bold}} }
func good(content string) span    { return span{content, text.Colors{text.FgGreen}} }
func bad(content string) span     { return span{content, text.Colors{text.FgRed}} }
func faint(content string) span   { return span{content, text.Colors{text.Faint}} }

// paint returns the text of a span with escape sequences for its style. No other function makes
// escape sequences.
func (t *Terminal) paint(s span) string {
	content := Printable(s.text)
	if !t.Colour || content == "" || s.colours == nil {
		return content
	}
	text.EnableColors()
	return s.colours.Sprint(content)
}

// Line prints one line without folding it.
func (t *Terminal) Line(content string) { t.write(Printable(content)) }

// write prints a line that paint returned.
func (t *Terminal) write(line string) { fmt.Fprintln(t.Out, line) }

// Paragraph prints text folded to the width. The first line is indented by indent columns, the
// others by hang columns.
func (t *Terminal) Paragraph(indent, hang int, content string) {
	t.spans(indent, hang, plain(content))
}

// spans is Paragraph for text in several styles.
func (t *Terminal) spans(indent, hang int, content ...span) {
	line := strings.Repeat(" ", indent)
	empty := true
	for _, pieces := range words(content) {
		var word strings.Builder
		for _, piece := range pieces {
			word.WriteString(t.paint(piece))
		}
		if !empty && columns(line)+1+columns(word.String()) > t.Width {
			t.write(line)
			line, empty = strings.Repeat(" ", hang), true
		}
		if !empty {
			line += " "
		}
		line += word.String()
		empty = false
	}
	t.write(line)
}

// words splits text at white space. A word has several spans if its style changes inside.
func words(content []span) [][]span {
	var list [][]span
	open := false // whether the next span continues the last word
	for _, s := range content {
		for rest := s.text; rest != ""; {
			word := strings.TrimLeftFunc(rest, unicode.IsSpace)
			open = open && len(word) == len(rest)
			end := strings.IndexFunc(word, unicode.IsSpace)
			if end < 0 {
				end = len(word)
			}
			switch piece := (span{word[:end], s.colours}); {
			case piece.text == "":
			case open:
				list[len(list)-1] = append(list[len(list)-1], piece)
			default:
				list, open = append(list, []span{piece}), true
			}
			rest = word[end:]
		}
	}
	return list
}

// columns returns the width of text on a terminal, without escape sequences.
func columns(content string) int { return text.StringWidthWithoutEscSequences(content) }
