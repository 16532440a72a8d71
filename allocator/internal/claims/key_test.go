// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"reflect"
	"testing"

	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/memo"
)

// The key of a constraint depends on each of its fields but those that other parts of the key tell, whatever it is
// displayed as.
func TestKeyOfConstraints(t *testing.T) {
	elsewhere := map[string]string{
		"Claim":    "which requests it covers is part of what alternatives see",
		"Position": "errors only name it",
		"Requests": "which requests it covers is part of what alternatives see",
		"Held":     "such problems are particular",
	}
	keyOf := func(c Constraint) string {
		key := memo.NewKey()
		(&Compiled{Constraints: []Constraint{c}}).AppendKey(&key)
		return string(key.Bytes)
	}
	for i, zero := 0, keyOf(Constraint{}); i < reflect.TypeFor[Constraint]().NumField(); i++ {
		var c Constraint
		field := reflect.TypeFor[Constraint]().Field(i)
		switch at := reflect.ValueOf(&c).Elem().Field(i); field.Name {
		case "lists":
			c.lists = true
		case "Held":
			c.Held = []pool.DeviceID{{}}
		case "Requests":
			c.Requests = []string{"r"}
		default:
			switch {
			case at.CanInt():
				at.SetInt(1)
			case at.CanUint():
				at.SetUint(1)
			case at.Kind() == reflect.Bool:
				at.SetBool(true)
			case at.Kind() == reflect.String:
				at.SetString("a/b")
			default:
				t.Fatalf("field %s: the test does not know its type", field.Name)
			}
		}
		if _, not := elsewhere[field.Name]; (keyOf(c) == zero) != not {
			t.Errorf("field %s: equal keys is %v", field.Name, keyOf(c) == zero)
		}
	}
}
