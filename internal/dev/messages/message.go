// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// message is a text of a program: a literal, or several that are joined.
type message struct {
	file string
	line int
	// prose is the text as Markdown. What people do not write as words is code: names, flags, what is filled in.
	prose string
}

// messagesOf are the messages of a Go file, in their order, without those of others.
func messagesOf(path string, others byOthers) ([]message, error) {
	files := token.NewFileSet()
	syntax, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []message
	var visit func(node ast.Node) bool
	visit = func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ImportSpec, *ast.Field: // a field has a tag
			return false
		case ast.Expr:
			if !isText(node) {
				return true
			}
			text, parts := joined(node)
			for line := range strings.SplitSeq(text, "\n") {
				if prose := proseOf(line); prose != "" && !others.has(strings.TrimSpace(line)) {
					found = append(found, message{file: path, line: files.Position(node.Pos()).Line, prose: prose})
				}
			}
			for _, part := range parts {
				ast.Inspect(part, visit)
			}
			return false
		}
		return true
	}
	ast.Inspect(syntax, visit)
	return found, nil
}

// filledIn stands for what is no literal in a sum.
const filledIn = "%s"

// isText reports whether an expression is a string literal or a sum.
func isText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING
	case *ast.BinaryExpr:
		return e.Op == token.ADD
	}
	return false
}

// joined is the text of an expression, and what of it is no text.
func joined(e ast.Expr) (string, []ast.Expr) {
	if !isText(e) {
		return filledIn, []ast.Expr{e}
	}
	if sum, ok := e.(*ast.BinaryExpr); ok {
		left, before := joined(sum.X)
		right, after := joined(sum.Y)
		return left + right, append(before, after...)
	}
	text, err := strconv.Unquote(e.(*ast.BasicLit).Value)
	if err != nil {
		return filledIn, nil // the parser has accepted it
	}
	return text, nil
}

var (
	// quoted is a name, or what somebody else said.
	quoted = regexp.MustCompile(`"[^"]*"`)
	// format is a format of output: after its flag, or in a list.
	format = regexp.MustCompile(`(-o |, )(json|yaml)\b`)
	// segment is the name of an object or a field before what is said of it.
	segment = regexp.MustCompile(`^(?:[^ ]+: )*[^ ]+: `)
	// word is what people write: letters, with an apostrophe or hyphens inside, in the punctuation around it.
	word = regexp.MustCompile(`^(["'(]*)([A-Za-z][a-z]*(?:['-][A-Za-z][a-z]*)*|[A-Z]+s?)([")',.;:!?]*)$`)
	// end is the punctuation at the end of what is no word.
	end = regexp.MustCompile(`[.;:!?,]*$`)
)

// proseOf is a line of a text as Markdown. It is empty if the line has no two words, is indented as examples are, or is
// in capitals as headers of tables are.
func proseOf(line string) string {
	if strings.HasPrefix(line, "  ") || strings.ToUpper(line) == line {
		return ""
	}
	names := segment.FindString(line)
	line = quoted.ReplaceAllStringFunc(line[len(names):], func(text string) string { return "<" + strings.Join(strings.Fields(text), "_") + ">" })
	line = format.ReplaceAllString(line, "$1<$2>")
	var tokens []string
	for _, name := range strings.Fields(names) {
		tokens = append(tokens, code(name))
	}
	words := 0
	for _, token := range strings.Fields(line) {
		if word.MatchString(token) {
			words++
			tokens = append(tokens, token)
		} else {
			tokens = append(tokens, code(token))
		}
	}
	if words < 2 {
		return ""
	}
	return strings.Join(tokens, " ")
}

// code is a token as code of Markdown, before the punctuation at its end.
func code(token string) string {
	stop := end.FindString(token)
	token = strings.ReplaceAll(strings.TrimSuffix(token, stop), "`", "")
	if token == "" {
		return stop
	}
	return "`" + token + "`" + stop
}
