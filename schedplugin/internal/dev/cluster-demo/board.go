// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// width is that of a narrow terminal, which documents can quote.
const width = 88

// columns are the widths of the table's columns. All are given: rows are printed before
// the next is known.
var columns = []table.ColumnConfig{
	{Number: 1, WidthMin: 19, WidthMax: 19},
	{Number: 2, WidthMin: 7, WidthMax: 7},
	{Number: 3, WidthMin: 46, WidthMax: 46, WidthMaxEnforcer: text.WrapSoft},
	{Number: 4, WidthMin: 8, WidthMax: 8, Align: text.AlignRight},
}

// board prints a table row by row, with titles and notes in between.
type board struct{ out io.Writer }

func newBoard(out io.Writer) *board {
	b := &board{out: out}
	fmt.Fprintln(out)
	b.print(table.Row{"POD", "NODE", "DEVICES", "AFTER"})
	return b
}

func (b *board) title(title string) { fmt.Fprintf(b.out, "\n%s\n", title) }

func (b *board) row(pod, node string, devices []string, after time.Duration) {
	b.print(table.Row{pod, node, strings.Join(devices, " "), fmt.Sprintf("%d ms", after.Milliseconds())})
}

// note prints lines, indented, and folded where they are too long.
func (b *board) note(note string) {
	for line := range strings.Lines(note) {
		for folded := range strings.Lines(text.WrapSoft(strings.TrimRight(line, "\n"), width-4)) {
			fmt.Fprintf(b.out, "    %s\n", strings.TrimRight(folded, " \n"))
		}
	}
}

func (b *board) conclude(conclusion string) { fmt.Fprintf(b.out, "\n%s\n", conclusion) }

func (b *board) print(row table.Row) {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	t.SetColumnConfigs(columns)
	t.AppendRow(row)
	for line := range strings.Lines(t.Render()) {
		fmt.Fprintln(b.out, "  "+strings.TrimRight(line, " \n"))
	}
}
