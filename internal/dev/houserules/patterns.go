// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

// printing writes to where the program's user looks, which is for commands to do.
var printing = []string{"Print", "Printf", "Println"}

var (
	skipping   = []string{"Skip", "Skipf", "SkipNow"}
	unfinished = regexp.MustCompile(`(?i)\b(todo|fixme|not (yet )?implemented|unimplemented)\b`)
	reasoned   = regexp.MustCompile(`^//nolint:[a-z,]+ // \S`)
)

var checkPatterns = perFile(func(f *File) []Offence {
	offences := silencedLinters(f)
	packages := packageNames(f)
	ast.Inspect(f.Syntax, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok {
			if text := callOffence(f, call, packages); text != "" {
				offences = append(offences, Offence{f.Path, f.line(call), text})
			}
		}
		return true
	})
	return offences
})

func silencedLinters(f *File) []Offence {
	var offences []Offence
	for _, group := range f.Syntax.Comments {
		for _, comment := range group.List {
			if strings.HasPrefix(comment.Text, "//nolint") && !reasoned.MatchString(comment.Text) {
				offences = append(offences, Offence{f.Path, f.line(comment), "nolint names no linter or no reason"})
			}
		}
	}
	return offences
}

func callOffence(f *File, call *ast.CallExpr, packages map[string]string) string {
	switch callee := call.Fun.(type) {
	case *ast.Ident:
		if callee.Name == "panic" && argumentMatches(call, unfinished) {
			return "panic stands for code that is not there"
		}
	case *ast.SelectorExpr:
		if slices.Contains(skipping, callee.Sel.Name) && isTestingName(callee.X) {
			return "a skipped test proves nothing"
		}
		target, name := qualified(callee, packages)
		if target == "fmt" && slices.Contains(printing, name) && isLibrary(f) {
			return fmt.Sprintf("fmt.%s in a library", name)
		}
	}
	return ""
}

func argumentMatches(call *ast.CallExpr, pattern *regexp.Regexp) bool {
	found := false
	ast.Inspect(call, func(node ast.Node) bool {
		if literal, ok := node.(*ast.BasicLit); ok {
			found = found || pattern.MatchString(literal.Value)
		}
		return !found
	})
	return found
}

// isTestingName tells by its name whether an expression is a *testing.T, B or F.
func isTestingName(x ast.Expr) bool {
	identifier, ok := x.(*ast.Ident)
	return ok && slices.Contains([]string{"t", "b", "f", "tb"}, identifier.Name)
}

// isLibrary tells whether the file is linked into other people's programs.
// Examples print, that is how they are checked.
func isLibrary(f *File) bool {
	return !f.IsTest() && f.Syntax.Name.Name != "main" && !allows(edges, f)
}
