package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// Format is what -o says. The zero Format is text for people.
type Format struct{ name, argument string }

// Formats lists what -o can say.
func Formats() []string {
	return []string{"wide", "json", "yaml", "name", "jsonpath", "custom-columns"}
}

// ParseFormat understands FORMAT and FORMAT=ARGUMENT. Templates are checked.
func ParseFormat(text string) (Format, error) {
	name, argument, _ := strings.Cut(text, "=")
	f := Format{name, argument}
	switch {
	case text == "":
		return f, nil
	case !slices.Contains(Formats(), name):
		return f, fmt.Errorf("--output %s: want one of %s, jsonpath=TEMPLATE, custom-columns=HEADER:PATH", text, "wide, json, yaml, name")
	case f.needsArgument() == (argument == ""):
		return f, fmt.Errorf("--output %s: %s=... needs an argument, and no other format has one", text, name)
	case name == "jsonpath":
		_, err := parsePath(argument)
		return f, err
	case name == "custom-columns":
		_, err := f.columns()
		return f, err
	}
	return f, nil
}

func (f Format) needsArgument() bool { return f.name == "jsonpath" || f.name == "custom-columns" }

// ForPeople reports whether the output is text, in short or with everything.
func (f Format) ForPeople() bool { return f.name == "" || f.name == "wide" }

// IsYAML reports whether the output is YAML.
func (f Format) IsYAML() bool { return f.name == "yaml" }

// Wide reports whether nothing is to be left out.
func (f Format) Wide() bool { return f.name == "wide" }

// Document is what a command has to say to programs.
type Document struct {
	// Value is all of it.
	Value any
	// Items are what custom columns have a line for each, Names how they are called.
	Items []any
	Names []string
}

// Write writes a document. Headers are those of custom columns.
func (f Format) Write(out io.Writer, d Document, headers bool) error {
	switch f.name {
	case "json":
		return writeJSON(out, d.Value)
	case "yaml":
		encoded, err := yaml.Marshal(d.Value)
		if err != nil {
			return err
		}
		_, err = out.Write(encoded)
		return err
	case "name":
		for _, name := range d.Names {
			fmt.Fprintln(out, name)
		}
		return nil
	case "jsonpath":
		return f.writePath(out, d.Value)
	}
	return f.writeColumns(out, d.Items, headers)
}

func writeJSON(out io.Writer, value any) error {
	encoded, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, string(encoded))
	return err
}

// generic is a value as a reader of its JSON sees it.
func generic(value any) (any, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var plain any
	err = json.Unmarshal(encoded, &plain)
	return plain, err
}

// parsePath takes "{.a.b}", ".a.b" and "a.b" alike, as kubectl does.
func parsePath(template string) (*jsonpath.JSONPath, error) {
	if !strings.Contains(template, "{") {
		template = "{." + strings.TrimPrefix(template, ".") + "}"
	}
	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(template); err != nil {
		return nil, fmt.Errorf("--output: %w", err)
	}
	return path, nil
}

func (f Format) writePath(out io.Writer, value any) error {
	path, err := parsePath(f.argument)
	if err != nil {
		return err
	}
	plain, err := generic(value)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := path.Execute(&text, plain); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	if text.Len() > 0 && !bytes.HasSuffix(text.Bytes(), []byte("\n")) {
		text.WriteByte('\n')
	}
	_, err = text.WriteTo(out)
	return err
}

type column struct {
	header string
	path   *jsonpath.JSONPath
}

func (f Format) columns() ([]column, error) {
	var columns []column
	for spec := range strings.SplitSeq(f.argument, ",") {
		header, template, ok := strings.Cut(spec, ":")
		if !ok || header == "" || template == "" {
			return nil, fmt.Errorf("--output custom-columns: %q: want HEADER:PATH", spec)
		}
		path, err := parsePath(template)
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
