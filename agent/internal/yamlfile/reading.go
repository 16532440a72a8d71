// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// maxMistakes is the maximum number of mistakes that are reported.
	maxMistakes = 10
	// maxValues and maxDepth bound the expansion of aliases.
	maxValues = 1 << 17
	maxDepth  = 64
)

// reading is the state while a file is decoded into a struct.
type reading struct {
	file     *File
	mistakes []error
	values   int
	tooMuch  bool // a bound was exceeded; nothing more is read
}

func (r *reading) errors() error { return errors.Join(r.mistakes...) }

func (r *reading) mistake(node *yaml.Node, field, format string, args ...any) {
	if len(r.mistakes) < maxMistakes {
		where := fmt.Sprintf("%s:%d", r.file.path, node.Line)
		if field != "" {
			where += ": " + field
		}
		r.mistakes = append(r.mistakes, fmt.Errorf("%s: %s", where, fmt.Sprintf(format, args...)))
	}
}

func (r *reading) read(node *yaml.Node, into any) {
	r.value(node, reflect.ValueOf(into).Elem(), "", 0)
}

// value decodes a node into a settable value.
func (r *reading) value(node *yaml.Node, into reflect.Value, field string, depth int) {
	r.values++
	if r.tooMuch || r.values > maxValues || depth > maxDepth {
		if !r.tooMuch {
			r.mistake(node, "", "the file has more than %d values with its aliases, or more than %d in each other", maxValues, maxDepth)
		}
		r.tooMuch = true
		return
	}
	node = resolved(node)
	if node.ShortTag() == "!!null" {
		return // treated as absent
	}
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		r.value(node, into.Elem(), field, depth+1)
		return
	}
	if own, ok := into.Addr().Interface().(json.Unmarshaler); ok {
		if err := readOwn(node, own); err != nil {
			r.mistake(node, field, "%q: %v", node.Value, err)
		}
		return
	}
	switch into.Kind() {
	case reflect.Struct:
		r.fields(node, into, field, depth)
	case reflect.Map:
		r.entries(node, into, field, depth)
	case reflect.Slice:
		r.elements(node, into, field, depth)
	default:
		r.scalar(node, into, field)
	}
}

func readOwn(node *yaml.Node, into json.Unmarshaler) error {
	var plain any
	if node.Kind == yaml.ScalarNode && node.ShortTag() != "!!bool" {
		plain = node.Value // keep the text, since 1.10 is not 1.1
	} else if err := node.Decode(&plain); err != nil {
		return err
	}
	text, err := json.Marshal(plain)
	if err != nil {
		return err
	}
	return into.UnmarshalJSON(text)
}

func (r *reading) fields(node *yaml.Node, into reflect.Value, field string, depth int) {
	known := make(map[string][]int)
	for _, f := range reflect.VisibleFields(into.Type()) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "" && name != "-" && !strings.Contains(options, "inline") {
			known[name] = f.Index
		}
	}
	r.pairs(node, field, func(key, value *yaml.Node) {
		index, ok := known[key.Value]
		if !ok {
			r.mistake(key, join(field, key.Value), "no such field%s", meant(key.Value, known))
			return
		}
		r.value(value, into.FieldByIndex(index), join(field, key.Value), depth+1)
	})
}

// meant returns the field that differs from a name only in case.
func meant(name string, known map[string][]int) string {
	for other := range known {
		if strings.EqualFold(name, other) {
			return fmt.Sprintf(": %s is meant?", other)
		}
	}
	return ""
}

func (r *reading) entries(node *yaml.Node, into reflect.Value, field string, depth int) {
	out := reflect.MakeMap(into.Type())
	r.pairs(node, field, func(key, value *yaml.Node) {
		entry := reflect.New(into.Type().Elem()).Elem()
		r.value(value, entry, join(field, key.Value), depth+1)
		out.SetMapIndex(reflect.ValueOf(key.Value).Convert(into.Type().Key()), entry)
	})
	into.Set(out)
}

// pairs calls do for each key and value of a mapping.
func (r *reading) pairs(node *yaml.Node, field string, do func(key, value *yaml.Node)) {
	if node.Kind != yaml.MappingNode {
		r.mistake(node, field, "fields are wanted, in the form key: value")
		return
	}
	var keys []string
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode:
			r.mistake(key, field, "a key must be a word")
		case key.ShortTag() == "!!merge":
			r.mistake(key, join(field, "<<"), "not supported: give each field of its own, or an alias of the whole value")
		case slices.Contains(keys, key.Value):
			r.mistake(key, join(field, key.Value), "is there twice")
		default:
			keys = append(keys, key.Value)
			do(key, value)
		}
	}
}

func (r *reading) elements(node *yaml.Node, into reflect.Value, field string, depth int) {
	if node.Kind != yaml.SequenceNode {
		r.mistake(node, field, "a list is wanted")
		return
	}
	out := reflect.MakeSlice(into.Type(), len(node.Content), len(node.Content))
	for i, element := range node.Content {
		r.value(element, out.Index(i), fmt.Sprintf("%s[%d]", field, i), depth+1)
	}
	into.Set(out)
}

func (r *reading) scalar(node *yaml.Node, into reflect.Value, field string) {
	wanted := map[reflect.Kind]string{
		reflect.String: "text", reflect.Bool: "true or false", reflect.Int: "a whole number", reflect.Int32: "a whole number", reflect.Int64: "a whole number",
	}[into.Kind()]
	switch {
	case wanted == "":
		r.mistake(node, field, "cannot be set in a file")
	case node.Kind != yaml.ScalarNode:
		r.mistake(node, field, "%s is wanted", wanted)
	case into.Kind() == reflect.String:
		into.SetString(node.Value) // also for numbers: 570.10 is a version
	default:
		err := node.Decode(into.Addr().Interface())
		if err != nil || into.CanInt() && node.ShortTag() != "!!int" { // decoding would turn 1.5 into 1
			r.mistake(node, field, "%q: %s is wanted", node.Value, wanted)
		}
	}
}

func join(field, key string) string {
	if field == "" {
		return key
	}
	return field + "." + key
}
