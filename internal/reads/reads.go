// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reads is the one table of what is read: each field of the objects of the API that Dray knows, who
// reads it, and why nobody has to if nobody does.
//
// What is remembered is a promise that nothing else matters. The writers of keys (packages keys, eligibility, claims)
// name the rows that they cover, and tests compare them with the table. A field that a new version of the API adds fails
// Check by its name, until somebody decides what it is.
package reads

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Role is what a field is to an answer. A field may have several.
type Role uint16

// The roles. Those up to Ask decide which devices are found.
const (
	// Select is for what CEL expressions may read. A key has it only if an expression does.
	Select Role = 1 << iota
	// Compare is for what constraints compare: only which values are equal counts.
	Compare
	// Amount is for amounts: capacities, counters, and what is taken of them.
	Amount
	// Gate is for what admits or refuses a device by itself, whatever is in use.
	Gate
	// Reach is for which nodes have a device. Keys are about nodes with their devices, so that no key has it.
	Reach
	// Ask is for what is asked for.
	Ask
	// Position is for order and identity. Equal answers are equal by position, so that no key has it.
	Position
	// Result is for what results repeat. They are written from the objects at hand, so that no key has it.
	Result
	// Ignore is for what nobody reads.
	Ignore
)

var roleNames = []string{"select", "compare", "amount", "gate", "reach", "ask", "position", "result", "ignore"}

// String lists the roles.
func (r Role) String() string {
	var names []string
	for i, name := range roleNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// Keyed reports whether a key that covers the object has to tell values of the field apart.
func (r Role) Keyed() bool { return r&(Select|Compare|Amount|Gate|Ask) != 0 }

// Decides reports whether another value of the field may give another answer, by position.
func (r Role) Decides() bool { return r.Keyed() || r&Reach != 0 }

// Row is one field, or all fields below it.
type Row struct {
	// Path is the field as Go spells it, from the root: Taints[].Effect. Lists and maps have [].
	Path string
	Role Role
	// By is the question that reads it, Why why keys may leave it out. Each row has one of the two.
	By, Why string
	// Only is the one user that reads it, simulate. Empty for all.
	Only string
}

// Root is an object, or a part of several objects, with its rows. Paths are unique.
type Root struct {
	Name string
	Type reflect.Type
	Rows []Row
}

// Row returns the one that has a path or what is above it.
func (r *Root) Row(path string) (*Row, bool) {
	for i := range r.Rows {
		if r.Rows[i].has(path) {
			return &r.Rows[i], true
		}
	}
	return nil, false
}

// has reports whether a row is about a path, which may lead below it.
func (r *Row) has(path string) bool {
	rest, found := strings.CutPrefix(path, r.Path)
	return found && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Of returns the root for a type, nil if there is none.
func Of(t reflect.Type) *Root {
	for _, r := range Roots {
		if r.Type == t {
			return r
		}
	}
	return nil
}

// Check compares a root with a type, which is that of the root in all but tests. The error lists each field without a row,
// each row without a field, and each row that does not say who reads it or why nobody does.
func Check(r *Root, t reflect.Type) error {
	var problems []error
	fields := Leaves(t)
	for _, path := range fields {
		if _, found := r.Row(path); !found {
			problems = append(problems, fmt.Errorf("%s: field %s is not in the table of what is read: decide its role", r.Name, path))
		}
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if !slices.ContainsFunc(fields, row.has) {
			problems = append(problems, fmt.Errorf("%s: row %s is about no field", r.Name, row.Path))
		}
		for j := range r.Rows[:i] {
			if r.Rows[j].has(row.Path) || row.has(r.Rows[j].Path) {
				problems = append(problems, fmt.Errorf("%s: rows %s and %s are about the same field", r.Name, r.Rows[j].Path, row.Path))
			}
		}
		if err := row.check(); err != nil {
			problems = append(problems, fmt.Errorf("%s: row %s: %w", r.Name, row.Path, err))
		}
	}
	return errors.Join(problems...)
}

func (r *Row) check() error {
	switch {
	case r.Role == 0:
		return errors.New("no role")
	case r.Role&Ignore != 0 && r.Role != Ignore:
		return errors.New("what is ignored has no other role")
	case r.Role.Keyed() && r.By == "":
		return errors.New("it does not say which question reads it")
	case !r.Role.Keyed() && r.Why == "":
		return errors.New("it does not say why keys may leave it out")
	}
	return nil
}

// Leaves lists the fields of a type, down to single values, and to parts that are roots by themselves. They are sorted.
func Leaves(t reflect.Type) []string {
	var paths []string
	leaves(t, "", func(path string) { paths = append(paths, path) })
	slices.SortFunc(paths, cmp.Compare[string])
	return paths
}

// opaque are types of which the fields mean nothing by themselves.
var opaque = []reflect.Type{
	reflect.TypeFor[resource.Quantity](), reflect.TypeFor[metav1.Time](), reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[metav1.FieldsV1](),
}

func leaves(t reflect.Type, path string, found func(string)) {
	switch {
	case slices.Contains(opaque, t) || path != "" && Of(t) != nil:
		found(path)
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		leaves(t.Elem(), path, found)
	case reflect.Slice, reflect.Map, reflect.Array:
		leaves(t.Elem(), path+"[]", found)
	case reflect.Struct:
		for i := range t.NumField() {
			switch f := t.Field(i); {
			case !f.IsExported():
			case path == "":
				leaves(f.Type, f.Name, found)
			default:
				leaves(f.Type, path+"."+f.Name, found)
			}
		}
	default:
		found(path)
	}
}
