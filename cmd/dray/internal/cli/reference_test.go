// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

var available = regexp.MustCompile(`(?ms)^Available Commands:\n(.*?)\n\n`)

// TestReference compares the page of all commands with what they say of themselves.
func TestReference(t *testing.T) {
	var page strings.Builder
	page.WriteString("# All commands\n\nWhat each command says with `--help`. A test writes this page (`go test ./cmd/dray/internal/cli -run TestReference -rewrite`) and fails if it is not current.\n" +
		"[The command line](" + filepath.Base("docs/command-line.md") + ") explains input, output and exit status.\n")
	found := describe(t, &page, "dray")
	page.WriteString("\n## Flags of all commands\n\n```text\n" + help(t, "options") + "```\n")
	if found < 10 {
		t.Fatalf("only %d commands are found", found)
	}
	path := filepath.Join(repository, "docs/commands.md")
	if rewriting() {
		if err := os.WriteFile(path, []byte(page.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != page.String() {
		t.Error("docs/commands.md is not what the commands say: run the test with -rewrite")
	}
}

// describe writes a command and those below it, and returns how many these are.
func describe(t *testing.T, page *strings.Builder, command string) int {
	t.Helper()
	text := help(t, append(strings.Fields(command)[1:], "--help")...)
	fmt.Fprintf(page, "\n## %s\n\n```text\n%s```\n", command, text)
	found := 1
	if list := available.FindStringSubmatch(text); list != nil {
		for line := range strings.Lines(list[1]) {
			if name := strings.Fields(line)[0]; name != "help" && name != "options" {
				found += describe(t, page, command+" "+name)
			}
		}
	}
	return found
}

func help(t *testing.T, arguments ...string) string {
	t.Helper()
	text, status := runStatus("", append([]string{"dray"}, arguments...)...)
	if status != cli.ExitOK {
		t.Fatalf("dray %q ends with %d:\n%s", arguments, status, text)
	}
	return strings.TrimRight(text, "\n") + "\n"
}
