// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/cmd/dray/internal/cluster"
)

// TestCounts has how numbers of devices are said, where they are equal on all nodes and where they are not.
func TestCounts(t *testing.T) {
	many := make([]string, 20)
	for i := range many {
		many[i] = fmt.Sprintf("v%02d", i)
	}
	numbers := func(counts ...int) Detail {
		c := numberOf("false for ", make([]device, counts[0]))
		for _, n := range counts[1:] {
			other := numberOf("false for ", make([]device, n))
			c.addNodes(&other)
		}
		return Detail{Counts: []Counts{c}}
	}
	missing := Counts{name: "model is ", nodes: 1, absent: "no device has a model"}
	missing.add(missingValue, 2)
	some := Counts{name: "model is ", nodes: 1, absent: "no device has a model"}
	some.add(missingValue, 2)
	some.add("7", 1)
	for want, got := range map[string]Detail{
		"false for 1 device":                             numbers(1),
		"false for 2 devices":                            numbers(2),
		"false for 2 devices ":                           numbers(2, 2, 2), // on each node
		"false for 3 devices on 2 nodes":                 numbers(1, 2),
		"x: model is v00":                                countsOf(values, many[0], many[0]),
		"x: model is v00 (1), v01 (1)":                   countsOf(values, many[:2]...),
		"x: model is v01 (2), v00 (1)":                   countsOf(values, many[1], many[0], many[1]),
		"x: model is v00 (1), v01 (1), v02 (1), v03 (1)": countsOf(values, many[:4]...),
		"x: model is v00 (1), v01 (1), v02 (1), v03 (1), and 1 other value":   countsOf(values, many[:5]...),
		"x: model is v19 (3), v00 (2), v18 (2), v01 (1), and 16 other values": countsOf(values, append(many, "v19", "v00", "v18", "v19")...),
		"x: 1 by v00, 1 by v01, 1 by v02, 1 by v03, 1 by v04":                 countsOf(holders, many[:5]...),
		"x: 1 by v00, 1 by v01, 1 by v02, 1 by v03, 1 by v04, 1 by 1 other":   countsOf(holders, many[:6]...),
		"x: 2 by v06, 1 by v00, 1 by v01, 1 by v02, 1 by v03, 2 by 2 others":  countsOf(holders, append(many[:7:7], "v06")...),
		"no device has a model":                     {Counts: []Counts{missing}},
		"model is missing (2), 7 (1)":               {Counts: []Counts{some}},
		"no device has a model, false for 1 device": {Counts: []Counts{missing, numbers(1).Counts[0]}},
	} {
		if got.String() != strings.TrimSpace(want) {
			t.Errorf("got %q, want %q", got.String(), want)
		}
	}
	list := plainDetails([]string{"a", "b", "c", "d", "e", "f"})
	for n, want := range map[int]string{0: "[]", 4: "[a b c d]", 5: "[a b c d and 1 more]", 6: "[a b c d and 2 more]"} {
		if got := fmt.Sprint(limitDetails(list[:n])); got != want {
			t.Errorf("%d details: got %s, want %s", n, got, want)
		}
	}
}

// TestValues has the attributes and capacities of a device as text, by each way to write their names.
func TestValues(t *testing.T) {
	one := device{pool: &cluster.PoolState{Driver: "gpu.example.com"}, DeviceState: &cluster.DeviceState{Object: &resourceapi.Device{
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"int": {IntValue: ptr.To[int64](-1)}, "bool": {BoolValue: ptr.To(false)}, "text": {StringValue: ptr.To("a b")}, "version": {VersionValue: ptr.To("1.2.3")},
			"ints": {IntValues: []int64{1, 2}}, "bools": {BoolValues: []bool{true}}, "texts": {StringValues: []string{"a", "b"}}, "versions": {VersionValues: []string{"1.0.0"}},
			"gpu.example.com/long": {IntValue: ptr.To[int64](5)}, "other.example.com/int": {IntValue: ptr.To[int64](9)},
		},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("40Gi")}, "other.example.com/memory": {Value: resource.MustParse("1")}},
	}}}
	for _, c := range []struct {
		what       kind
		domain, id string
		want       string
	}{
		{attributes, "gpu.example.com", "int", "-1"}, {attributes, "gpu.example.com", "bool", "false"}, {attributes, "gpu.example.com", "text", `"a b"`},
		{attributes, "gpu.example.com", "version", "version 1.2.3"}, {attributes, "gpu.example.com", "ints", "[1 2]"}, {attributes, "gpu.example.com", "bools", "[true]"},
		{attributes, "gpu.example.com", "texts", `["a" "b"]`}, {attributes, "gpu.example.com", "versions", "[1.0.0]"},
		{attributes, "gpu.example.com", "long", "5"}, {attributes, "other.example.com", "int", "9"}, {attributes, "other.example.com", "bool", ""}, {attributes, "gpu.example.com", "memory", ""},
		{capacities, "gpu.example.com", "memory", "40Gi"}, {capacities, "other.example.com", "memory", "1"}, {capacities, "third.example.com", "memory", ""}, {capacities, "gpu.example.com", "int", ""},
	} {
		got, found := c.what.value(one, cel.Name{Domain: c.domain, ID: c.id})
		if c.want == "" && (found || got != "missing") || c.want != "" && (!found || got != c.want) {
			t.Errorf("%s %s/%s: got %q, %v, want %q", c.what, c.domain, c.id, got, found, c.want)
		}
	}
	published := []*resourceapi.ResourceSlice{{Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", Devices: []resourceapi.Device{*one.Object}}}}
	for _, c := range []struct {
		what       kind
		domain, id string
		want       string
	}{
		{attributes, "gpu.example.com", "int", ""}, {attributes, "gpu.example.com", "long", ""}, {attributes, "other.example.com", "int", ""}, {capacities, "gpu.example.com", "memory", ""},
		{attributes, "gpu.example.com", "versio", "no device has the attribute gpu.example.com/versio: did you mean version or versions"},
		{attributes, "other.example.com", "model", "no device has the attribute other.example.com/model: there is int"},
		{attributes, "gpu.example.co", "int", "no device has any attribute of domain gpu.example.co: did you mean gpu.example.com"},
		{attributes, "zz", "int", "no device has any attribute of domain zz: domains are other.example.com, gpu.example.com"},
		{capacities, "other.example.com", "int", "no device has the capacity other.example.com/int: there is memory"},
	} {
		if got := domainsIn(published, c.what).missing(c.what, cel.Name{Domain: c.domain, ID: c.id}, "other.example.com"); strings.TrimSuffix(got, "?") != c.want {
			t.Errorf("%s %s/%s: got %q, want %q", c.what, c.domain, c.id, got, c.want)
		}
	}
	if got := domainsIn(nil, attributes).missing(attributes, cel.Name{Domain: "d", ID: "i"}, ""); got != "no device has any attribute of domain d" {
		t.Errorf("without devices: %q", got)
	}
	var names []string
	for i := range 13 {
		names = append(names, fmt.Sprintf("name%c", 'a'+i))
	}
	for n, want := range map[int]string{12: ": there is " + strings.Join(names[:12], ", "), 13: ": there is " + strings.Join(names[:12], ", ") + ", … 13 in all"} {
		if got := orElse("there is", "zz", names[:n], ""); got != want {
			t.Errorf("%d names: got %q, want %q", n, got, want)
		}
	}
}

// TestConsumers has who holds a device, and the taint of a device.
func TestConsumers(t *testing.T) {
	for want, holder := range map[string]cluster.HolderState{
		"claim ml/c":                     {Claim: "ml/c", Request: "r"},
		"ml/a":                           {Claim: "ml/c", Consumers: []string{"a"}},
		"ml/a ml/b ml/d":                 {Claim: "ml/c", Consumers: []string{"a", "b", "d"}},
		"ml/a ml/b ml/d and 1 other pod": {Claim: "ml/c", Consumers: []string{"a", "b", "d", "e"}},
	} {
		if got := Consumer(holder); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for want, taint := range map[string]resourceapi.DeviceTaint{
		"k:NoSchedule": {Key: "k", Effect: resourceapi.DeviceTaintEffectNoSchedule}, "k=v:NoExecute": {Key: "k", Value: "v", Effect: resourceapi.DeviceTaintEffectNoExecute},
	} {
		if got := TaintText(&taint); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The name of a capacity gets the driver that has it, else that of the first pool.
func TestNameOfCapacity(t *testing.T) {
	memory := &resourceapi.Device{Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {}}}
	d := &Diagnosis{pools: []*cluster.PoolState{{Driver: "nic.example.com", Devices: []cluster.DeviceState{{Object: &resourceapi.Device{}}}}, {Driver: "gpu.example.com", Devices: []cluster.DeviceState{{Object: memory}}}}}
	for _, test := range []struct {
		name string
		of   *Diagnosis
		want cel.Name
	}{
		{"memory", d, cel.Name{Domain: "gpu.example.com", ID: "memory"}}, {"other", d, cel.Name{Domain: "nic.example.com", ID: "other"}},
		{"x.example.com/memory", d, cel.Name{Domain: "x.example.com", ID: "memory"}},
	} {
		if got := celName(test.name, test.of); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}
