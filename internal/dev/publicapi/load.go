// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package publicapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
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

// listed is what `go list -json` says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
	Module                  *struct{ Path string }
}

// Load type-checks the packages below a folder that others may import.
func Load(root string) ([]Package, error) {
	command := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly,Module", "./...")
	command.Dir, command.Stderr = root, os.Stderr
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
		if !p.DepOnly && isPublic(p.ImportPath, p.Module.Path) && len(p.GoFiles) > 0 {
			own = append(own, p)
		}
	}
	files := token.NewFileSet()
	imports := importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("package %s was not built", path)
		}
		return os.Open(exports[path])
	})
	var packages []Package
	for _, p := range own {
		read, err := p.read(files, imports)
		if err != nil {
			return nil, fmt.Errorf("package %s: %w", p.ImportPath, err)
		}
		packages = append(packages, read)
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

func (p *listed) read(files *token.FileSet, imports types.Importer) (Package, error) {
	var syntax []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			return Package{}, err
		}
		syntax = append(syntax, file)
	}
	config := types.Config{Importer: imports}
	checked, err := config.Check(p.ImportPath, files, syntax, nil)
	if err != nil {
		return Package{}, err
	}
	documented, err := doc.NewFromFiles(files, syntax, p.ImportPath)
	if err != nil {
		return Package{}, err
	}
	sentences := sentences(documented)
	out := Package{Path: p.ImportPath, Doc: documented.Synopsis(documented.Doc)}
	for _, name := range checked.Scope().Names() {
		if object := checked.Scope().Lookup(name); object.Exported() {
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
