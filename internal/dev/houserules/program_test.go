// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	program  = regexp.MustCompile("(?ms)^```go\n(package main\n.*?)^```$")
	promised = regexp.MustCompile(`(?m)^\t// Output:\n((?:\t// .*\n)+)`)
)

// TestPrograms builds the programs on the pages of docs as their readers do, in a module of their own, and compares
// what they print with the comment that says so.
func TestPrograms(t *testing.T) {
	found := 0
	for _, file := range checkout(t).Files {
		if file.Folder() != "docs" {
			continue
		}
		for _, match := range program.FindAllStringSubmatchIndex(file.Text, -1) {
			found++
			source := file.Text[match[2]:match[3]]
			want := promised.FindStringSubmatch(source)
			if want == nil {
				t.Errorf("%s:%d: the program does not say what it prints", file.Path, file.lineAt(match[0]))
				continue
			}
			if got, want := run(t, source), strings.ReplaceAll(want[1], "\t// ", ""); got != want {
				t.Errorf("%s:%d: the program prints\n%swant\n%s", file.Path, file.lineAt(match[0]), got, want)
			}
		}
	}
	if found == 0 {
		t.Error("docs has no program")
	}
}

// run is what a program prints.
func run(t *testing.T, source string) string {
	t.Helper()
	folder := consumerOf(t, source)
	runGo(t, folder, "mod", "edit", "-require", Module+"@v0.0.0", "-replace", Module+"="+absolute(t, root))
	runGo(t, folder, "build", "-o", "program", ".")
	printed, err := exec.Command(filepath.Join(folder, "program")).Output()
	if err != nil {
		t.Fatalf("the program: %v", err)
	}
	return string(printed)
}
