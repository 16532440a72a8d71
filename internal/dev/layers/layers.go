// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package layers judges the order of the files of a package: each file may use names of files below it. Names of files above it are
// exceptions, which a test counts.
package layers

import (
	"cmp"
	"fmt"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dray-project/dray/internal/dev/typed"
)

// Arrow is that a file uses names of another file. Files are without ".go".
type Arrow struct{ From, To string }

// String is "a uses b".
func (a Arrow) String() string { return a.From + " uses " + a.To }

// Order reads from the comment of a package which files there are, the lowest first: all indented lines below a heading, with names in
// the first column, separated by commas.
func Order(p *typed.Package, heading string) []string {
	var order []string
	for _, file := range p.Files {
		_, text, _ := strings.Cut(file.Doc.Text(), heading+"\n")
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "\t") {
				continue
			}
			names, _, _ := strings.Cut(strings.TrimPrefix(line, "\t"), "  ")
			for name := range strings.SplitSeq(names, ",") {
				order = append(order, strings.TrimSpace(name))
			}
		}
	}
	return order
}

// Arrows lists which file uses names of which, all of them and those that go up. Uses of fields count as well. The error names a file that
// is not in the order, or one of the order that is not there.
func Arrows(p *typed.Package, order []string) (all, up []Arrow, err error) {
	fileOf := func(at token.Pos) string {
		return strings.TrimSuffix(filepath.Base(p.Positions.Position(at).Filename), ".go")
	}
	place := make(map[string]int)
	for i, name := range order {
		place[name] = i
	}
	there := make(map[string]bool)
	for _, file := range p.Files {
		name := fileOf(file.Pos())
		if name == "doc" {
			continue
		}
		if _, known := place[name]; !known {
			return nil, nil, fmt.Errorf("file %s has no place in the order", name)
		}
		there[name] = true
	}
	for _, name := range order {
		if !there[name] {
			return nil, nil, fmt.Errorf("the order has %s, which is no file", name)
		}
	}
	arrows := make(map[Arrow]bool)
	for used, object := range p.Info.Uses {
		if object.Pkg() != p.Types {
			continue
		}
		from, to := fileOf(used.Pos()), fileOf(object.Pos())
		if from != to {
			arrows[Arrow{from, to}] = true
		}
	}
	all = slices.SortedFunc(maps.Keys(arrows), func(a, b Arrow) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	for _, a := range all {
		if place[a.From] < place[a.To] {
			up = append(up, a)
		}
	}
	return all, up, nil
}
