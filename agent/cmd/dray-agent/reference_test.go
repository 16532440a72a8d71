// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write docs/agent-commands.md anew")

// TestReference compares docs/agent-commands.md with what the commands say of themselves. Each has examples and says
// how it ends.
func TestReference(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	t.Setenv("POD_UID", "")
	const path = "../../../docs/agent-commands.md"
	page := "# Commands of dray-agent\n\nWhat each command says with `--help`. A test writes this page (`cd agent && go test ./cmd/dray-agent -run TestReference -rewrite`) and\n" +
		"fails if it is not current. [The node side](" + filepath.Base("docs/agent.md") + ") explains what the agent does.\n"
	for _, name := range []string{"", "run", "scan", "simulate"} {
		help, err := execute(t, strings.Fields(name+" --help")...)
		if err != nil {
			t.Fatal(err)
		}
		// The flags of the log are those of each program of Kubernetes.
		help, _, _ = strings.Cut(help, "\nGlobal Flags:")
		for _, part := range []string{"\nExamples:\n", "\nExit status: 0"} {
			if name != "" && !strings.Contains(help, part) {
				t.Errorf("%s: the help has no %q", name, part)
			}
		}
		page += "\n## " + strings.TrimSpace("dray-agent "+name) + "\n\n```text\n" + help + "```\n"
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if written, err := os.ReadFile(path); err != nil || string(written) != page {
		t.Errorf("docs/agent-commands.md is not what the commands say (error %v): run the test with -rewrite", err)
	}
}
