// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// forwarded is a package of a program whose sources are replaced by the names that it exports,
// with Dray's package behind them. Its own tests run then on Dray's package, as far as they use
// nothing else.
type forwarded struct {
	folder  string // of the package, in the program
	adapter string // the folder below testdata with the names
	// LeftOut are functions of the tests that cannot be compiled, by file, with why. "" stands
	// for all of a file.
	LeftOut map[string]map[string]string
}

// leftOut are the tests of a program that are not run, with why, and where they are. What tests call is not among them.
func (p *Program) leftOut() (from string, tests map[string]string) {
	var folders []string
	tests = make(map[string]string)
	for _, f := range p.Forwarded {
		if len(f.LeftOut) > 0 {
			folders = append(folders, f.folder)
		}
		for file, functions := range f.LeftOut {
			for function, why := range functions {
				switch {
				case function == "":
					tests[path.Join(f.folder, file)] = why
				case strings.HasPrefix(function, "Test"):
					tests[function] = why
				}
			}
		}
	}
	return strings.Join(folders, ", "), tests
}

// layOut leaves the tests out that cannot be compiled. In the run without Dray that is done,
// too, but for what tests call.
func (f forwarded) layOut(folder string, swap bool) error {
	folder = filepath.Join(folder, f.folder)
	for file, functions := range f.LeftOut {
		if err := leaveOut(filepath.Join(folder, file), functions, swap); err != nil {
			return err
		}
	}
	if !swap {
		return nil
	}
	sources, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return err
	}
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		if err := os.Remove(source); err != nil {
			return err
		}
	}
	names, err := fs.Sub(adapters, path.Join("testdata", f.adapter))
	if err != nil {
		return err
	}
	return os.CopyFS(folder, names)
}

func leaveOut(file string, functions map[string]string, called bool) error {
	if functions[""] != "" {
		return os.Remove(file)
	}
	cut := make(map[string]string)
	for function, why := range functions {
		if called || strings.HasPrefix(function, "Test") {
			cut[function] = why
		}
	}
	source, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, had, err := without(source, cut)
	if err == nil && len(had) < len(cut) {
		err = fmt.Errorf("of the functions %q only %q are there", slices.Sorted(maps.Keys(cut)), had)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, text, 0o644)
}
