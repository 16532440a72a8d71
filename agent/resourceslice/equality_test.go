// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"
)

type v1ResourceName = v1.ResourceName

func same[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !apiequality.Semantic.DeepEqual(got, want) {
		t.Errorf("%s differ: %s", what, cmp.Diff(want, got))
	}
}

// TestEqualityFields: each field of a device, and of all below it, makes a difference. A
// field that a later version of the API adds fails this test.
func TestEqualityFields(t *testing.T) {
	filler := randfill.NewWithSeed(1).NilChance(0).NumElements(1, 2).MaxDepth(12).Funcs(
		func(q *resource.Quantity, _ randfill.Continue) { *q = resource.MustParse("3Gi") },
		func(at *metav1.Time, _ randfill.Continue) { at.Time = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
	)
	var filled resourceapi.Device
	filler.Fill(&filled)
	other := []resourceapi.Device{*filled.DeepCopy()}
	visited := 0
	visit(reflect.ValueOf(&filled).Elem(), "", func() {}, func(path string) {
		visited++
		a := []resourceapi.Device{filled}
		if want := apiequality.Semantic.DeepEqual(a, other); sameDevices(a, other, sameTaint) != want || sameDevices(other, a, sameTaint) != want {
			t.Errorf("without %s: same %v, want %v", path, !want, want)
		}
	})
	if visited < 40 || !sameDevices([]resourceapi.Device{filled}, other, sameTaint) {
		t.Errorf("only %d fields were looked at, or they were not restored", visited)
	}
}

// visit sets what is in v to zero, one thing at a time, and calls see. Put makes a
// change of v visible where v was copied from.
func visit(v reflect.Value, path string, put func(), see func(path string)) {
	if path != "" {
		original := reflect.New(v.Type()).Elem()
		original.Set(v)
		v.SetZero()
		put()
		see(path)
		v.Set(original)
		put()
	}
	switch v.Kind() {
	case reflect.Pointer:
		visit(v.Elem(), path+"*", put, see)
	case reflect.Slice:
		for i := range v.Len() {
			visit(v.Index(i), path+"[]", put, see)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			visit(value, path+"{}", func() { v.SetMapIndex(key, value); put() }, see)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type() != reflect.TypeFor[metav1.Time]() {
				visit(v.Field(i), path+"."+v.Type().Field(i).Name, put, see)
			}
		}
	}
}

func TestDevicesDeepEqual(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	with := func(taints ...resourceapi.DeviceTaint) []resourceapi.Device {
		return []resourceapi.Device{tainted("a", taints...)}
	}
	for name, test := range map[string]struct {
		a, b []resourceapi.Device
		want bool
	}{
		"nil and empty":       {nil, []resourceapi.Device{}, true},
		"empty map":           {devices("a").Devices, []resourceapi.Device{{Name: "a", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}}}, true},
		"another name":        {devices("a").Devices, devices("b").Devices, false},
		"another order":       {devices("a", "b").Devices, devices("b", "a").Devices, false},
		"fewer":               {devices("a", "b").Devices, devices("a").Devices, false},
		"no time":             {with(taint("k")), with(taint("k", at)), true},
		"a second":            {with(taint("k", at)), with(taint("k", at.Add(time.Second))), true},
		"a second before":     {with(taint("k", at)), with(taint("k", at.Add(-time.Second))), true},
		"more than a second":  {with(taint("k", at)), with(taint("k", at.Add(time.Second+1))), false},
		"another key":         {with(taint("k")), with(taint("l")), false},
		"one taint and no":    {with(taint("k")), with(), false},
		"other time zone":     {with(taint("k", at)), with(taint("k", at.In(time.FixedZone("z", 3600)))), true},
		"one more, same kind": {with(taint("k")), with(taint("k"), taint("k")), false},
	} {
		if got := DevicesDeepEqual(test.a, test.b); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, test := range []struct {
		i, n int
		want string
	}{
		{0, 1, "00000-d-"}, {10, 11, "0000a-d-"}, {0xfffff, 0x100000, "fffff-d-"}, {0, 0x100001, "000000-d-"},
	} {
		got := namePrefix(test.i, test.n, "d", nil)
		index, ok := indexOf(got+"x", digitsFor(test.n))
		if got != test.want || index != test.i || !ok {
			t.Errorf("slice %d of %d: %s, %d %v, want %s", test.i, test.n, got, index, ok, test.want)
		}
	}
	for _, name := range []string{"", "00000", "0000-d", "000000-d", "0000g-d", "-0001-d", "+0001-d"} {
		if index, ok := indexOf(name, indexDigits); ok {
			t.Errorf("%q has index %d", name, index)
		}
	}
}
