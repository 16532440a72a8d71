package render

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

const (
	// defaultWidth is used for terminals that do not say how wide they are.
	defaultWidth = 80
	// leastWidth is the narrowest that output is folded to.
	leastWidth = 40
	// unlimited is the width of what programs read: nothing is folded.
	unlimited = 1 << 20
)

// Terminal is where output for people goes.
type Terminal struct {
	Out    io.Writer
	Width  int // columns
	Colour bool
	// Program is how the program was called, Flags what has to be said again to
	// ask about the same cluster: for commands that output suggests.
	Program, Flags string
	// Folded is set if lines are laid out for people: folded to the width, names that
	// differ in a number written as one, cells that repeat left out. Otherwise each
	// line can be understood alone, for grep and awk.
	Folded bool
	// NoHeaders leaves the headers of tables out.
	NoHeaders bool
	// Wide leaves nothing out.
	Wide bool
}

// NewTerminal finds out what out is. Lines are folded on terminals, and wherever COLUMNS
// says how wide they may be. Colours are used on terminals only, and not if NO_COLOR is set
// (see no-color.org).
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

// IsTerminal reports whether a person sees what is written to out.
func IsTerminal(out io.Writer) bool {
	file, ok := out.(descriptor)
	return ok && term.IsTerminal(int(file.Fd()))
}

// descriptor is a file, or a writer around one.
type descriptor interface{ Fd() uintptr }

func (t *Terminal) paint(content string, colours ...text.Color) string {
	if !t.Colour || content == "" {
		return content
	}
	text.EnableColors()
	return text.Colors(colours).Sprint(content)
}

func (t *Terminal) heading(content string) string { return t.paint(content, text.Bold) }
func (t *Terminal) good(content string) string    { return t.paint(content, text.FgGreen) }
func (t *Terminal) bad(content string) string     { return t.paint(content, text.FgRed) }
func (t *Terminal) faint(content string) string   { return t.paint(content, text.Faint) }

// Line prints one line without folding it.
func (t *Terminal) Line(content string) { fmt.Fprintln(t.Out, content) }

// Paragraph prints text folded to the width. The first line is indented by indent
// columns, the others by hang.
func (t *Terminal) Paragraph(indent, hang int, content string) {
	line := strings.Repeat(" ", indent)
	empty := true
	for word := range strings.FieldsSeq(content) {
		if !empty && columns(line)+1+columns(word) > t.Width {
			t.Line(line)
			line, empty = strings.Repeat(" ", hang), true
		}
		if !empty {
			line += " "
		}
		line += word
		empty = false
	}
	t.Line(line)
}

// columns is how wide text is on a terminal. Colours take no room.
func columns(content string) int { return text.StringWidthWithoutEscSequences(content) }
