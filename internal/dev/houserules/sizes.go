// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
)

// Limits in lines. A function's are those between its first and its last one.
const (
	fileLimit     = 500
	testFileLimit = 700
	functionLimit = 70
	// packageLimit is how many files a package has at most, without tests.
	packageLimit = 25
)

// longFunctions may exceed functionLimit: "path: name".
var longFunctions = []string{}

func checkSizes(r *Repository) []Offence {
	var offences []Offence
	for _, file := range r.GoFiles() {
		limit := fileLimit
		if file.IsTest() {
			limit = testFileLimit
		}
		if file.Lines() >= limit {
			offences = append(offences, Offence{file.Path, 0, fmt.Sprintf("%d lines; the limit is under %d", file.Lines(), limit)})
		}
		for _, f := range functions(file) {
			offences = append(offences, f.tooLong(file)...)
		}
	}
	return append(offences, crowdedPackages(r)...)
}

type function struct {
	name        string
	line, lines int
}

func functions(file *File) []function {
	var found []function
	for _, declaration := range file.Syntax.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok {
			first, last := file.line(f), file.positions.Position(f.End()).Line
			found = append(found, function{name: f.Name.Name, line: first, lines: max(0, last-first-1)})
		}
	}
	return found
}

func (f function) tooLong(file *File) []Offence {
	if f.lines <= functionLimit || slices.Contains(longFunctions, file.Path+": "+f.name) {
		return nil
	}
	return []Offence{{file.Path, f.line, fmt.Sprintf("%s has %d lines; the limit is %d", f.name, f.lines, functionLimit)}}
}

// largePackages have more files than packageLimit for now.
var largePackages = []string{"alloctest", "internal/dev/clustergen"}

// crowdedPackages judges how many files there are in each folder.
func crowdedPackages(r *Repository) []Offence {
	counts := make(map[string]int)
	for _, file := range r.GoFiles() {
		if !file.IsTest() {
			counts[file.Folder()]++
		}
	}
	var offences []Offence
	for _, folder := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[folder]; n > packageLimit && !slices.Contains(largePackages, folder) {
			offences = append(offences, Offence{folder, 0, fmt.Sprintf("%d files; the limit is %d", n, packageLimit)})
		}
	}
	return offences
}
