// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command messages has the linter of prose read what programs say: errors, reasons, notes and descriptions of flags.
// Its arguments are a file with messages that are as others say them, and a command line of vale. The names of the
// Go files come on standard input:
//
//	Go files ─► string literals of several words ─► Markdown, a paragraph each ─► vale ─► file:line: what is wrong
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "messages: want a file of messages, and the command line of vale")
		os.Exit(2)
	}
	complaints, err := run(os.Args[1], os.Args[2:], os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "messages:", err)
		os.Exit(2)
	}
	if complaints > 0 {
		os.Exit(1)
	}
}

// run returns how many complaints there are about the messages of the files.
func run(others string, linter []string, files io.Reader, out io.Writer) (int, error) {
	as, err := readOthers(others)
	if err != nil {
		return 0, err
	}
	var messages []message
	for names := bufio.NewScanner(files); names.Scan(); {
		found, err := messagesOf(names.Text(), as)
		if err != nil {
			return 0, err
		}
		messages = append(messages, found...)
	}
	if len(messages) == 0 {
		return 0, errors.New("the files have no messages")
	}
	if stale := as.unused(); len(stale) > 0 {
		return 0, fmt.Errorf("%s: no file has %q", others, stale)
	}
	alerts, err := lint(linter, document(messages))
	for _, a := range alerts {
		m := messages[(a.Line-1)/linesOfMessage]
		fmt.Fprintf(out, "%s:%d: %s, in: %s\n", m.file, m.line, a.Message, m.prose)
	}
	return len(alerts), err
}

// byOthers are messages that are as others say them, and whether a file has them.
type byOthers map[string]bool

// readOthers reads a message a line.
func readOthers(path string) (byOthers, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	as := make(byOthers)
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "# ") {
			as[line] = false
		}
	}
	return as, nil
}

// has reports whether a message is as others say it, which is then used.
func (b byOthers) has(text string) bool {
	_, found := b[text]
	if found {
		b[text] = true
	}
	return found
}

func (b byOthers) unused() []string {
	var list []string
	for text, used := range b {
		if !used {
			list = append(list, text)
		}
	}
	slices.Sort(list)
	return list
}

// linesOfMessage is how many lines of the document a message takes: its own, and an empty one.
const linesOfMessage = 2

func document(messages []message) string {
	var text strings.Builder
	for _, m := range messages {
		text.WriteString(m.prose + "\n\n")
	}
	return text.String()
}

// alert is a complaint of vale.
type alert struct {
	Line    int
	Message string
}

// lint has vale read a document in Markdown.
func lint(linter []string, document string) ([]alert, error) {
	command := exec.Command(linter[0], append(linter[1:], "--output=JSON", "--ext=.md", "--no-exit")...)
	command.Stdin = strings.NewReader(document)
	var complaint bytes.Buffer
	command.Stderr = &complaint
	printed, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s%s", linter[0], err, complaint.String(), printed)
	}
	var byFile map[string][]alert
	if err := json.Unmarshal(printed, &byFile); err != nil {
		return nil, fmt.Errorf("%s: output: %w", linter[0], err)
	}
	var alerts []alert
	for _, found := range byFile {
		alerts = append(alerts, found...)
	}
	return alerts, nil
}
