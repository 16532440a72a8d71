// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// The programs at the beginning of docs/simulate.md are short, print what they say, and are named there.
func TestProgramsOfDocsAreShort(t *testing.T) {
	const longest = 60
	page, err := os.ReadFile("../docs/simulate.md")
	if err != nil {
		t.Fatal(err)
	}
	for file, name := range map[string]string{
		"mix/example_test.go": "ExampleFind", "example_gang_test.go": "Example_gangAdmission", "when/example_test.go": "ExampleStarts", "moves/example_test.go": "ExampleFind",
	} {
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		var program *ast.FuncDecl
		for _, declared := range parsed.Decls {
			if function, ok := declared.(*ast.FuncDecl); ok && function.Name.Name == name {
				program = function
			}
		}
		if program == nil {
			t.Errorf("%s has no %s", file, name)
			continue
		}
		prints := false
		for _, comment := range parsed.Comments {
			prints = prints || comment.Pos() > program.Pos() && comment.End() < program.End() && strings.HasPrefix(comment.Text(), "Output:")
		}
		lines := files.Position(program.End()).Line - files.Position(program.Pos()).Line + 1
		if lines > longest || !prints {
			t.Errorf("%s: %s has %d lines, at most %d are wanted; says what it prints: %t", file, name, lines, longest, prints)
		}
		if !strings.Contains(string(page), "../simulate/"+file) || !strings.Contains(string(page), name+"`") {
			t.Errorf("docs/simulate.md does not name %s of %s", name, file)
		}
	}
}
