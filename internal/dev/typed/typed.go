// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package typed reads packages of this repository with their types, for tests that look at code.
package typed

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
	"runtime"
	"strings"
)

// Package is one with the files that are built here, without tests.
type Package struct {
	Path      string
	Positions *token.FileSet
	Files     []*ast.File
	Types     *types.Package
	Info      *types.Info // with Types, Defs and Uses
}

// Listed is what `go list -json` says of a package.
type Listed struct {
	ImportPath, Name, Dir, Export string
	GoFiles, TestGoFiles          []string
	// XTestGoFiles are those of the package with _test.
	XTestGoFiles []string
	ImportMap    map[string]string // for imports that mean another package
	DepOnly      bool
	Module       *struct{ Path string }
}

// List asks `go list` in a folder. Arguments are patterns, and flags before them.
func List(ctx context.Context, folder string, arguments ...string) ([]Listed, error) {
	return list(ctx, folder, nil, arguments...)
}

func list(ctx context.Context, folder string, environment []string, arguments ...string) ([]Listed, error) {
	const fields = "-json=ImportPath,Name,Dir,Export,GoFiles,TestGoFiles,XTestGoFiles,ImportMap,DepOnly,Module"
	command := exec.CommandContext(ctx, "go", append([]string{"list", fields}, arguments...)...)
	command.Dir, command.Env = folder, append(command.Environ(), environment...)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w: %s", strings.Join(arguments, " "), err, said.String())
	}
	var packages []Listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p Listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list %s: %w", strings.Join(arguments, " "), err)
		}
		packages = append(packages, p)
	}
}

// Load type-checks the packages that patterns name, as for go list in a folder, and that are wanted. What they import is built, not checked.
func Load(ctx context.Context, folder string, wanted func(path, module string) bool, patterns ...string) ([]*Package, error) {
	listed, err := List(ctx, folder, append([]string{"-export", "-deps", "--"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	exports := make(map[string]string)
	for _, p := range listed {
		exports[p.ImportPath] = p.Export
	}
	positions := token.NewFileSet()
	imports := importer.ForCompiler(positions, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("package %s was not built", path)
		}
		return os.Open(exports[path])
	})
	var packages []*Package
	for _, p := range listed {
		if p.DepOnly || len(p.GoFiles) == 0 || !wanted(p.ImportPath, p.Module.Path) {
			continue
		}
		checked, err := p.check(positions, imports)
		if err != nil {
			return nil, fmt.Errorf("package %s: %w", p.ImportPath, err)
		}
		packages = append(packages, checked)
	}
	return packages, nil
}

func (p *Listed) check(positions *token.FileSet, imports types.Importer) (*Package, error) {
	out := &Package{Path: p.ImportPath, Positions: positions, Info: &types.Info{
		Types: make(map[ast.Expr]types.TypeAndValue), Defs: make(map[*ast.Ident]types.Object), Uses: make(map[*ast.Ident]types.Object),
	}}
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(positions, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		out.Files = append(out.Files, file)
	}
	config := types.Config{Importer: imports}
	var err error
	out.Types, err = config.Check(p.ImportPath, positions, out.Files, out.Info)
	return out, err
}

// Check type-checks the packages that patterns name, as for go list in a folder, and compiles nothing: what they import is read from its
// source. Errors are about the types, and not about what only the compiler looks at.
func Check(ctx context.Context, folder string, patterns ...string) error {
	// The types of C are known to the compiler only.
	listed, err := list(ctx, folder, []string{"CGO_ENABLED=0"}, append([]string{"-deps", "--"}, patterns...)...)
	if err != nil {
		return err
	}
	positions, checked := token.NewFileSet(), imported{"unsafe": types.Unsafe}
	for _, p := range listed { // what a package imports comes before it
		if checked[p.ImportPath] != nil {
			continue
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(positions, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return fmt.Errorf("package %s: %w", p.ImportPath, err)
			}
			files = append(files, file)
		}
		config := types.Config{Importer: importMap{checked, p.ImportMap}, IgnoreFuncBodies: p.DepOnly, Sizes: types.SizesFor("gc", runtime.GOARCH)}
		if checked[p.ImportPath], err = config.Check(p.ImportPath, positions, files, nil); err != nil {
			return fmt.Errorf("package %s: %w", p.ImportPath, err)
		}
	}
	return nil
}

// imported has packages by path.
type imported map[string]*types.Package

// importMap imports what a package means by a path.
type importMap struct {
	imported
	other map[string]string
}

func (m importMap) Import(path string) (*types.Package, error) {
	if other := m.other[path]; other != "" {
		path = other
	}
	if p := m.imported[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("package %s was not checked", path)
}
