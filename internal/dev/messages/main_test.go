// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const program = `package p

import "a strange path/with words"

// A comment with words is no message.
type t struct {
	Field int ` + "`json:\"not a message\" other:\"not one\"`" + `
}

const reason = "nothing is left of it"

func f(name string, n int) error {
	_, _ = "one", n+1
	if name == "" {
		return errors.New("the name is missing: give" +
			" one")
	}
	return fmt.Errorf("claim %s: request: "+name+" wants %d devices, "+g("told inside of it")+", see spec.devices and dray explain: %w", n, err)
}

var many = ` + "`First line of help,\nand the second one.\n\n  dray indented -o yaml\n`" + `
var header = "PCIE ROOT"
var formats = "wide, json, yaml, name"
var known = "gpu config of others"
var quotes = "there is no \"config utilise\" in it"
`

// Literals of several words are read, sums as one, and what is no word is code.
func TestMessages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.go")
	if err := os.WriteFile(path, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	others := byOthers{"gpu config of others": false}
	messages, err := messagesOf(path, others)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range messages {
		got = append(got, fmt.Sprintf("%d: %s", m.line, m.prose))
	}
	want := []string{
		"10: nothing is left of it",
		"15: the name is missing: give one",
		"18: claim `%s`: request: `%s` wants `%d` devices, `%s`, see `spec.devices` and dray explain: `%w`",
		"18: told inside of it",
		"21: First line of help,",
		"21: and the second one.",
		"27: wide, `<json>`, `<yaml>`, name",
		"29: there is no `<\"config_utilise\">` in it",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !others["gpu config of others"] {
		t.Error("the message of others is not known")
	}
}

// fakeLinter is set in the process that stands for vale.
const fakeLinter = "FAKE_LINTER"

func TestMain(m *testing.M) {
	if output := os.Getenv(fakeLinter); output != "" {
		fmt.Println(output)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Complaints of the linter name the line in the Go file. Listed messages that no file has are an error.
func TestRun(t *testing.T) {
	folder := t.TempDir()
	path, others := filepath.Join(folder, "p.go"), filepath.Join(folder, "others.txt")
	if err := os.WriteFile(path, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		others, printed, want, err string
		complaints                 int
	}{
		{"", `{"stdin": [{"Line": 3, "Message": "too bad"}]}`, path + ":15: too bad, in: the name is missing: give one\n", "", 1},
		{"# Somebody.\ngpu config of others\n", `{}`, "", "", 0},
		{"what nobody says\n", `{}`, "", `others.txt: no file has ["what nobody says"]`, 0},
		{"", `no JSON`, "", "output: invalid character", 0},
	} {
		if err := os.WriteFile(others, []byte(test.others), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv(fakeLinter, test.printed)
		var out strings.Builder
		complaints, err := run(others, []string{os.Args[0]}, strings.NewReader(path+"\n"), &out)
		if complaints != test.complaints || out.String() != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%q: %d complaints, %q, error %v", test.others, complaints, out.String(), err)
		}
	}
}
