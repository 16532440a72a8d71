// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"reflect"
	"testing"
)

// Objects of all kinds are joined, and the lists that there were stay as they are.
func TestJoin(t *testing.T) {
	filled := func() *Objects {
		objects := NewObjects()
		for _, field := range reflect.ValueOf(objects).Elem().Fields() {
			if field.Kind() == reflect.Slice && field.CanSet() {
				field.Set(reflect.MakeSlice(field.Type(), 1, 5))
			}
		}
		return objects
	}
	first := filled()
	before := *first
	if err := first.Join(filled()); err != nil {
		t.Fatal(err)
	}
	joined := 0
	for field, value := range reflect.ValueOf(first).Elem().Fields() {
		if value.Kind() != reflect.Slice || field.Name == "Warnings" { // which are about what was read, and not joined
			continue
		}
		old := reflect.ValueOf(before).FieldByIndex(field.Index)
		if value.Len() != 2 || old.Len() != 1 || value.Pointer() == old.Pointer() {
			t.Errorf("%s has %d objects, and had %d", field.Name, value.Len(), old.Len())
		}
		joined++
	}
	if joined < 10 {
		t.Errorf("%d lists", joined)
	}
}
