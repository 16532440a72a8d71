// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// source is one line of a scenario file.
type source struct {
	line int // counted from 1
	text string
}

func (s source) indent() int   { return len(s.text) - len(strings.TrimLeft(s.text, " ")) }
func (s source) blank() bool   { return strings.TrimSpace(s.text) == "" }
func (s source) comment() bool { return strings.HasPrefix(strings.TrimSpace(s.text), "#") }

// block is a line together with the lines that are indented below it.
type block struct {
	source
	body []source
}

func (b block) words() *words { return &words{text: strings.TrimSpace(b.text)} }

func (b block) children() ([]block, error) { return blocks(b.body) }

// blocks splits lines at the least indented ones. The first line must be one of them.
func blocks(lines []source) ([]block, error) {
	var all []block
	base := -1
	for _, line := range lines {
		if strings.HasPrefix(strings.TrimLeft(line.text, " "), "\t") {
			return nil, &located{line.line, errors.New("tab found, indent with spaces")}
		}
		skip := line.blank() || line.comment()
		if base < 0 && !skip {
			base = line.indent()
		}
		switch {
		case len(all) > 0 && (line.blank() || line.indent() > base):
			last := &all[len(all)-1]
			last.body = append(last.body, line)
		case skip:
		case line.indent() < base:
			return nil, &located{line.line, errors.New("line is indented less than its siblings")}
		default:
			all = append(all, block{source: line})
		}
	}
	return all, nil
}

var span = regexp.MustCompile(`\[(\d+)\.\.(\d+)\]`)

// maxSpan is larger than every limit of the API, so that scenarios can exceed them.
const maxSpan = 256

// expand repeats a block whose first word has a span such as gpu-[0..7]. In each copy, {i} stands for the
// number.
func (b block) expand() ([]block, error) {
	bounds := span.FindStringSubmatch(b.words().next())
	if bounds == nil {
		return []block{b}, nil
	}
	first, err1 := strconv.Atoi(bounds[1])
	last, err2 := strconv.Atoi(bounds[2])
	if err := errors.Join(err1, err2); err != nil || last < first || last-first >= maxSpan {
		return nil, &located{b.line, fmt.Errorf("%s is not a range of at most %d numbers", bounds[0], maxSpan)}
	}
	var all []block
	for i := first; i <= last; i++ {
		all = append(all, b.number(bounds[0], strconv.Itoa(i)))
	}
	return all, nil
}

func (b block) number(span, n string) block {
	one := block{source: source{b.line, strings.ReplaceAll(strings.Replace(b.text, span, n, 1), "{i}", n)}}
	for _, line := range b.body {
		one.body = append(one.body, source{line.line, strings.ReplaceAll(line.text, "{i}", n)})
	}
	return one
}
