// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	goyaml "go.yaml.in/yaml/v3"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// Format is the value of -o. The zero Format is text for users.
type Format struct{ name, argument string }

// Formats returns the valid values of -o.
func Formats() []string {
	return []string{"wide", "json", "yaml", "name", "jsonpath", "go-template", "custom-columns"}
}

// ParseFormat parses FORMAT or FORMAT=ARGUMENT. It parses templates, too.
func ParseFormat(text string) (Format, error) {
	name, argument, _ := strings.Cut(text, "=")
	f := Format{name, argument}
	switch {
	case text == "":
		return f, nil
	case !slices.Contains(Formats(), name):
		return f, fmt.Errorf("--output %s: want one of %s, jsonpath=TEMPLATE, go-template=TEMPLATE, custom-columns=HEADER:PATH", text, "wide, json, yaml, name")
	case f.needsArgument() == (argument == ""):
		return f, fmt.Errorf("--output %s: %s=... needs an argument, and no other format has one", text, name)
	case name == "jsonpath":
		_, err := parsePath(argument)
		return f, err
	case name == "go-template":
		_, err := parseTemplate(argument)
		return f, err
	case name == "custom-columns":
		_, err := f.columns()
		return f, err
	}
	return f, nil
}

func (f Format) needsArgument() bool {
	return f.name == "jsonpath" || f.name == "go-template" || f.name == "custom-columns"
}

// ForPeople reports whether the output is text, normal or wide.
func (f Format) ForPeople() bool { return f.name == "" || f.name == "wide" }

// IsYAML reports whether the output is YAML.
func (f Format) IsYAML() bool { return f.name == "yaml" }

// Wide reports whether the output omits nothing.
func (f Format) Wide() bool { return f.name == "wide" }

// Document is the output of a command for programs.
type Document struct {
	// Value is the whole document.
	Value any
	// Items have one line each in custom columns. Names are their names for -o name.
	Items []any
	Names []string
}

// Write writes a document. headers enables the headers of custom columns. Text from a cluster
// cannot control a terminal. JSON and YAML have escape sequences for unsafe characters, which
// parsers decode. Names and columns are Printable. The output of a template is written unchanged to
// a pipe, and as Printable lines to a terminal.
func (f Format) Write(out io.Writer, d Document, headers bool) error {
	switch f.name {
	case "json":
		return writeJSON(out, d.Value)
	case "yaml":
		encoded, err := YAML(d.Value)
		if err != nil {
			return err
		}
		_, err = io.WriteString(out, encoded)
		return err
	case "name":
		for _, name := range d.Names {
			fmt.Fprintln(out, Printable(name))
		}
		return nil
	case "jsonpath", "go-template":
		return f.writeTemplate(out, d.Value)
	}
	return f.writeColumns(out, d.Items, headers)
}

func writeJSON(out io.Writer, value any) error {
	encoded, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, escapedInQuotes(string(encoded), 0))
	return err
}

// YAML returns a value as YAML without characters that control a terminal.
func YAML(value any) (string, error) {
	asJSON, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	// YAML does not permit all characters that JSON permits without escapes.
	encoded, err := yaml.JSONToYAML([]byte(escapedInQuotes(string(asJSON), 'U')))
	if err != nil || !strings.ContainsFunc(string(encoded), unsafeInDocument) {
		return string(encoded), err
	}
	// escape sequences work only in double quotes
	var document goyaml.Node
	if err := goyaml.Unmarshal(encoded, &document); err != nil {
		return "", err
	}
	quoteUnsafe(&document)
	var quoted strings.Builder
	encoder := goyaml.NewEncoder(&quoted)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(&document); err != nil {
		return "", err
	}
	return escapedInQuotes(quoted.String(), 'U'), nil
}

func quoteUnsafe(node *goyaml.Node) {
	if node.Kind == goyaml.ScalarNode && strings.ContainsFunc(node.Value, unsafe) {
		node.Style = goyaml.DoubleQuotedStyle
	}
	for _, child := range node.Content {
		quoteUnsafe(child)
	}
}

// generic returns the value as decoded from its JSON.
func generic(value any) (any, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var plain any
	err = json.Unmarshal(encoded, &plain)
	return plain, err
}

// parsePath parses "{.a.b}", ".a.b" or "a.b", as kubectl does.
func parsePath(text string) (*jsonpath.JSONPath, error) {
	if !strings.Contains(text, "{") {
		text = "{." + strings.TrimPrefix(text, ".") + "}"
	}
	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(text); err != nil {
		return nil, fmt.Errorf("--output: %w", err)
	}
	return path, nil
}

// parseTemplate parses a Go template. It has kubectl's additional functions base64decode and
// exists.
func parseTemplate(text string) (*template.Template, error) {
	functions := template.FuncMap{"exists": exists, "base64decode": func(encoded string) (string, error) {
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		return string(decoded), err
	}}
	parsed, err := template.New("output").Funcs(functions).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("--output: %w", err)
	}
	return parsed, nil
}

// exists reports whether a path of keys and indexes leads to a value. A string has a byte at each
// index.
func exists(value any, path ...any) bool {
	for _, step := range path {
		found := false
		switch at := value.(type) {
		case map[string]any:
			if key, isKey := step.(string); isKey {
				value, found = at[key]
			}
		case []any:
			if position, isPosition := step.(int); isPosition && position >= 0 && position < len(at) {
				value, found = at[position], true
			}
		case string:
			if position, isPosition := step.(int); isPosition && position >= 0 && position < len(at) {
				value, found = at[position], true
			}
		}
		if !found {
			return false
		}
	}
	return true
}

func (f Format) execute(out io.Writer, value any) error {
	if f.name == "go-template" {
		parsed, err := parseTemplate(f.argument)
		if err != nil {
			return err
		}
		return parsed.Execute(out, value)
	}
	path, err := parsePath(f.argument)
	if err != nil {
		return err
	}
	return path.Execute(out, value)
}

func (f Format) writeTemplate(out io.Writer, value any) error {
	data, err := generic(value)
	if err != nil {
		return err
	}
	var made bytes.Buffer
	if err := f.execute(&made, data); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	if made.Len() > 0 && !bytes.HasSuffix(made.Bytes(), []byte("\n")) {
		made.WriteByte('\n')
	}
	if !IsTerminal(out) {
		_, err = made.WriteTo(out)
		return err
	}
	for line := range strings.Lines(made.String()) {
		fmt.Fprintln(out, Printable(strings.TrimSuffix(line, "\n")))
	}
	return nil
}

type column struct {
	header string
	path   *jsonpath.JSONPath
}

func (f Format) columns() ([]column, error) {
	var columns []column
	for spec := range strings.SplitSeq(f.argument, ",") {
		header, where, _ := strings.Cut(spec, ":")
		if header == "" || where == "" {
			return nil, fmt.Errorf("--output custom-columns: %q: want HEADER:PATH", spec)
		}
		path, err := parsePath(where)
		if err != nil {
			return nil, err
		}
		columns = append(columns, column{header, path})
	}
	return columns, nil
}

func (f Format) writeColumns(out io.Writer, items []any, headers bool) error {
	columns, err := f.columns()
	if err != nil {
		return err
	}
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.header
	}
	var rows [][]string
	for _, item := range items {
		plain, err := generic(item)
		if err != nil {
			return err
		}
		row := make([]string, len(columns))
		for i, c := range columns {
			var text bytes.Buffer
			if err := c.path.Execute(&text, plain); err != nil {
				return fmt.Errorf("--output: %w", err)
			}
			if row[i] = text.String(); row[i] == "" {
				row[i] = "<none>"
			}
		}
		rows = append(rows, row)
	}
	t := &Terminal{Out: out, Width: unlimited, NoHeaders: !headers}
	t.Table(names, rows)
	return nil
}
