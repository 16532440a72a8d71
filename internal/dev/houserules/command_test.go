// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules

import (
	"strings"
	"testing"
)

const sessions = "# A\n" +
	"```console exit=1\n$ true\n$ false \\\n  --twice\none\n...\nlast\n```\n" +
	"```sh\nnever-run\n```\n" +
	"```console\n$ true\n```\n"

func commandsIn(t *testing.T, text string) ([]Command, error) {
	t.Helper()
	repository, err := Parse(one("README.md", text))
	if err != nil {
		t.Fatal(err)
	}
	return Commands(repository.Files[0])
}

func TestCommands(t *testing.T) {
	commands, err := commandsIn(t, sessions)
	if err != nil {
		t.Fatal(err)
	}
	want := []Command{
		{Path: "README.md", Line: 3, Script: "true\n"},
		{Path: "README.md", Line: 4, Script: "false \\\n  --twice\n", Output: "one\n...\nlast\n", Exit: 1},
		{Path: "README.md", Line: 14, Script: "true\n"},
	}
	if len(commands) != len(want) {
		t.Fatalf("got %d commands, want %d: %+v", len(commands), len(want), commands)
	}
	for i := range want {
		if commands[i] != want[i] {
			t.Errorf("command %d: got %+v, want %+v", i, commands[i], want[i])
		}
	}
}

func TestShows(t *testing.T) {
	command := Command{Output: "one\n...\nlast\n"}
	for printed, want := range map[string]bool{
		"one\nlast\n":             true,
		"one\ntwo\nthree\nlast\n": true,
		"one \nlast\n\n":          true,
		"one\ntwo\n":              false,
		"zero\none\nlast\n":       false,
		"":                        false,
	} {
		if command.Shows(printed) != want {
			t.Errorf("Shows(%q) = %t", printed, !want)
		}
	}
	silent := Command{}
	if !silent.Shows("") || silent.Shows("one\n") {
		t.Error("a command without output must print nothing")
	}
}

func TestCommandsRefuse(t *testing.T) {
	for text, want := range map[string]string{
		"```console twice\n$ true\n```\n": `unknown mark "twice"`,
		"```console\ntrue\n```\n":         "does not begin with a command",
		"```console\n```\n":               "has no command",
	} {
		if _, err := commandsIn(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %q", text, err, want)
		}
	}
}
