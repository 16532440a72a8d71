// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"
)

// directive is one command of a scenario file in the format of datadriven:
//
//	command arguments...
//	input
//	----
//	expected
//
// datadriven itself only reads files inside a test and stops a file at its first
// difference; scenarios are also data for programs, hence this second reader.
type directive struct {
	line     int
	command  string
	args     []datadriven.CmdArg
	input    []source
	expected string
}

const separator = "----"

type directiveReader struct {
	lines []string
	next  int
}

func readDirectives(text string) ([]directive, error) {
	r := directiveReader{lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
	var all []directive
	for r.next < len(r.lines) {
		line := strings.TrimSpace(r.lines[r.next])
		if line == "" || strings.HasPrefix(line, "#") {
			r.next++
			continue
		}
		d, err := r.directive()
		if err != nil {
			return nil, at(d.line, err)
		}
		all = append(all, d)
	}
	return all, nil
}

func (r *directiveReader) directive() (directive, error) {
	d := directive{line: r.next + 1}
	var err error
	if d.command, d.args, err = datadriven.ParseLine(r.command()); err != nil {
		return d, err
	}
	for ; ; r.next++ {
		if r.next == len(r.lines) {
			return d, fmt.Errorf("%s: no %s before the end of the file", d.command, separator)
		}
		if r.lines[r.next] == separator {
			r.next++
			break
		}
		d.input = append(d.input, source{r.next + 1, r.lines[r.next]})
	}
	d.expected, err = r.expected()
	return d, err
}

// command takes a command line with its continuations.
func (r *directiveReader) command() string {
	line := strings.TrimSpace(r.lines[r.next])
	r.next++
	for strings.HasSuffix(line, `\`) && r.next < len(r.lines) {
		line = strings.TrimSuffix(line, `\`) + " " + strings.TrimSpace(r.lines[r.next])
		r.next++
	}
	return line
}

func (r *directiveReader) expected() (string, error) {
	var b strings.Builder
	for ; r.next < len(r.lines) && strings.TrimSpace(r.lines[r.next]) != ""; r.next++ {
		if r.lines[r.next] == separator {
			return "", &located{r.next + 1, errors.New("expected output has a second " + separator)}
		}
		b.WriteString(r.lines[r.next] + "\n")
	}
	return b.String(), nil
}
