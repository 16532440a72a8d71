// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package publicapi

import (
	"context"
	"fmt"
	"go/ast"
	"go/doc"
	"strings"

	"github.com/dray-project/dray/internal/dev/typed"
)

// Package is one that others may import.
type Package struct {
	Path  string
	Doc   string // its first sentence
	Names []Name
}

// Name is one that a package exports.
type Name struct {
	Name     string
	Form     string // its declaration in one line, without what it has inside
	Doc      string // its first sentence
	Members  []string
	Internal []string // where it shows a type of a package that others may not import
}

// Load type-checks the packages below a folder that others may import.
func Load(ctx context.Context, root string) ([]Package, error) {
	loaded, err := typed.Load(ctx, root, isPublic, "./...")
	if err != nil {
		return nil, err
	}
	packages := make([]Package, len(loaded))
	for i, p := range loaded {
		if packages[i], err = read(p); err != nil {
			return nil, fmt.Errorf("package %s: %w", p.Path, err)
		}
	}
	return packages, nil
}

// isPublic leaves out commands, and what is for this repository alone.
func isPublic(path, module string) bool {
	below := strings.Split(strings.TrimPrefix(path, module), "/")
	for _, part := range below {
		switch part {
		case "internal", "cmd", "benchmarks", "examples":
			return false
		}
	}
	return true
}

func read(p *typed.Package) (Package, error) {
	documented, err := doc.NewFromFiles(p.Positions, p.Files, p.Path)
	if err != nil {
		return Package{}, err
	}
	sentences := sentences(documented)
	out := Package{Path: p.Path, Doc: documented.Synopsis(documented.Doc)}
	for _, name := range p.Types.Scope().Names() {
		if object := p.Types.Scope().Lookup(name); object.Exported() {
			out.Names = append(out.Names, describe(object, sentences))
		}
	}
	return out, nil
}

// sentences are the first ones of the comments of names. Methods have TYPE.METHOD as theirs.
func sentences(p *doc.Package) map[string]string {
	out := make(map[string]string)
	functions := func(prefix string, list []*doc.Func) {
		for _, f := range list {
			out[prefix+f.Name] = p.Synopsis(f.Doc)
		}
	}
	values := func(list []*doc.Value) {
		for _, v := range list {
			for _, spec := range v.Decl.Specs {
				spec := spec.(*ast.ValueSpec)
				text := spec.Doc.Text()
				if text == "" {
					text = spec.Comment.Text()
				}
				if text == "" {
					text = v.Doc
				}
				for _, name := range spec.Names {
					out[name.Name] = p.Synopsis(text)
				}
			}
		}
	}
	functions("", p.Funcs)
	values(p.Consts)
	values(p.Vars)
	for _, t := range p.Types {
		out[t.Name] = p.Synopsis(t.Doc)
		functions("", t.Funcs)
		functions(t.Name+".", t.Methods)
		values(t.Consts)
		values(t.Vars)
	}
	return out
}
