// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package reads_test

import (
	"reflect"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/reads"
)

// Each field of the API has a row, and each row a field.
func TestTableIsComplete(t *testing.T) {
	fields := 0
	for _, root := range reads.Roots {
		if err := reads.Check(root, root.Type); err != nil {
			t.Error(err)
		}
		fields += len(reads.Leaves(root.Type))
	}
	t.Logf("%d objects, %d fields", len(reads.Roots), fields)
	if fields < 200 {
		t.Errorf("only %d fields: the test sees too little", fields)
	}
}

// A field that a new version of the API adds, deep down or not, is reported by its name, and so is one that it drops.
func TestNewFieldsAreReported(t *testing.T) {
	type device struct {
		resourceapi.Device
	}
	of := func(change func(fields []reflect.StructField) []reflect.StructField) string {
		var fields []reflect.StructField
		for i := range reflect.TypeFor[device]().Field(0).Type.NumField() {
			fields = append(fields, reads.Device.Type.Field(i))
		}
		err := reads.Check(reads.Device, reflect.StructOf(change(fields)))
		if err == nil {
			return ""
		}
		return err.Error()
	}
	type newTaint struct{ Key, Value, Effect, TimeAdded, Until string }
	for name, test := range map[string]struct {
		change func([]reflect.StructField) []reflect.StructField
		want   string
	}{
		"nothing": {func(f []reflect.StructField) []reflect.StructField { return f }, ""},
		"a field more": {func(f []reflect.StructField) []reflect.StructField {
			return append(f, reflect.StructField{Name: "Fabric", Type: reflect.TypeFor[*string]()})
		}, "Device: field Fabric is not in the table of what is read: decide its role"},
		"one in a list": {func(f []reflect.StructField) []reflect.StructField {
			for i := range f {
				if f[i].Name == "Taints" {
					f[i].Type = reflect.TypeFor[[]newTaint]()
				}
			}
			return f
		}, "Device: field Taints[].Until is not in the table of what is read: decide its role"},
		"a field less": {func(f []reflect.StructField) []reflect.StructField { return f[1:] }, "Device: row Name is about no field"},
	} {
		if got := of(test.change); got != test.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A row says who reads the field, or why nobody has to; no two rows are about one field.
func TestRowsSayWhy(t *testing.T) {
	type small struct{ A, B string }
	check := func(rows ...reads.Row) string {
		err := reads.Check(&reads.Root{Name: "X", Rows: rows}, reflect.TypeFor[small]())
		if err == nil {
			return ""
		}
		return strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	b := reads.Row{Path: "B", Role: reads.Ignore, Why: "w"}
	for want, rows := range map[string][]reads.Row{
		"":                  {{Path: "A", Role: reads.Gate, By: "q"}, b},
		"X: row A: no role": {{Path: "A", Why: "w"}, b},
		"X: row A: what is ignored has no other role":                     {{Path: "A", Role: reads.Ignore | reads.Result, Why: "w"}, b},
		"X: row A: it does not say which question reads it":               {{Path: "A", Role: reads.Amount | reads.Result, Why: "w"}, b},
		"X: row A: it does not say why keys may leave it out":             {{Path: "A", Role: reads.Reach, By: "q"}, b},
		"X: rows A and A are about the same field":                        {{Path: "A", Role: reads.Gate, By: "q"}, {Path: "A", Role: reads.Gate, By: "q"}, b},
		"X: field A is not in the table of what is read: decide its role": {b},
	} {
		if got := check(rows...); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
