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
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var unmarshalerType = reflect.TypeFor[json.Unmarshaler]()

// locate replaces the error of decoding raw into object by one that names the
// field: decoders of leaf values, such as quantities, do not know where they are.
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

// locateIn returns the first field, in the order of the type, whose value does
// not decode.
func locateIn(t reflect.Type, value any, path *field.Path) error {
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

func locateInStruct(t reflect.Type, value any, path *field.Path) error {
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
		if err := locateIn(member.Type, members[name], child(path, name)); err != nil {
			return err
		}
	}
	return nil
}

func locateInList(t reflect.Type, value any, path *field.Path) error {
	items, ok := value.([]any)
	if !ok {
		return mismatch("a list", value, path)
	}
	for i, item := range items {
		if err := locateIn(t.Elem(), item, path.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func locateInMap(t reflect.Type, value any, path *field.Path) error {
	entries, ok := value.(map[string]any)
	if !ok {
		return mismatch("an object", value, path)
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if err := locateIn(t.Elem(), entries[name], path.Key(shorten(name))); err != nil {
			return err
		}
	}
	return nil
}

// leaf decodes a value on its own.
func leaf(t reflect.Type, value any, path *field.Path) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	err = json.Unmarshal(raw, reflect.New(t).Interface())
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrongType):
		return mismatch(describeType(t), value, path)
	}
	return fmt.Errorf("%s: %s: %s", path, shorten(string(raw)), shorten(err.Error()))
}

// describeType hints at the most frequent mistake: YAML takes n, yes, 1 and 1e3 for
// something else than text.
func describeType(t reflect.Type) string {
	if t.Kind() == reflect.String {
		return "a string (put it in quotes)"
	}
	return "a value of type " + t.Kind().String()
}

func mismatch(want string, value any, path *field.Path) error {
	raw, _ := json.Marshal(value)
	return fmt.Errorf("%s: want %s, got %s", path, want, shorten(string(raw)))
}

func child(path *field.Path, name string) *field.Path {
	if path == nil {
		return field.NewPath(name)
	}
	return path.Child(name)
}
