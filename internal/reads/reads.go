// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reads is the table of what is read: for each field of the API objects that Dray knows, who reads it,
// or why nobody has to.
//
// A remembered answer is only valid if nothing else matters. The writers of keys (packages keys, eligibility,
// claims) name the rows that they cover, and tests compare them with the table. A field that is new in the API
// makes Check fail with its name, until it gets a row.
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

// Role is what a field means to an answer. A field may have several roles.
type Role uint16

// These are the roles. Those up to Ask decide which devices are found.
const (
	// Select is for fields that CEL expressions may read. A key contains one only if an expression reads it.
	Select Role = 1 << iota
	// Compare is for fields that constraints compare: only equality of values matters.
	Compare
	// Amount is for amounts: capacities, counters, and what is taken of them.
	Amount
	// Gate is for fields that admit or reject a device by itself, whatever is in use.
	Gate
	// Reach is for fields that decide which nodes have a device. Keys describe nodes with their devices, so no
	// key contains these fields.
	Reach
	// Ask is for fields that are part of the question.
	Ask
	// Position is for order and identity. Equal answers are equal by position, so no key contains these fields.
	Position
	// Result is for fields that results repeat. Results are built from the objects at hand, so no key contains
	// these fields.
	Result
	// Ignore is for fields that nobody reads.
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

// Keyed reports whether a key that covers the object must distinguish values of the field.
func (r Role) Keyed() bool { return r&(Select|Compare|Amount|Gate|Ask) != 0 }

// Decides reports whether another value of the field may give another answer, by position.
func (r Role) Decides() bool { return r.Keyed() || r&Reach != 0 }

// Row is one field, or all fields below it.
type Row struct {
	// Path is the field in Go's spelling, from the root: Taints[].Effect. Lists and maps have [].
	Path string
	Role Role
	// By is the question that reads it. Why says why keys may leave it out. Each row has one of the two.
	By, Why string
	// Only is set if one user alone reads it: Simulate. Empty for all users.
	Only string
}

// Root is an object, or a part of several objects, with its rows. Paths are unique.
type Root struct {
	Name string
	Type reflect.Type
	Rows []Row
}

// Row returns the row of a path, or of a field above it.
func (r *Root) Row(path string) (*Row, bool) {
	for i := range r.Rows {
		if r.Rows[i].has(path) {
			return &r.Rows[i], true
		}
	}
	return nil, false
}

// has reports whether a row is about a path or a field above it.
func (r *Row) has(path string) bool {
	rest, found := strings.CutPrefix(path, r.Path)
	return found && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Of returns the root of a type, nil if there is none.
func Of(t reflect.Type) *Root {
	for _, r := range Roots {
		if r.Type == t {
			return r
		}
	}
	return nil
}

// Check compares a root with a type. In production that is the root's own type. The error lists each field
// without a row, each row without a field, and each row with neither By nor Why.
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

// Leaves lists the fields of a type, sorted, down to single values and to parts that are roots themselves.
func Leaves(t reflect.Type) []string {
	var paths []string
	leaves(t, "", func(path string) { paths = append(paths, path) })
	slices.SortFunc(paths, cmp.Compare[string])
	return paths
}

// opaque are types whose fields have no rows.
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
