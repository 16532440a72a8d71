// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package yamlfile reads YAML files that people write, and says of each mistake in which
// line and which field it is:
//
//	hardware.yaml:12: nodes[1].groups[0].counts: no such field
//
// Fields are those that encoding/json would read: they have the names of their json tags,
// and types with a method UnmarshalJSON read themselves. A field that does not exist, a
// key that occurs twice and a second document are mistakes.
package yamlfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxSize is how many bytes a file may have.
const maxSize = 8 << 20

// File is a file that was read. It tells where fields are. The zero value stands for what is not
// from a file.
type File struct {
	path string
	root *yaml.Node // nil: the file is empty
}

// Read reads a file into a pointer to a struct. Of several mistakes, it tells of the first ones.
func Read(path string, into any) (*File, error) {
	content, err := readAll(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path}
	decoder := yaml.NewDecoder(strings.NewReader(content))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return f, nil
	case err != nil:
		return nil, f.parserError(err)
	}
	f.root = document.Content[0]
	switch err := decoder.Decode(new(yaml.Node)); {
	case err == nil:
		return nil, fmt.Errorf("%s: there is a second document: one is read", path)
	case !errors.Is(err, io.EOF):
		return nil, f.parserError(err)
	}
	r := &reading{file: f}
	r.read(f.root, into)
	return f, r.errors()
}

func readAll(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err != nil {
		return "", err
	}
	if len(content) > maxSize {
		return "", fmt.Errorf("%s: more than %d bytes", path, maxSize)
	}
	return string(content), nil
}

// parserError has the line where the parser stopped beside the file's name.
func (f *File) parserError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if line, message, ok := strings.Cut(rest, ": "); ok {
			return fmt.Errorf("%s:%s: not valid YAML: %s", f.path, line, message)
		}
	}
	return fmt.Errorf("%s: not valid YAML: %s", f.path, text)
}

// Errorf is an error about a field, with its line if the file has it. The field is a path such
// as nodes[1].name; empty: the whole file.
func (f *File) Errorf(field, format string, args ...any) error {
	where := f.path
	if line := f.line(field); line > 0 {
		where += ":" + strconv.Itoa(line)
	}
	switch {
	case where == "":
		where = field
	case field != "":
		where += ": " + field
	}
	return fmt.Errorf("%s: %w", where, fmt.Errorf(format, args...))
}

// line is where a field is, or the nearest one around it that the file has. 0: unknown.
func (f *File) line(field string) int {
	node := f.root
	if node == nil {
		return 0
	}
	line := 0
	for _, step := range strings.FieldsFunc(field, func(c rune) bool { return c == '.' || c == '[' || c == ']' }) {
		next, at := child(resolved(node), step)
		if next == nil {
			break
		}
		node, line = next, at
	}
	return line
}

// child is the value of a key or the element of a number, and the line where it begins.
func child(node *yaml.Node, step string) (*yaml.Node, int) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i+1], node.Content[i].Line
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i].Line
		}
	}
	return nil, 0
}

// resolved is the node that an alias stands for.
func resolved(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}
