// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReads(t *testing.T) {
	attribute := func(names ...Name) Reads { return Reads{Exact: true, Attributes: names} }
	capacity := func(names ...Name) Reads { return Reads{Exact: true, Capacities: names} }
	ax, ay, bx := Name{"a", "x"}, Name{"a", "y"}, Name{"b", "x"}
	for expression, want := range map[string]Reads{
		`true`:                                         {Exact: true},
		`device.driver == "a"`:                         {Exact: true, Driver: true},
		`device.?driver.hasValue()`:                    {Exact: true, Driver: true},
		`device.allowMultipleAllocations`:              {Exact: true, Multiple: true},
		`has(device.attributes)`:                       {Exact: true},
		`has(device.attributes.a)`:                     {Exact: true}, // yields true for any domain
		`"a" in device.attributes`:                     {Exact: true, AttributeDomains: []string{"a"}},
		`"a" in device.capacity`:                       {Exact: true, CapacityDomains: []string{"a"}},
		`"x" in device.attributes["a"]`:                attribute(ax),
		`device.attributes["a"].x`:                     attribute(ax),
		`device.attributes["a"]["x"]`:                  attribute(ax),
		`device.attributes.a.x`:                        attribute(ax),
		`device.attributes["a"].x.y.z == 1`:            attribute(ax),
		`device.attributes["a"].x[device.driver] == 1`: {Exact: true, Driver: true, Attributes: []Name{ax}},
		`has(device.attributes["a"].x)`:                attribute(ax),
		`device.attributes["a"].?x.orValue(true)`:      attribute(ax),
		`device.attributes["a"][?"x"].orValue(true)`:   attribute(ax),
		`device.attributes[?"a"].x.orValue(true)`:      attribute(ax),
		`device.attributes[?"a"].?x.orValue(true)`:     attribute(ax),
		`device.?attributes["a"].x.orValue(true)`:      attribute(ax),
		`device.attributes["b"].x == device.attributes["a"].y && device.attributes["a"].x`: attribute(ax, ay, bx),
		`device.attributes["a"].x.exists(device, device == 1)`:                             attribute(ax),
		`device.attributes["a"].x.all(k, v, v == device.attributes["a"].y)`:                attribute(ax, ay),
		`[device.attributes["a"].x].size() == {"k": device.attributes["a"].y}.size()`:      attribute(ax, ay),
		`google.protobuf.Value{bool_value: device.attributes["a"].x} == true`:              attribute(ax),
		`cel.bind(d, device.attributes["a"], d.x && d.y)`:                                  attribute(ax, ay),
		`cel.bind(m, device.attributes, m["a"].x && cel.bind(b, m["b"], b.x))`:             {Exact: true, AnyAttribute: true, Attributes: []Name{ax, bx}},
		`cel.bind(m, device.capacity, m["a"].x.isInteger())`:                               {Exact: true, AnyCapacity: true, Capacities: []Name{ax}},
		`cel.bind(d, device, d.attributes["a"].x)`:                                         attribute(ax),
		`cel.bind(d, device, d).attributes["a"].x`:                                         attribute(ax),
		`cel.bind(device, device.attributes["a"], device.x)`:                               attribute(ax),
		`cel.bind(device, 1, .device.attributes["a"].x)`:                                   attribute(ax),
		`cel.bind(v, device.attributes["a"].x, v)`:                                         attribute(ax),
		`device.capacity["a"].x.isInteger()`:                                               capacity(ax),
		`cel.bind(c, device.capacity["a"], c.x.isLessThan(c.y))`:                           capacity(ax, ay),
		`device.attributes["a"].exists(k, k == "x")`:                                       {},
		`device.attributes.exists(d, d == "a")`:                                            {},
		`device.attributes[device.driver].x`:                                               {Driver: true},
		`device.attributes["a"][device.attributes["a"].x]`:                                 {Attributes: []Name{ax}},
		`device.attributes["a"].size() == 1`:                                               {},
		`device.attributes["a"] == {}`:                                                     {},
		`dyn(device).driver == "a"`:                                                        {},
		`[device].size() == 1`:                                                             {},
		`{"d": device.attributes}.size() == 1`:                                             {},
		`[device.attributes["a"]].exists(a, a.x)`:                                          {},
		`(true ? device.attributes["a"] : device.attributes["b"]).x`:                       {},
		`cel.bind(d, device.attributes["a"], d.size() == 1)`:                               {},
		`["x"].exists(k, k in device.attributes["a"])`:                                     {},
		`device.attributes[?"a"].hasValue()`:                                               {},
	} {
		if diff := cmp.Diff(want, selector(t, expression).Reads()); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", expression, diff)
		}
	}
}
