// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package narrow

import (
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator/extension"
)

const rack = resourceapi.FullyQualifiedName("example.com/rack")

func TestClaim(t *testing.T) {
	asks := &resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
		{Name: "one", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu"}},
		{Name: "two", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "big"}, {Name: "small"}}},
	}}
	more := extension.Claim{Requests: map[string]extension.Request{"one": {Classes: []extension.Class{{DeviceClassName: "other"}}}}}
	for _, c := range []struct {
		requests []string
		want     [4]int // selectors of one, two/big, two/small, and the other class of one
	}{
		{nil, [4]int{1, 1, 1, 1}},
		{[]string{"one"}, [4]int{1, 0, 0, 1}},
		{[]string{"two"}, [4]int{0, 1, 1, 0}},
		{[]string{"two/small"}, [4]int{0, 0, 1, 0}},
		{[]string{"tw"}, [4]int{}},
	} {
		got, extended := Claim(asks, more, []Filter{{Attribute: rack, Requests: c.requests, Values: []string{`"r1"`}}})
		two := got.Requests[1].FirstAvailable
		all := [][]resourceapi.DeviceSelector{got.Requests[0].Exactly.Selectors, two[0].Selectors, two[1].Selectors, extended.Requests["one"].Classes[0].Selectors}
		for i, selectors := range all {
			if len(selectors) != c.want[i] {
				t.Errorf("%q: place %d has %d selectors, want %d", c.requests, i, len(selectors), c.want[i])
			}
			for _, s := range selectors {
				if want := `"rack" in device.attributes["example.com"] && device.attributes["example.com"]["rack"].includes("r1")`; s.CEL.Expression != want {
					t.Errorf("%q: selector %s, want %s", c.requests, s.CEL.Expression, want)
				}
			}
		}
		if asks.Requests[0].Exactly.Selectors != nil || more.Requests["one"].Classes[0].Selectors != nil {
			t.Fatalf("%q: what was given has changed", c.requests)
		}
	}
}

func TestPasses(t *testing.T) {
	device := func(a resourceapi.DeviceAttribute) *resourceapi.Device {
		return &resourceapi.Device{Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"rack": a}}
	}
	for _, c := range []struct {
		of   resourceapi.DeviceAttribute
		want []string
	}{
		{resourceapi.DeviceAttribute{StringValue: ptr.To("a\"b")}, []string{`"a\"b"`}},
		{resourceapi.DeviceAttribute{IntValue: ptr.To(int64(-3))}, []string{"-3"}},
		{resourceapi.DeviceAttribute{BoolValue: ptr.To(false)}, []string{"false"}},
		{resourceapi.DeviceAttribute{VersionValue: ptr.To("1.2.3")}, []string{`semver("1.2.3")`}},
		{resourceapi.DeviceAttribute{StringValues: []string{"x", "y"}}, []string{`"x"`, `"y"`}},
		{resourceapi.DeviceAttribute{StringValue: ptr.To("dray-project.github.io/unknown/node/0")}, nil},
		{resourceapi.DeviceAttribute{}, nil},
	} {
		d := device(c.of)
		if got := Literals("example.com", d, rack); !slices.Equal(got, c.want) {
			t.Errorf("%v: %q, want %q", c.of, got, c.want)
		}
		if got := Literals("other.example.com", d, rack); got != nil {
			t.Errorf("%v: another driver has %q", c.of, got)
		}
		for _, value := range append(c.want, `"other"`) {
			f := &Filter{Attribute: rack, Values: []string{value}}
			if got, want := f.Passes("example.com", d), slices.Contains(c.want, value); got != want {
				t.Errorf("%v passes %s: %t, want %t", c.of, value, got, want)
			}
		}
	}
}

func TestValues(t *testing.T) {
	const has = `"rack" in device.attributes["example.com"] && `
	const rackOf = `device.attributes["example.com"]["rack"]`
	device := &resourceapi.Device{Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"rack": {StringValues: []string{"x", "y"}}}}
	for _, c := range []struct {
		filter     Filter
		expression string
		passes     bool
	}{
		{Filter{Values: []string{`"x"`}}, has + rackOf + `.includes("x")`, true},
		{Filter{Values: []string{`"x"`, `"y"`}}, has + rackOf + `.includes("x") && ` + rackOf + `.includes("y")`, true},
		{Filter{Values: []string{`"x"`, `"z"`}}, has + rackOf + `.includes("x") && ` + rackOf + `.includes("z")`, false},
		{Filter{Values: []string{`"x"`}, Only: true}, has + `(type(` + rackOf + `) == list ? ` + rackOf + ` : [` + rackOf + `]).all(v, v in ["x"])`, false},
		{Filter{Values: []string{`"x"`, `"y"`, `"z"`}, Only: true}, has + `(type(` + rackOf + `) == list ? ` + rackOf + ` : [` + rackOf + `]).all(v, v in ["x", "y", "z"])`, true},
		{Filter{}, "false", false},
		{Filter{Only: true}, "false", false},
	} {
		c.filter.Attribute = rack
		if got := c.filter.selector().CEL.Expression; got != c.expression {
			t.Errorf("selector %s, want %s", got, c.expression)
		}
		if got := c.filter.Passes("example.com", device); got != c.passes {
			t.Errorf("%+v passes: %t", c.filter, got)
		}
	}
}
