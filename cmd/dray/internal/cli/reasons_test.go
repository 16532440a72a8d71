// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// spoken are files of which texts reach users as reasons, and which of their texts do.
var spoken = []struct {
	path string
	is   func(parent ast.Node) bool
}{
	{"allocator/explain/text.go", isMapValue},
	{"cmd/dray/internal/cluster/nodefit.go", isReason},
	{"cmd/dray/internal/cluster/reason.go", isReason},
	{"cmd/dray/internal/cluster/place.go", isReason},
	{"cmd/dray/internal/cluster/placement.go", isReturned},
	{"schedplugin/internal/refusal/refusal.go", isConstant},
	{"internal/index/pool/assemble.go", isReturned},
}

// TestReasonsAreDocumented finds each reason that users are given on the page that explains reasons.
func TestReasonsAreDocumented(t *testing.T) {
	page := phrasesOf(t)
	for _, file := range spoken {
		texts := spokenIn(t, file.path, file.is)
		if len(texts) == 0 {
			t.Errorf("%s: no reason is found", file.path)
		}
		for _, text := range texts {
			if !page.has(text) {
				t.Errorf("%s: docs/pending.md does not explain %q", file.path, text)
			}
		}
	}
}

// phrases are the texts in the first columns of the tables of the page.
type phrases []string

// filled is what is filled in: in a format, and on the page.
var filled = regexp.MustCompile(`%(\[\d\])?[a-z]|…`)

func phrasesOf(t *testing.T) phrases {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "docs/pending.md"))
	if err != nil {
		t.Fatal(err)
	}
	var found phrases
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[1], "`") {
			continue
		}
		for i, cell := range strings.Split(cells[1], "`") {
			if i%2 == 1 {
				found = append(found, cell)
			}
		}
	}
	return found
}

// has reports whether a phrase of the page has the longest part of the text.
func (p phrases) has(text string) bool {
	part := longestPart(text)
	for _, phrase := range p {
		if strings.Contains(phrase, part) {
			return true
		}
	}
	return false
}

// longestPart is that of a text without what is filled in; empty if it has no words.
func longestPart(text string) string {
	longest := ""
	for _, part := range filled.Split(text, -1) {
		if part = strings.Trim(part, " ,:;()="); len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

func TestLongestPart(t *testing.T) {
	for text, want := range map[string]string{
		"tainted %s": "tainted", "claim %s is reserved for %d pods, the most there can be": "pods, the most there can be",
		", ": "", "%s %s %s": "", "in use": "in use", "the pod's node selector wants label %s=%s": "the pod's node selector wants label",
	} {
		if got := longestPart(text); got != want {
			t.Errorf("longestPart(%q) = %q, want %q", text, got, want)
		}
	}
}

// spokenIn are the string literals of a file whose parent is chosen.
func spokenIn(t *testing.T, path string, chosen func(ast.Node) bool) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(repository, path), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	var parents []ast.Node
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			parents = parents[:len(parents)-1]
			return true
		}
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING && inside(parents, chosen) {
			if text, err := strconv.Unquote(literal.Value); err == nil && longestPart(text) != "" {
				texts = append(texts, text)
			}
		}
		parents = append(parents, n)
		return true
	})
	return texts
}

func inside(parents []ast.Node, chosen func(ast.Node) bool) bool {
	for _, parent := range parents {
		if chosen(parent) {
			return true
		}
	}
	return false
}

func isMapValue(n ast.Node) bool { _, ok := n.(*ast.KeyValueExpr); return ok }

func isConstant(n ast.Node) bool {
	declaration, ok := n.(*ast.GenDecl)
	return ok && declaration.Tok == token.CONST
}

func isReturned(n ast.Node) bool { _, ok := n.(*ast.ReturnStmt); return ok }

// isReason is a call of because, or a field lacks.
func isReason(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		name, ok := n.Fun.(*ast.Ident)
		return ok && (name.Name == "because" || name.Name == "tooLittle")
	case *ast.KeyValueExpr:
		name, ok := n.Key.(*ast.Ident)
		return ok && (name.Name == "lacks" || name.Name == "alone")
	}
	return false
}
