// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

const (
	columnGap       = "  "
	narrowestColumn = 8
)

// Table prints a table with headers. If it does not fit the width, the widest columns are folded.
func (t *Terminal) Table(headers []string, rows [][]string) { t.table(headers, rows, nil) }

// table is Table with a function that selects the style of cells.
func (t *Terminal) table(headers []string, rows [][]string, style func(cell string) span) {
	writer := table.NewWriter()
	writer.SetStyle(plainStyle())
	if !t.NoHeaders {
		writer.AppendHeader(t.row(headers, heading))
	}
	if len(rows) == 0 && t.NoHeaders {
		return
	}
	for _, row := range rows {
		writer.AppendRow(t.row(row, style))
	}
	if t.Width < unlimited {
		writer.SetColumnConfigs(columnConfigs(fit(naturalWidths(headers, rows), t.Width)))
	}
	for line := range strings.SplitSeq(writer.Render(), "\n") {
		t.write(strings.TrimRight(line, " "))
	}
}

func (t *Terminal) row(cells []string, style func(string) span) table.Row {
	if style == nil {
		style = plain
	}
	row := make(table.Row, len(cells))
	for i, cell := range cells {
		row[i] = t.paint(style(cell))
	}
	return row
}

// plainStyle has no lines. Columns are separated by spaces only, so that cells can be copied and
// searched.
func plainStyle() table.Style {
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft = ""
	style.Box.PaddingRight = columnGap
	return style
}

func columnConfigs(widths []int) []table.ColumnConfig {
	configs := make([]table.ColumnConfig, len(widths))
	for i, width := range widths {
		configs[i] = table.ColumnConfig{Number: i + 1, WidthMax: width, WidthMaxEnforcer: text.WrapSoft}
	}
	return configs
}

func naturalWidths(headers []string, rows [][]string) []int {
	widths := make([]int, len(headers))
	for i, header := range headers {
		widths[i] = columns(header)
	}
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], columns(Printable(cell)))
		}
	}
	return widths
}

// fit reduces the widest columns until all fit, but none below narrowestColumn.
func fit(widths []int, available int) []int {
	total := len(columnGap) * (len(widths) - 1)
	for _, width := range widths {
		total += width
	}
	for ; total > available; total-- {
		widest := 0
		for i, width := range widths {
			if width > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= narrowestColumn {
			break
		}
		widths[widest]--
	}
	return widths
}
