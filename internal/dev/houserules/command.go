// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Command is a line of a console session in a document, which promises to work:
//
//	```console exit=1
//	$ dray allocate -f examples/single-gpu
//	what it writes to its standard output,
//	...
//	where a line of three dots stands for any lines
//	```
//
// It runs in bash, from the repository's root after `make build`, with bin in
// the PATH. The block's last command exits with the status named, 0 if none
// is; the others with 0.
type Command struct {
	Path   string
	Line   int
	Script string
	Output string
	Exit   int
}

var (
	session = regexp.MustCompile("(?ms)^```console([^\n`]*)\n(.*?)^```[ \t]*$")
	exit    = regexp.MustCompile(`^(?:exit=([0-9]+))?$`)
)

// Commands are those of all console sessions in a document.
func Commands(f *File) ([]Command, error) {
	var commands []Command
	for _, at := range session.FindAllStringSubmatchIndex(f.Text, -1) {
		mark, body := strings.TrimSpace(f.Text[at[2]:at[3]]), f.Text[at[4]:at[5]]
		found, err := parseSession(mark, body)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: console session: %w", f.Path, f.lineAt(at[0]), err)
		}
		for _, command := range found {
			command.Path = f.Path
			command.Line += f.lineAt(at[4])
			commands = append(commands, command)
		}
	}
	return commands, nil
}

// parseSession returns commands with lines from 0.
func parseSession(mark, body string) ([]Command, error) {
	status := exit.FindStringSubmatch(mark)
	if status == nil {
		return nil, fmt.Errorf("unknown mark %q", mark)
	}
	var commands []Command
	number := 0
	for line := range strings.Lines(body) {
		if script, ok := strings.CutPrefix(line, "$ "); ok {
			commands = append(commands, Command{Line: number, Script: script})
		} else if len(commands) == 0 {
			return nil, errors.New("does not begin with a command")
		} else {
			commands[len(commands)-1].read(line)
		}
		number++
	}
	if len(commands) == 0 {
		return nil, errors.New("has no command")
	}
	commands[len(commands)-1].Exit, _ = strconv.Atoi(status[1])
	return commands, nil
}

// read adds a line to the script if that is not at its end, else to the output.
func (c *Command) read(line string) {
	if c.Output == "" && strings.HasSuffix(c.Script, "\\\n") {
		c.Script += strings.TrimPrefix(line, "> ")
		return
	}
	c.Output += line
}

// Shows tells whether the document's output is what a run printed.
func (c *Command) Shows(printed string) bool {
	var pattern strings.Builder
	for _, line := range lines(c.Output) {
		if strings.TrimSpace(line) == "..." {
			pattern.WriteString(`(?:.*\n)*`)
			continue
		}
		pattern.WriteString(regexp.QuoteMeta(strings.TrimRight(line, " ")) + ` *\n`)
	}
	return regexp.MustCompile(`^` + pattern.String() + `$`).MatchString(strings.Join(lines(printed), "\n") + "\n")
}

// lines leaves out empty lines at the end, which no reader misses.
func lines(text string) []string {
	return strings.Split(strings.TrimRight(text, "\n "), "\n")
}
