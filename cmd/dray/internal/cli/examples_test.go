// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"path/filepath"
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
