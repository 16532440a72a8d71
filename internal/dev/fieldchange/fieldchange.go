// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fieldchange changes single fields of API objects, for tests of what answers depend on: two objects that differ in
// nothing else are asked about one after the other.
package fieldchange

import (
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/internal/reads"
)

// Change is another value of one field.
type Change[T any] struct {
	// Name is the field with the value: Spec.Devices[0].Taints[1].Key=a.
	Name string
	// Root and Row are where the table has the field. Row is nil if more changes than the value of one field, as with an
	// element more or less of a list.
	Root *reads.Root
	Row  *reads.Row

	apply func(object *T, last *[]func())
}

// Values are those that fields get.
type Values struct {
	// Texts are for strings, given the path of the field from its root. Those that it has are left out.
	Texts func(path string) []string
	// Keys are for entries of maps, beside those that are there.
	Keys []string
	// Quantities and Numbers are for these. A number is one more, too.
	Quantities []string
	Numbers    []int64
}

// Of lists the fields of an object, down to single values, with other values.
func Of[T any](base *T, values Values) []Change[T] {
	w := &walker[T]{values: values}
	at := reflect.ValueOf(base).Elem()
	w.walk(at, place{name: "", root: reads.Of(at.Type())}, func(object *T, _ *[]func()) reflect.Value { return reflect.ValueOf(object).Elem() })
	return w.found
}

// Apply returns a copy of the object with the change. DeepCopy is the method of the object.
func (c Change[T]) Apply(object *T, deepCopy func(*T) *T) *T {
	changed := deepCopy(object)
	var last []func()
	c.apply(changed, &last)
	for _, do := range slices.Backward(last) {
		do()
	}
	return changed
}

// reach finds the same value in another object, and makes what leads to it. What has to be done once the value is changed
// is added to last: a value of a map cannot be changed in place.
type reach[T any] func(object *T, last *[]func()) reflect.Value

// place is where a value is.
type place struct {
	name  string
	root  *reads.Root
	path  string // from the root
	depth int    // pointers, lists and maps that lead to it
	// several is set below what is added to a list or a map.
	several bool
}

// deepest is how many pointers, lists and maps lead to a value.
const deepest = 10

type walker[T any] struct {
	values Values
	found  []Change[T]
}

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

func (w *walker[T]) walk(at reflect.Value, p place, reached reach[T]) {
	if root := reads.Of(at.Type()); root != nil {
		p.root, p.path = root, ""
	}
	switch value := at.Interface().(type) {
	case resource.Quantity:
		for _, text := range w.values.Quantities {
			if q := resource.MustParse(text); value.Cmp(q) != 0 {
				w.set(p, q, reached)
			}
		}
		return
	case metav1.Time:
		w.set(p, metav1.Unix(1, 0), reached)
		return
	}
	switch at.Kind() {
	case reflect.Struct:
		for i := range at.NumField() {
			field := at.Type().Field(i)
			if !field.IsExported() {
				continue
			}
			below := p
			below.name, below.path = join(p.name, field.Name), join(p.path, field.Name)
			w.walk(at.Field(i), below, func(object *T, last *[]func()) reflect.Value { return reached(object, last).Field(i) })
		}
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if p.depth++; p.depth <= deepest {
			w.into(at, p, reached)
		}
	default:
		w.value(at, p, reached)
	}
}

func (w *walker[T]) value(at reflect.Value, p place, reached reach[T]) {
	switch at.Kind() {
	case reflect.String:
		for _, text := range w.values.Texts(p.path) {
			if at.String() != text {
				w.set(p, text, reached)
			}
		}
	case reflect.Bool:
		w.set(p, !at.Bool(), reached)
	case reflect.Int, reflect.Int32, reflect.Int64:
		for _, n := range append([]int64{at.Int() + 1}, w.values.Numbers...) {
			if n != at.Int() {
				w.set(p, n, reached)
			}
		}
	case reflect.Uint8:
		w.set(p, uint8(at.Uint()+1), reached)
	}
}

func (w *walker[T]) set(p place, value any, reached reach[T]) {
	w.add(p, fmt.Sprint(value), func(object *T, last *[]func()) {
		to := reached(object, last)
		to.Set(reflect.ValueOf(value).Convert(to.Type()))
	})
}

func (w *walker[T]) add(p place, value string, apply func(*T, *[]func())) {
	c := Change[T]{Name: p.name + "=" + value, Root: p.root, apply: apply}
	if p.root != nil && !p.several {
		c.Row, _ = p.root.Row(p.path)
	}
	w.found = append(w.found, c)
}

// into walks what a pointer, a list or a map leads to.
func (w *walker[T]) into(at reflect.Value, p place, reached reach[T]) {
	switch at.Kind() {
	case reflect.Pointer:
		filled := at
		if at.IsNil() {
			filled = reflect.New(at.Type().Elem())
		} else {
			w.without(p, reached)
		}
		w.walk(filled.Elem(), p, func(object *T, last *[]func()) reflect.Value {
			pointer := reached(object, last)
			if pointer.IsNil() {
				pointer.Set(reflect.New(pointer.Type().Elem()))
			}
			return pointer.Elem()
		})
	case reflect.Slice:
		w.list(at, p, reached)
	case reflect.Map:
		w.entries(at, p, reached)
	}
}

// without removes what is there.
func (w *walker[T]) without(p place, reached reach[T]) {
	p.several = true
	w.add(p, "none", func(object *T, last *[]func()) { reached(object, last).SetZero() })
}

func (w *walker[T]) list(at reflect.Value, p place, reached reach[T]) {
	below := p
	below.path += "[]"
	for i := range at.Len() {
		below.name = fmt.Sprint(p.name, "[", i, "]")
		w.walk(at.Index(i), below, func(object *T, last *[]func()) reflect.Value { return reached(object, last).Index(i) })
	}
	if at.Len() > 0 {
		less := p
		less.several = true
		w.add(less, "one less", func(object *T, last *[]func()) {
			list := reached(object, last)
			list.Set(list.Slice(0, list.Len()-1))
		})
	}
	below.name = p.name + "[+]"
	below.several = p.several || at.Type().Elem().Kind() == reflect.Struct
	w.walk(reflect.New(at.Type().Elem()).Elem(), below, func(object *T, last *[]func()) reflect.Value {
		list := reached(object, last)
		if list.Len() == at.Len() {
			list.Set(reflect.Append(list, reflect.New(list.Type().Elem()).Elem()))
		}
		return list.Index(at.Len())
	})
}

func (w *walker[T]) entries(at reflect.Value, p place, reached reach[T]) {
	var names []string
	for _, key := range at.MapKeys() {
		names = append(names, key.String())
	}
	slices.Sort(names)
	known := len(names)
	for _, key := range w.values.Keys {
		if !slices.Contains(names, key) {
			names = append(names, key)
		}
	}
	for i, name := range names {
		below := p
		below.name, below.path = p.name+"["+name+"]", p.path+"[]"
		below.several = p.several || i >= known && at.Type().Elem().Kind() == reflect.Struct && at.Type().Elem() != reflect.TypeFor[resource.Quantity]()
		key := reflect.ValueOf(name).Convert(at.Type().Key())
		if i < known {
			less := below
			less.several = true
			w.add(less, "none", func(object *T, last *[]func()) { reached(object, last).SetMapIndex(key, reflect.Value{}) })
		}
		value := reflect.New(at.Type().Elem()).Elem()
		if i < known {
			value.Set(at.MapIndex(key))
		}
		w.walk(value, below, func(object *T, last *[]func()) reflect.Value {
			m := reached(object, last)
			if m.IsNil() {
				m.Set(reflect.MakeMap(m.Type()))
			}
			value := reflect.New(m.Type().Elem()).Elem()
			if there := m.MapIndex(key); there.IsValid() {
				value.Set(there)
			}
			*last = append(*last, func() { m.SetMapIndex(key, value) })
			return value
		})
	}
}
