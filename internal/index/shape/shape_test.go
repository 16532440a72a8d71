// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"bytes"
	"reflect"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/dev/given"
)

func TestAttributeOf(t *testing.T) {
	for _, test := range []struct {
		name      string
		attribute resourceapi.DeviceAttribute
		scalar    Value
		set       []Value
	}{
		{"nothing", resourceapi.DeviceAttribute{}, Value{}, nil},
		{"int", resourceapi.DeviceAttribute{IntValue: ptr.To(int64(1))}, valueOf[int64](1), []Value{valueOf[int64](1)}},
		{"bool", resourceapi.DeviceAttribute{BoolValue: ptr.To(true)}, valueOf[bool](true), []Value{valueOf[bool](true)}},
		{"string", resourceapi.DeviceAttribute{StringValue: ptr.To("1.0.0")}, valueOf[string]("1.0.0"), []Value{valueOf[string]("1.0.0")}},
		{"version", resourceapi.DeviceAttribute{VersionValue: ptr.To("1.0.0")}, versionValue("1.0.0"), []Value{versionValue("1.0.0")}},
		{"ints", resourceapi.DeviceAttribute{IntValues: []int64{2, 1, 2}}, Value{}, []Value{valueOf[int64](2), valueOf[int64](1)}},
		{"bools", resourceapi.DeviceAttribute{BoolValues: []bool{false, false}}, Value{}, []Value{valueOf[bool](false)}},
		{"strings", resourceapi.DeviceAttribute{StringValues: []string{"a", "b"}}, Value{}, []Value{valueOf[string]("a"), valueOf[string]("b")}},
		{"versions", resourceapi.DeviceAttribute{VersionValues: []string{"1.0.0"}}, Value{}, []Value{versionValue("1.0.0")}},
		{"empty list", resourceapi.DeviceAttribute{IntValues: []int64{}}, Value{}, nil},
		{
			"several", resourceapi.DeviceAttribute{IntValue: ptr.To(int64(1)), StringValue: ptr.To("a"), VersionValues: []string{"1.0.0"}},
			valueOf[string]("a"), []Value{versionValue("1.0.0")},
		},
		{
			"several scalars", resourceapi.DeviceAttribute{IntValue: ptr.To(int64(1)), StringValue: ptr.To("a")},
			valueOf[string]("a"), []Value{valueOf[int64](1)},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := Attribute{Scalar: test.scalar, HasScalar: test.scalar != Value{}, Set: test.set}
			if got := AttributeOf(&test.attribute); !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestValues(t *testing.T) {
	all := []Value{{}, valueOf[int64](0), valueOf[int64](1), valueOf[bool](false), valueOf[bool](true), valueOf[string](""), valueOf[string]("1"), versionValue("1"), versionValue("")}
	for i := range all {
		for j := range all {
			if (all[i] == all[j]) != (i == j) {
				t.Errorf("%d == %d: %t", i, j, i != j)
			}
			if bytes.Equal(all[i].AppendKey(nil), all[j].AppendKey(nil)) != (i == j) {
				t.Errorf("%d and %d have equal keys: %t", i, j, i != j)
			}
		}
	}
	for want, v := range map[string]Value{"": {}, "-7": valueOf[int64](-7), "true": valueOf[bool](true), "false": valueOf[bool](false), "x": valueOf[string]("x"), "1.2.3": versionValue("1.2.3")} {
		if v.String() != want {
			t.Errorf("got %q, want %q", v.String(), want)
		}
	}
}

func TestShapeAttribute(t *testing.T) {
	text := func(s string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &s} }
	shape := &Shape{Driver: given.Driver, Device: &resourceapi.Device{Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"model":                text("bare"),
		"both":                 text("bare"),
		"gpu.example.com/both": text("qualified"),
		"other.example.com/x":  text("foreign"),
		"":                     text("nameless"),
	}}}
	for name, want := range map[resourceapi.FullyQualifiedName]string{
		"gpu.example.com/model":   "bare",
		"gpu.example.com/both":    "qualified",
		"other.example.com/x":     "foreign",
		"other.example.com/model": "",
		"gpu.example.com/x":       "",
		"model":                   "bare",
		"none":                    "",
		"gpu.example.com":         "",
	} {
		got, ok := shape.Attribute(name)
		if got.Scalar.String() != want || ok != (want != "") {
			t.Errorf("%s: got %q, %t, want %q", name, got.Scalar, ok, want)
		}
	}
}

func TestShapeKeepsWhatIsAttached(t *testing.T) {
	shape := new(Shape)
	first, second := new(int), new(int)
	for range 2 {
		if got := shape.Attach(func() any { return first }); got != first {
			t.Error("not the first result")
		}
		if got := shape.Attach(func() any { return second }); got != first {
			t.Error("a later result replaced the first")
		}
	}
	raced := new(Shape)
	got := raced.Attach(func() any {
		raced.Attach(func() any { return first })
		return second
	})
	if got != first {
		t.Error("the loser of a race does not get the result that is kept")
	}
}
