// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"os"
	"path"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

var (
	heading = regexp.MustCompile(`(?m)^### (\w+)$`)
	row     = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|]*)\\| ([^|]*)\\|$")
)

// TestEveryFieldIsDocumented compares the tables of docs/devmgmt.md with the types: each field has
// one row, which says what becomes of it or why it is refused, and each row is about a field.
func TestEveryFieldIsDocumented(t *testing.T) {
	content, err := os.ReadFile("../../docs/devmgmt.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]bool)
	headings := heading.FindAllStringSubmatchIndex(string(content), -1)
	for i, at := range headings {
		end := len(content)
		if i+1 < len(headings) {
			end = headings[i+1][0]
		}
		typeName := string(content[at[2]:at[3]])
		for _, cells := range row.FindAllStringSubmatch(string(content[at[1]:end]), -1) {
			field := typeName + "." + cells[1]
			if documented[field] {
				t.Errorf("%s has two rows", field)
			}
			if strings.TrimSpace(cells[2]+cells[3]) == "" {
				t.Errorf("%s has an empty row", field)
			}
			documented[field] = true
		}
	}
	fields := make(map[string]bool)
	for _, root := range []any{v1alpha1.DevicePool{}, v1alpha1.DeviceClass{}, v1alpha1.DeviceClaim{}} {
		collectFields(reflect.TypeOf(root), fields)
	}
	for field := range fields {
		if !documented[field] {
			t.Errorf("%s has no row", field)
		}
	}
	for field := range documented {
		if !fields[field] {
			t.Errorf("there is no field %s", field)
		}
	}
}

// collectFields adds the fields of a type of the prototype, as "Type.field", and of those below it.
func collectFields(t reflect.Type, fields map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		collectFields(t.Elem(), fields)
		return
	case reflect.Struct:
	default:
		return
	}
	if path.Base(t.PkgPath()) != "v1alpha1" || !strings.HasPrefix(t.PkgPath(), "github.com/dray-project/") {
		return
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" {
			fields[t.Name()+"."+name] = true
		}
		collectFields(t.Field(i).Type, fields)
	}
}
