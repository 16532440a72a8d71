// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package typed reads packages of this repository with their types, for tests that look at code.
package typed

import (
	"bytes"
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
)

// Package is one with the files that are built here, without tests.
type Package struct {
	Path      string
	Positions *token.FileSet
	Files     []*ast.File
	Types     *types.Package
	Info      *types.Info // with Uses
}

// listed is what `go list -json` says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
	Module                  *struct{ Path string }
}

// Load type-checks the packages that patterns name, as for go list in a folder, and that are wanted. What they import is built, not checked.
func Load(folder string, wanted func(path, module string) bool, patterns ...string) ([]*Package, error) {
	command := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly,Module"}, patterns...)...)
	command.Dir, command.Stderr = folder, os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := make(map[string]string)
	var own []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly && len(p.GoFiles) > 0 && wanted(p.ImportPath, p.Module.Path) {
			own = append(own, p)
		}
	}
	positions := token.NewFileSet()
	imports := importer.ForCompiler(positions, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("package %s was not built", path)
		}
		return os.Open(exports[path])
	})
	packages := make([]*Package, len(own))
	for i, p := range own {
		if packages[i], err = p.check(positions, imports); err != nil {
			return nil, fmt.Errorf("package %s: %w", p.ImportPath, err)
		}
	}
	return packages, nil
}

func (p *listed) check(positions *token.FileSet, imports types.Importer) (*Package, error) {
	out := &Package{Path: p.ImportPath, Positions: positions, Info: &types.Info{Uses: make(map[*ast.Ident]types.Object)}}
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
