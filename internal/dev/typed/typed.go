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
	DepOnly      bool
	Module       *struct{ Path string }
}

// List asks `go list` in a folder. Arguments are patterns, and flags before them.
func List(ctx context.Context, folder string, arguments ...string) ([]Listed, error) {
	const fields = "-json=ImportPath,Name,Dir,Export,GoFiles,TestGoFiles,XTestGoFiles,DepOnly,Module"
	command := exec.CommandContext(ctx, "go", append([]string{"list", fields}, arguments...)...)
	command.Dir = folder
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
