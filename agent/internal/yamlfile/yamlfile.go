// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package yamlfile reads YAML files that people write. Errors name line and field:
//
//	hardware.yaml:12: nodes[1].groups[0].counts: no such field
//
// Fields are decoded as by encoding/json, with json tags and UnmarshalJSON. Unknown fields,
// duplicate keys and a second document are errors.
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

// maxSize is the maximum size of a file, in bytes.
const maxSize = 8 << 20

// File is a decoded file, with the positions of its fields. The zero value stands for content that
// is not from a file.
type File struct {
	path string
	root *yaml.Node // nil: the file is empty
}

// Read decodes a file into a pointer to a struct. If there are several mistakes, the error has the
// first ones.
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

// parserError adds the file's name to an error of the YAML parser, which has the line.
func (f *File) parserError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if line, message, ok := strings.Cut(rest, ": "); ok {
			return fmt.Errorf("%s:%s: not valid YAML: %s", f.path, line, message)
		}
	}
	return fmt.Errorf("%s: not valid YAML: %s", f.path, text)
}

// Errorf returns an error about a field, with its line if that is known. The field is a path such
// as nodes[1].name. An empty path stands for the whole file.
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

// line returns the line of a field, or of the nearest enclosing field in the file. It returns 0 if
// the line is unknown.
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

// child returns the value of a key or the element with an index, and its line.
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

// resolved returns the node that an alias refers to.
func resolved(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}
