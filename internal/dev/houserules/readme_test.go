// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadmeCommands runs the console sessions of the READMEs where their
// readers run them: at the root of a checkout in which bin/dray is built.
func TestReadmeCommands(t *testing.T) {
	documents := readmes(checkout(t))
	folder := builtCheckout(t)
	for _, document := range documents {
		t.Run(document.Path, func(t *testing.T) {
			commands, err := Commands(document)
			if err != nil {
				t.Fatal(err)
			}
			if len(commands) == 0 && document.Folder() != "docs" {
				t.Error("it has no console session")
			}
			for _, command := range commands {
				if err := runCommand(folder, command); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// readmes are the README of the repository, those of the examples, and the pages of docs.
func readmes(r *Repository) []*File {
	var found []*File
	for _, file := range r.Files {
		example, _ := path.Match("examples/*/README.md", file.Path)
		if page := file.Folder() == "docs" && strings.HasSuffix(file.Path, ".md"); page || example || file.Path == "README.md" {
			found = append(found, file)
		}
	}
	return found
}

// builtCheckout looks like the checkout after `make build`, without writing
// to the checkout.
func builtCheckout(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Name() == "bin" || entry.Name() == ".git" {
			continue
		}
		if err := os.Symlink(absolute(t, filepath.Join(root, entry.Name())), filepath.Join(folder, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", filepath.Join(folder, "bin", "dray"), "./cmd/dray")
	build.Dir = root
	if printed, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, printed)
	}
	return folder
}

// runCommand is nil if the command does in folder what the document promises.
func runCommand(folder string, command Command) error {
	shell := exec.Command("bash", "-euo", "pipefail", "-c", command.Script)
	shell.Dir = folder
	shell.Env = append(os.Environ(), "NO_COLOR=1", "COLUMNS=80", "PATH="+filepath.Join(folder, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	var failure strings.Builder
	shell.Stderr = &failure
	printed, err := shell.Output()
	if exited := (&exec.ExitError{}); err != nil && !errors.As(err, &exited) {
		return fmt.Errorf("%s:%d: %w", command.Path, command.Line, err)
	}
	if status := shell.ProcessState.ExitCode(); status != command.Exit {
		return fmt.Errorf("%s:%d: exit status %d, want %d\n%s%s", command.Path, command.Line, status, command.Exit, printed, failure.String())
	}
	if !command.Shows(string(printed)) {
		return fmt.Errorf("%s:%d: printed something other than the document shows:\n%s", command.Path, command.Line, printed)
	}
	return nil
}

func TestRunCommand(t *testing.T) {
	for name, c := range map[string]struct {
		command Command
		want    string
	}{
		"as promised":    {Command{Script: "echo one; exit 3", Exit: 3, Output: "one\n"}, ""},
		"another status": {Command{Script: "false", Exit: 2}, "exit status 1, want 2"},
		"another output": {Command{Script: "echo two", Output: "one\n"}, "something other"},
		"a failing line": {Command{Script: "false\ntrue"}, "exit status 1, want 0"},
	} {
		err := runCommand(t.TempDir(), c.command)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestDocumentsWithCommands(t *testing.T) {
	repository, err := Parse(map[string]string{"README.md": "", "examples/a/README.md": "", "examples/a/b/README.md": "", "docs/start.md": "", "docs/decisions/README.md": "", "agent/README.md": ""})
	if err != nil {
		t.Fatal(err)
	}
	if found := readmes(repository); len(found) != 3 {
		t.Errorf("found %d documents with commands, want 3", len(found))
	}
}
