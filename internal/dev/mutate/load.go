// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"go/ast"
	"go/token"
	"go/types"
	"os"

	"github.com/dray-project/dray/internal/dev/typed"
)

// source is a package with its types.
type source struct {
	path  string
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

// load reads the packages of patterns, which may be changed, with the types of all expressions.
func load(ctx context.Context, dir string, patterns []string) ([]source, error) {
	packages, err := typed.Load(ctx, dir, func(string, string) bool { return true }, patterns...)
	if err != nil {
		return nil, err
	}
	sources := make([]source, len(packages))
	for i, p := range packages {
		sources[i] = source{path: p.Path, fset: p.Positions, types: p.Types, info: p.Info}
		for _, tree := range p.Files {
			path := p.Positions.Position(tree.FileStart).Filename
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			sources[i].files = append(sources[i].files, file{path: path, text: text, tree: tree})
		}
	}
	return sources, nil
}
