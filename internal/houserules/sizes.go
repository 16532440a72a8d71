package houserules

import (
	"fmt"
	"go/ast"
	"slices"
)

// Limits in lines. A function's are those between its first and its last one.
const (
	fileLimit      = 400
	testFileLimit  = 600
	functionLimit  = 70
	functionMedian = 12 // half of the functions are shorter
	functionNinth  = 40 // nine in ten are shorter
)

// longFunctions may exceed functionLimit: "path: name".
var longFunctions = []string{}

func checkSizes(r *Repository) []Offence {
	var offences []Offence
	var lengths []int
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
			if !file.IsTest() {
				lengths = append(lengths, f.lines)
			}
		}
	}
	return append(offences, distributionOffences(lengths)...)
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

// distributionOffences judges the functions of the repository together: one
// that needs 50 lines may have them, not every second one.
func distributionOffences(lengths []int) []Offence {
	if len(lengths) == 0 {
		return nil
	}
	slices.Sort(lengths)
	var offences []Offence
	if median := lengths[(len(lengths)-1)/2]; median >= functionMedian {
		offences = append(offences, Offence{".", 0, fmt.Sprintf("half of the functions have %d lines or more; most should have under %d", median, functionMedian)})
	}
	if ninetieth := lengths[(len(lengths)*9-1)/10]; ninetieth >= functionNinth {
		offences = append(offences, Offence{".", 0, fmt.Sprintf("one function in ten has %d lines or more; nine in ten should have under %d", ninetieth, functionNinth)})
	}
	return offences
}
