// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

var unmarshalerType = reflect.TypeFor[json.Unmarshaler]()

// location is the path from an object to a field: names of fields, indexes in lists, and keys of
// maps.
type location []any

type mapKey string

func (l location) to(step any) location { return append(slices.Clone(l), step) }

// String returns the location in the API server's format.
func (l location) String() string {
	var text strings.Builder
	for i, step := range l {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&text, "[%d]", step)
		case mapKey:
			fmt.Fprintf(&text, "[%s]", shorten(string(step)))
		default:
			if i > 0 {
				text.WriteString(".")
			}
			fmt.Fprint(&text, step)
		}
	}
	return text.String()
}

// fieldError is an error about a field that does not decode.
type fieldError struct {
	at   location
	text string
}

func (e *fieldError) Error() string { return e.at.String() + ": " + e.text }

// locate replaces a decoding error by one with the path of the field. Decoders of values such as
// quantities do not know their path.
func locate(raw []byte, object runtime.Object, decodeErr error) error {
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return decodeErr
	}
	if err := locateIn(reflect.TypeOf(object).Elem(), value, nil); err != nil {
		return err
	}
	return errors.New(shorten(decodeErr.Error()))
}

// locateIn returns an error about the first field, in the order of the type, that does not decode.
func locateIn(t reflect.Type, value any, path location) error {
	switch {
	case value == nil:
		return nil
	case t.Kind() == reflect.Pointer:
		return locateIn(t.Elem(), value, path)
	case reflect.PointerTo(t).Implements(unmarshalerType), isBytes(t):
		return leaf(t, value, path)
	}
	switch t.Kind() {
	case reflect.Struct:
		return locateInStruct(t, value, path)
	case reflect.Slice:
		return locateInList(t, value, path)
	case reflect.Map:
		return locateInMap(t, value, path)
	}
	return leaf(t, value, path)
}

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

func locateInStruct(t reflect.Type, value any, path location) error {
	members, ok := value.(map[string]any)
	if !ok {
		return mismatch("an object", value, path)
	}
	for i := range t.NumField() {
		member := t.Field(i)
		name, _, _ := strings.Cut(member.Tag.Get("json"), ",")
		if name == "" && member.Anonymous {
			if err := locateIn(member.Type, value, path); err != nil {
				return err
			}
			continue
		}
		if err := locateIn(member.Type, members[name], path.to(name)); err != nil {
			return err
		}
	}
	return nil
}

func locateInList(t reflect.Type, value any, path location) error {
	items, ok := value.([]any)
	if !ok {
		return mismatch("a list", value, path)
	}
	for i, item := range items {
		if err := locateIn(t.Elem(), item, path.to(i)); err != nil {
			return err
		}
	}
	return nil
}

func locateInMap(t reflect.Type, value any, path location) error {
	entries, ok := value.(map[string]any)
	if !ok {
		return mismatch("an object", value, path)
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if err := locateIn(t.Elem(), entries[name], path.to(mapKey(name))); err != nil {
			return err
		}
	}
	return nil
}

// leaf decodes a single value.
func leaf(t reflect.Type, value any, path location) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return &fieldError{path, err.Error()}
	}
	err = json.Unmarshal(raw, reflect.New(t).Interface())
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrongType):
		return mismatch(describeType(t), value, path)
	}
	return &fieldError{path, shorten(string(raw)) + ": " + shorten(err.Error())}
}

// describeType returns the expected type, with a hint at the most frequent mistake: YAML does not
// read n, yes, 1 and 1e3 as strings.
func describeType(t reflect.Type) string {
	if t.Kind() == reflect.String {
		return "a string (put it in quotes)"
	}
	return "a value of type " + t.Kind().String()
}

func mismatch(want string, value any, path location) error {
	raw, _ := json.Marshal(value)
	return &fieldError{path, fmt.Sprintf("want %s, got %s", want, shorten(string(raw)))}
}
