// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// describe writes a mutant as a difference.
func (r *runner) describe(m mutant, id int, what string) string {
	return fmt.Sprintf("%s:%d: mutant %d, %s: %s\n%s", r.relative(m.path), m.line, id, m.rule, what, difference(m))
}

func (r *runner) relative(path string) string {
	if root, err := filepath.Abs(r.dir); err == nil {
		if relative, err := filepath.Rel(root, path); err == nil {
			return relative
		}
	}
	return path
}

func difference(m mutant) string {
	var b strings.Builder
	for _, half := range []struct{ sign, text string }{{"-", m.before}, {"+", m.after}} {
		if half.text == "" {
			continue
		}
		for line := range strings.Lines(half.text) {
			fmt.Fprintf(&b, "%s %s\n", half.sign, strings.TrimRight(line, "\n"))
		}
	}
	return b.String()
}

var described = regexp.MustCompile(`(?m)^(\S+):(\d+): mutant \d+, ([^:\n]+): .*\n((?:[-+] .*\n)+)`)

// named finds the mutants that describe wrote: in the same package, with the same difference. The file may have another
// name since, and the line another number: the nearest line is taken. It says which are gone.
func (r *runner) named(all []mutant, printed string) []mutant {
	var found []mutant
	for _, fields := range described.FindAllStringSubmatch(printed, -1) {
		path, rule, text := fields[1], fields[3], fields[4]
		line, _ := strconv.Atoi(fields[2]) // The expression says that it is a number.
		distance := func(m mutant) int {
			if r.relative(m.path) != path {
				return 1 << 20
			}
			return max(m.line-line, line-m.line)
		}
		var like []mutant
		for _, m := range all {
			if filepath.Dir(r.relative(m.path)) == filepath.Dir(path) && m.rule == rule && difference(m) == text {
				like = append(like, m)
			}
		}
		if len(like) == 0 {
			fmt.Fprintf(r.log, "gone: %s", fields[0])
			continue
		}
		found = append(found, slices.MinFunc(like, func(a, b mutant) int { return distance(a) - distance(b) }))
	}
	return found
}
