// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules

import (
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
)

// floor is what there is of one package, without tests.
type floor struct {
	files, lines, code int
	imports            map[string]bool // folders of ours
}

// PrintRooms prints a table of packages with their product files, lines, lines of code (neither blank
// nor comments) and imports of each other, and the sum of the library's core.
func (r *Repository) PrintRooms(to io.Writer) {
	floors := make(map[string]*floor)
	for _, file := range r.GoFiles() {
		if file.IsTest() {
			continue
		}
		f := floors[file.Folder()]
		if f == nil {
			f = &floor{imports: make(map[string]bool)}
			floors[file.Folder()] = f
		}
		f.files++
		f.lines += file.Lines()
		f.code += file.CodeLines()
		for _, spec := range file.Syntax.Imports {
			if target, _ := strconv.Unquote(spec.Path.Value); strings.HasPrefix(target, Module+"/") {
				f.imports[strings.TrimPrefix(target, Module+"/")] = true
			}
		}
	}
	t := table.NewWriter()
	t.SetOutputMirror(to)
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.AppendHeader(table.Row{"PACKAGE", "FILES", "LINES", "CODE", "IMPORTS"})
	var core floor
	for _, folder := range slices.Sorted(maps.Keys(floors)) {
		f := floors[folder]
		if within(folder, "allocator") || within(folder, "pools") || within(folder, "internal/index") {
			core.lines += f.lines
			core.code += f.code
		}
		t.AppendRow(table.Row{folder, f.files, f.lines, f.code, strings.Join(shortened(folder, f.imports), " ")})
	}
	t.Render()
	fmt.Fprintf(to, "\nallocator, pools and internal/index together: %d lines, of which %d are code\n", core.lines, core.code)
}

// shortened leaves out of imports what they have in common with the importing folder.
func shortened(folder string, imports map[string]bool) []string {
	var names []string
	for _, target := range slices.Sorted(maps.Keys(imports)) {
		if path.Dir(target) == path.Dir(folder) {
			target = path.Base(target)
		}
		names = append(names, target)
	}
	return names
}
