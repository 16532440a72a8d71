// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Module is the path of this repository's main module. Modules nested in it
// have paths below.
const Module = "github.com/dray-project/dray"

// Repository is the text of a checkout, in the order of paths.
type Repository struct {
	Files []*File
}

// File is one text file.
type File struct {
	Path      string // relative to the root, with forward slashes
	Text      string
	Syntax    *ast.File // nil unless it is Go
	positions *token.FileSet
}

// Load reads the checkout below root. Version control, built binaries and
// files that are not text are left out.
func Load(root string) (*Repository, error) {
	texts := make(map[string]string)
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".git" || name == "bin":
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil // a worktree has a file named .git
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if bytes.ContainsRune(content, 0) {
			content = nil // of a picture, only the name counts
		}
		texts[name] = string(content)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the checkout: %w", err)
	}
	return Parse(texts)
}

// Parse makes a repository of file contents by path.
func Parse(texts map[string]string) (*Repository, error) {
	repository := &Repository{}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		file := &File{Path: name, Text: texts[name], positions: token.NewFileSet()}
		if strings.HasSuffix(name, ".go") && !strings.Contains(name, "testdata/") {
			syntax, err := parser.ParseFile(file.positions, name, file.Text, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, fmt.Errorf("parse Go source: %w", err)
			}
			file.Syntax = syntax
		}
		repository.Files = append(repository.Files, file)
	}
	return repository, nil
}

// Has tells whether path is a file or folder of the repository.
func (r *Repository) Has(path string) bool {
	return slices.ContainsFunc(r.Files, func(f *File) bool {
		return f.Path == path || strings.HasPrefix(f.Path, path+"/")
	})
}

// GoFiles are the Go files that people wrote.
func (r *Repository) GoFiles() []*File {
	return slices.DeleteFunc(slices.Clone(r.Files), func(f *File) bool {
		return f.Syntax == nil || ast.IsGenerated(f.Syntax)
	})
}

// Folder is where the file lies.
func (f *File) Folder() string { return path.Dir(f.Path) }

// IsTest tells whether only tests see the file.
func (f *File) IsTest() bool { return strings.HasSuffix(f.Path, "_test.go") }

// Lines is the number of lines in the file.
func (f *File) Lines() int { return strings.Count(f.Text, "\n") }

// CodeLines is the number of lines that are neither blank nor comments alone.
func (f *File) CodeLines() int {
	files := token.NewFileSet()
	file := files.AddFile(f.Path, -1, len(f.Text))
	var s scanner.Scanner
	s.Init(file, []byte(f.Text), nil, 0)
	code := make(map[int]bool)
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return len(code)
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue // inserted at the end of a line
		}
		first := file.Line(pos)
		for line := range 1 + strings.Count(text, "\n") {
			code[first+line] = true
		}
	}
}

// line is where node starts.
func (f *File) line(node ast.Node) int { return f.positions.Position(node.Pos()).Line }

// lineAt is the line of a byte offset into the text.
func (f *File) lineAt(offset int) int { return 1 + strings.Count(f.Text[:offset], "\n") }

// within tells whether path is folder or lies below it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}
