// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package publicapi

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	root   = "../../.."
	module = "github.com/dray-project/dray"
	path   = root + "/" + "docs/api.md"
)

var rewrite = flag.Bool("rewrite", false, "write docs/api.md anew")

// TestPage compares the page with what the library exports.
func TestPage(t *testing.T) {
	packages, err := Load(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	users, err := FindUsers(root, packages)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("reasons.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var reasons Reasons
	if err := yaml.UnmarshalStrict(text, &reasons); err != nil {
		t.Fatal(err)
	}
	page, faults := Page(module, packages, users, reasons)
	for _, fault := range faults {
		t.Error(fault)
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != page {
		t.Error("docs/api.md is not what the library exports: go test ./internal/dev/publicapi -rewrite")
	}
}

// shelf is a module with faults.
var shelf = map[string]string{
	"go.mod":                    "module example.com/shelf\n\ngo 1.26\n",
	"internal/hidden/hidden.go": "// Package hidden is for the module alone.\npackage hidden\n\n// Page is one.\ntype Page struct{}\n",
	"books/books.go": `// Package books has names with faults.
package books

import "example.com/shelf/internal/hidden"

// Used is used, and shows what it should not.
type Used struct {
	Back *hidden.Page
	With Part
}

// Open shows a type that is not exported.
func (u *Used) Open() []mark { return nil }

// Part is met by those who use Used.
type Part struct{}

type mark struct{}

// Alone is used by nobody.
func Alone() {}

func (Part) silent() {}

type Silent = Part
`,
}

// TestFaults: what the page must not have is found.
func TestFaults(t *testing.T) {
	folder := t.TempDir()
	for name, text := range shelf {
		if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	packages, err := Load(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	users, err := FindUsers(folder, packages)
	if err != nil {
		t.Fatal(err)
	}
	users["example.com/shelf/books"]["Used"] = []string{"a product"}
	_, faults := Page("example.com/shelf", packages, users, Reasons{"books.Used": "a wish", "books.Gone": "a wish"})
	want := []string{
		"books.Alone is used by no product, and has no reason",
		"books.Silent has no comment",
		"books.Silent is used by no product, and has no reason",
		"books.Used has a reason, and is used by a product: the reason is not needed",
		"books: Used.Back shows example.com/shelf/internal/hidden.Page",
		"books: Used.Open shows mark, which is not exported",
		"there is a reason for books.Gone, which is not there",
	}
	slices.Sort(faults)
	if !slices.Equal(faults, want) {
		t.Errorf("faults:\n%s\nwant:\n%s", strings.Join(faults, "\n"), strings.Join(want, "\n"))
	}
}
