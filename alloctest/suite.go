// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"embed"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"strings"
	"sync"
)

//go:embed scenarios/*.txt
var embedded embed.FS

//go:embed rules.md
var rulesText string

var suite = sync.OnceValues(func() ([]Scenario, error) { return parseFolder(embedded, "scenarios") })

// Scenarios yields the suite, file by file in the order of their names, scenarios in
// the order of their lines. The cases are shared: do not modify them. It is safe for
// concurrent use.
func Scenarios() iter.Seq[Scenario] {
	all, err := suite()
	if err != nil {
		// The files are part of this package, whose tests parse them.
		panic(fmt.Sprintf("alloctest: %v", err))
	}
	return func(yield func(Scenario) bool) {
		for _, s := range all {
			if !yield(s) {
				return
			}
		}
	}
}

func parseFolder(files fs.FS, folder string) ([]Scenario, error) {
	names, err := fs.Glob(files, path.Join(folder, "*.txt"))
	if err != nil {
		return nil, err
	}
	var all []Scenario
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		scenarios, err := Parse(topic(name), string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, scenarios...)
	}
	return all, nil
}

func topic(file string) string { return strings.TrimSuffix(path.Base(file), ".txt") }

// Rule is one sentence about allocation that scenarios prove.
type Rule struct {
	ID       string // such as pools.order
	Sentence string
}

// Rules yields the rules of alloctest/rules.md in order.
func Rules() iter.Seq[Rule] {
	return func(yield func(Rule) bool) {
		for line := range strings.Lines(rulesText) {
			item, isRule := strings.CutPrefix(line, "- `")
			id, sentence, found := strings.Cut(item, "`: ")
			if isRule && found && !yield(Rule{ID: id, Sentence: strings.TrimSpace(sentence)}) {
				return
			}
		}
	}
}
