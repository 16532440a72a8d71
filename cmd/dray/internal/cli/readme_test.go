// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dray-project/dray/cmd/dray/internal/cli"
)

// session is a block of commands with their output; the mark says with which status the
// last of them exits, as in "```console exit=1".
var session = regexp.MustCompile("(?ms)^```console[^\n]*\n(.*?)^```$")

const prompt = "$ "

// Each README below examples/ shows commands with their output. Run with -rewrite to
// bring the output up to date.
func TestREADMEs(t *testing.T) {
	atRepository(t)
	readmes, err := filepath.Glob("examples/*/README.md")
	if err != nil || len(readmes) < 7 {
		t.Fatalf("found %d READMEs, error %v", len(readmes), err)
	}
	for _, path := range readmes {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) { checkREADME(t, path) })
	}
}

func checkREADME(t *testing.T, path string) {
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := string(content)
	got := replay(t, want)
	if rewriting() {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s does not show what the commands print (-README +commands):\n%s", path, diff)
	}
}

// rewriting reports whether the flag that datadriven defines is set.
func rewriting() bool {
	defined := flag.Lookup("rewrite")
	return defined != nil && defined.Value.String() == "true"
}

// replay returns the README with the output of its commands replaced.
func replay(t *testing.T, readme string) string {
	t.Helper()
	if !session.MatchString(readme) {
		t.Error("no command is shown")
	}
	return session.ReplaceAllStringFunc(readme, func(block string) string {
		var commands strings.Builder
		last := cli.ExitOK
		for line := range strings.SplitSeq(session.FindStringSubmatch(block)[1], "\n") {
			if command, isCommand := strings.CutPrefix(line, prompt); isCommand {
				if last != cli.ExitOK {
					t.Errorf("only the last command of a block may fail: put %s into another", command)
				}
				var output string
				output, last = standardOutput(strings.Fields(command)...)
				fits(t, output)
				commands.WriteString(line + "\n" + output)
			}
		}
		mark := ""
		if last != cli.ExitOK {
			mark = fmt.Sprintf(" exit=%d", last)
		}
		return "```console" + mark + "\n" + commands.String() + "```"
	})
}
