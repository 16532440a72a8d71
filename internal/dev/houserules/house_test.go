// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules

import (
	"strings"
	"testing"
)

func TestCodeLines(t *testing.T) {
	repository, err := Parse(map[string]string{
		"pools/a.go":      "// Package pools is code.\npackage pools\n\n/* two lines\nof a comment */\nvar a = `raw\n\n// text` // counted once\n\n\t// alone\nvar b = 1 + /* code\nbefore */ 1\n",
		"pools/a_test.go": "package pools\n",
		"cmd/b.go":        "package main\n\nfunc main() {\n}\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := repository.Files[1].CodeLines(); got != 6 {
		t.Errorf("%s has %d lines of code, want 6: package, three of a, two of b", repository.Files[1].Path, got)
	}
	var out strings.Builder
	repository.PrintRooms(&out)
	if want := "together: 12 lines, of which 6 are code\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("printed %q, want %q at the end", out.String(), want)
	}
}
