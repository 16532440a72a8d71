// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// source is a package with its types.
type source struct {
	path  string
	name  string
	dir   string
	fset  *token.FileSet
	types *types.Package
	info  *types.Info
	files []file
}

type file struct {
	path string
	text []byte
	tree *ast.File
}

// listed is what `go list` says of a package.
type listed struct {
	ImportPath  string
	Name        string
	Dir         string
	Export      string
	GoFiles     []string
	TestGoFiles []string
	// XTestGoFiles are those of the package with _test.
	XTestGoFiles []string
	DepOnly      bool
}

// list asks `go list` in dir for the packages of patterns, and for what they import if deps is set.
func list(ctx context.Context, dir string, deps bool, patterns ...string) ([]listed, error) {
	args := []string{"list", "-json=ImportPath,Name,Dir,Export,GoFiles,TestGoFiles,XTestGoFiles,DepOnly"}
	if deps {
		args = append(args, "-export", "-deps")
	}
	cmd := exec.CommandContext(ctx, "go", append(append(args, "--"), patterns...)...)
	cmd.Dir = dir
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w: %s", strings.Join(patterns, " "), err, said.String())
	}
	var packages []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list %s: %w", strings.Join(patterns, " "), err)
		}
		packages = append(packages, p)
	}
}

// load reads the packages of patterns, which may be changed, with the types of all expressions.
func load(ctx context.Context, dir string, patterns []string) ([]source, error) {
	packages, err := list(ctx, dir, true, patterns...)
	if err != nil {
		return nil, err
	}
	exports := make(map[string]string, len(packages))
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var sources []source
	for _, p := range packages {
		if p.DepOnly {
			continue
		}
		s, err := check(fset, imports, p)
		if err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	return sources, nil
}

func check(fset *token.FileSet, imports types.Importer, p listed) (source, error) {
	s := source{path: p.ImportPath, name: p.Name, dir: p.Dir, fset: fset, info: &types.Info{
		Types: make(map[ast.Expr]types.TypeAndValue),
		Defs:  make(map[*ast.Ident]types.Object),
		Uses:  make(map[*ast.Ident]types.Object),
	}}
	var trees []*ast.File
	for _, name := range p.GoFiles {
		path := filepath.Join(p.Dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return source{}, err
		}
		tree, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return source{}, err
		}
		trees = append(trees, tree)
		s.files = append(s.files, file{path: path, text: text, tree: tree})
	}
	checked, err := (&types.Config{Importer: imports}).Check(p.ImportPath, fset, trees, s.info)
	if err != nil {
		return source{}, fmt.Errorf("package %s: %w", p.ImportPath, err)
	}
	s.types = checked
	return s, nil
}
