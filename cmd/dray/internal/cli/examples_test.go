// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// Files in testdata/examples are named after an example and hold commands, without the
// -f that reads the example, and what they print.
func TestExamples(t *testing.T) {
	files, err := filepath.Abs("testdata/examples")
	if err != nil {
		t.Fatal(err)
	}
	atRepository(t)
	datadriven.Walk(t, files, func(t *testing.T, path string) {
		example := filepath.Join("examples", filepath.Base(path))
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			arguments := append(strings.Fields(d.Input), "-f", example)
			output := run("", arguments...)
			if !strings.Contains(d.Input, " -o ") {
				fits(t, output)
			}
			return output
		})
	})
}

// The pods that simulate plan places on the nodes there are, are those that allocate places. With more nodes, more pods have a place.
func TestPlanLikeAllocate(t *testing.T) {
	atRepository(t)
	examples, err := filepath.Glob("examples/*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	summary := regexp.MustCompile(`(\d+) of \d+ pods? placed\.`)
	rows, more := 0, 0
	for _, example := range examples {
		said := summary.FindStringSubmatch(run("", "dray", "allocate", "-f", filepath.Dir(example)))
		if said == nil {
			continue // claims without pods
		}
		allocated, err := strconv.Atoi(said[1])
		if err != nil {
			t.Fatal(err)
		}
		out := run("", "dray", "simulate", "plan", "--no-headers", "-f", filepath.Dir(example))
		for row := range strings.Lines(out) {
			var like string
			var nodes, placed, unplaced, undecided int
			if n, _ := fmt.Sscan(row, &like, &nodes, &placed, &unplaced, &undecided); n < 5 {
				continue // what is not looked at
			}
			if rows++; nodes > 0 {
				more++
			}
			if (nodes == 0) != (placed == allocated) || placed < allocated {
				t.Errorf("%s: %q, and allocate places %d", example, row, allocated)
			}
		}
	}
	if rows < 100 || more < 10 {
		t.Errorf("%d rows, %d with more nodes", rows, more)
	}
}

// Files in testdata/input hold manifests, read from standard input, and what
// dray does with them. The command's arguments are those of dray.
func TestInput(t *testing.T) {
	datadriven.Walk(t, "testdata/input", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			arguments := []string{"dray", d.Cmd}
			for _, argument := range d.CmdArgs {
				arguments = append(arguments, argument.String())
			}
			return run(d.Input, append(arguments, "-f", "-")...)
		})
	})
}
