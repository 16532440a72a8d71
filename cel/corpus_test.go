// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const gpu = "gpu.example.com"

// operands are expressions that stand for something in or beside a device.
var operands = []string{
	`device.driver`,
	`device.allowMultipleAllocations`,
	`device.attributes["gpu.example.com"].int`,
	`device.attributes["gpu.example.com"]["string"]`,
	`device.attributes["gpu.example.com"].bool`,
	`device.attributes["gpu.example.com"].version`,
	`device.attributes["gpu.example.com"].ints`,
	`device.attributes["gpu.example.com"].strings`,
	`device.attributes["gpu.example.com"].bools`,
	`device.attributes["gpu.example.com"].versions`,
	`device.attributes["gpu.example.com"].missing`,
	`device.attributes["other.example.com"].int`,
	`device.attributes["nowhere.example.com"].int`,
	`device.attributes["gpu.example.com"].?string.orValue("none")`,
	`device.attributes[?"gpu.example.com"].int.orValue(7)`,
	`device.attributes["gpu.example.com"][?"missing"].orValue(3)`,
	`device.capacity["gpu.example.com"].memory`,
	`device.capacity["gpu.example.com"].small`,
	`device.capacity["gpu.example.com"].huge`,
	`device.capacity["gpu.example.com"].missing`,
	`device.capacity["other.example.com"].memory`,
	`device.attributes["gpu.example.com"]`,
	`device.capacity["gpu.example.com"]`,
	`device.attributes`,
	`device.capacity`,
	`device.attributes["nowhere.example.com"]`,
	`device`,
	`dyn(device)`,
	`dyn(device.attributes)`,
	`cel.bind(g, device.attributes["gpu.example.com"], g.int)`,
	`cel.bind(a, device.attributes, a["gpu.example.com"].string)`,
	`cel.bind(d, device, d.attributes["other.example.com"].int)`,
	`(device.driver == "gpu.example.com" ? device.attributes["gpu.example.com"] : device.attributes["other.example.com"]).int`,
	`1`, `"a100"`, `true`, `quantity("1Ki")`, `semver("1.2.3")`, `[1, 2, 3]`, `null`,
	`optional.of(1)`, `optional.none()`, `2.5`, `3u`, `{"a": 1}`, `duration("1h")`,
}

// predicates apply to one operand.
var predicates = []string{
	`%s`, `!%s`, `%s == 1`, `%s == "a100"`, `%s != "a100"`, `%s == true`, `%s > 0`, `%s >= 1.5`, `%s < 10u`,
	`%s in [1, 2, "a100", true]`, `1 in %s`, `"a100" in %s`, `"int" in %s`, `"gpu.example.com" in %s`,
	`%s.isGreaterThan(quantity("1Ki"))`, `%s.isLessThan(semver("2.0.0"))`, `%s.compareTo(quantity("1Gi")) == 0`,
	`%s.isInteger()`, `%s.asInteger() > 0`, `%s.add(quantity("1")).isInteger()`, `%s.sign() == 1`,
	`%s.add(1) == quantity("5")`, `%s.asApproximateFloat() > 1.0`, `%s.major() == 1`,
	`%s.startsWith("a")`, `%s.contains("1")`, `%s.matches("^a[0-9]+$")`, `%s.lowerAscii() == "a100"`,
	`%s.split("0").size() == 3`, `%s.size() == 2`, `size(%s) > 1`, `%s.includes(1)`, `%s.includes("a100")`,
	`%s.exists(x, x == 1)`, `%s.exists(x, x == "int")`, `%s.all(x, x != "zz")`, `%s.exists_one(x, x == 2)`,
	`%s.map(x, x).size() == 3`, `%s.filter(x, x != "int").size() > 1`, `%s.exists(x, x.startsWith("gpu"))`,
	`%s.all(k, v, k != "zz")`, `%s.exists(k, v, v == 1)`, `%s.transformList(k, v, k).size() > 2`,
	`%s.transformMap(k, v, v).size() > 1`, `%s[0] == 1`, `%s["int"] == 1`, `%s.int == 1`, `%s[?0].hasValue()`,
	`%s.isSorted()`, `%s.sum() == 6`, `%s.max() == 3`, `%s.indexOf(2) == 1`, `%s + 1 == 2`, `%s + "x" == "a100x"`,
	`%s + [9] == [1, 2, 3, 9]`, `type(%s) == int`, `type(%s) == map`, `string(%s) == "1"`, `int(%s) == 1`, `bool(%s)`,
	`%s == null`, `"%%s".format([%[1]s]) == "a100"`, `[%s].size() == 1`, `{"k": %s}.size() == 1`, `{%s: 1}.size() == 1`,
	`%[1]s == %[1]s`, `dyn(%s) == dyn(1)`, `dyn(%s).int == 1`, `dyn(%s)["driver"] == "gpu.example.com"`,
	`has(dyn(%s).int)`, `optional.ofNonZeroValue(%s).hasValue()`, `optional.of(%s).orValue(1) == 1`,
	`%s ? true : false`, `%s || true`, `%s && false`, `%s == 1 || device.driver != ""`,
	`%[1]s == 1 || %[1]s == "a100" || %[1]s == true`, `-%s == 1`, `%s %% 2 == 1`, `%s.matches("(")`,
	`sets.contains([1, 2, 3], %s)`, `sets.intersects(%s, [2])`, `%s.orValue(1) == 1`, `%s.hasValue()`,
	`isQuantity(%s)`, `isSemver(%s)`, `quantity(%s).isInteger()`, `%s.join(",") == "a,b"`, `%s.first() == 1`,
	`%s.distinct().size() > 1`, `%s.flatten().size() > 1`, `%s.reverse()[0] == 3`, `%s.slice(0, 1).size() == 1`,
	`%s == device.attributes`, `%s == device.attributes["gpu.example.com"]`, `%s == device.capacity["gpu.example.com"]`,
	`dyn(%s) == dyn({})`, `%s == device`, `%s.isLessThan(quantity("1e40")) && %[1]s.isInteger()`,
	`%s.optMap(v, v == 1).orValue(false)`, `%s.?int.hasValue()`, `%s.?int.orValue(0) == 1`, `has(%s.int)`, `has(%s.memory)`,
}

// whole expressions, from the documentation of drivers and from the dark corners.
var expressions = []string{
	``, `?!`, `true`, `false`, `1`, `"true"`, `dyn(true)`, `dyn(optional.of(true))`, `dyn(null)`, `[true]`,
	`google.protobuf.BoolValue{value: true}`, `dyn(google.protobuf.BoolValue{value: true})`,
	`google.protobuf.Struct{fields: {"a": google.protobuf.Value{number_value: 1.0}}}.a == 1.0`,
	`device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu"`,
	`device.attributes["gpu.example.com"].string.lowerAscii().matches("^.*a100.*$")`,
	`device.attributes["gpu.example.com"].string == "a100" && device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0`,
	`!has(device.attributes["gpu.example.com"].missing) || device.attributes["gpu.example.com"].missing == 1`,
	`has(device.attributes["gpu.example.com"].int) && device.attributes["gpu.example.com"].int > 0`,
	`has(device.attributes.foo)`, `has(device.attributes)`, `has(device.driver)`, `has(device.nonsense)`, `device.nonsense`,
	`has(device.capacity["gpu.example.com"].memory)`, `has(device.attributes.foo.bar)`, `has(device.attributes["gpu.example.com"].string.sub)`,
	`device.?attributes.hasValue()`, `device.?driver.orValue("") == "gpu.example.com"`,
	`device.attributes[?"gpu.example.com"].?int.hasValue()`, `device.attributes[?"nowhere"].hasValue()`,
	`device.attributes.?nowhere.hasValue()`, `device.attributes[?"nowhere"].x.hasValue()`,
	`"memory" in device.capacity["gpu.example.com"]`, `"gpu.example.com" in device.attributes`, `"nowhere" in device.capacity`,
	`device.attributes.exists(d, device.attributes[d].exists(i, i == "int"))`,
	`device.attributes.all(d, device.attributes[d].all(i, device.attributes[d][i] != 42))`,
	`device.attributes[device.driver].int == 1`, `device.attributes[device.driver + ""]["int"] == 1`,
	`device.attributes["gpu.example.com"][device.attributes["gpu.example.com"].string] == 1`,
	`device.attributes["gpu.example.com"][dyn(1)] == 1`, `dyn(1) in device.attributes["gpu.example.com"]`,
	`dyn(semver("1.2.3")) in device.capacity["gpu.example.com"]`, `dyn(optional.of("memory")) in device.capacity["gpu.example.com"]`,
	`dyn(device.capacity["gpu.example.com"].memory) in device.capacity["gpu.example.com"]`, `dyn(1) in device.capacity["gpu.example.com"]`,
	`optional.of("memory") in dyn(device.capacity["gpu.example.com"])`, `dyn(1.0) in dyn(device.capacity["other.example.com"])`,
	`dyn(device).size() == 4`, `"driver" in dyn(device)`, `dyn(device).exists(k, k == "driver")`, `dyn(device).nonsense == 1`,
	`dyn(device).attributes["x"].size() == 0`, `dyn(device).transformMap(k, v, 1).size() == 4`, `device == device`,
	`dyn(device) == dyn({"driver": "gpu.example.com"})`, `type(device) == map`, `[device].size() == 1`, `device in [device]`,
	`device.attributes["a"] == device.attributes["b"]`, `device.attributes["a"] == {}`, `{} == device.attributes["a"]`,
	`device.attributes == device.attributes`, `device.attributes["gpu.example.com"].ints == [1, 2, 3]`,
	`[1, 2, 3] == device.attributes["gpu.example.com"].ints`, `device.attributes["gpu.example.com"].ints + [4] == [1, 2, 3, 4]`,
	`device.attributes["gpu.example.com"].ints.exists(i, i in [2, 9])`, `device.attributes["gpu.example.com"].ints[1] == 2`,
	`device.attributes["gpu.example.com"].ints[99] == 2`, `device.attributes["gpu.example.com"].ints["a"] == 2`,
	`device.attributes["gpu.example.com"].versions.all(v, v.isGreaterThan(semver("0.1.0")))`,
	`device.attributes["gpu.example.com"].versions.includes(semver("1.2.3"))`,
	`cel.bind(dra, device.attributes["gpu.example.com"], dra.bool && dra.int == 1)`,
	`cel.bind(c, device.capacity["gpu.example.com"], c.memory.isGreaterThan(c.small))`,
	`cel.bind(device, device.attributes["gpu.example.com"], device.int == 1)`,
	`cel.bind(x, device.attributes, cel.bind(y, x["gpu.example.com"], y.int == 1 && x["other.example.com"].int == 2))`,
	`cel.bind(a, device.attributes, a["nowhere"].size() == 0)`, `cel.bind(a, device.attributes, has(a["nowhere"].x))`,
	`cel.bind(a, device.attributes, has(a.nowhere))`, `cel.bind(c, device.capacity, has(c["gpu.example.com"].memory))`,
	`cel.bind(i, device.attributes["nowhere"], has(i.x))`, `cel.bind(c, device.capacity["gpu.example.com"], has(c.memory))`,
	`cel.bind(l, device.attributes["gpu.example.com"].ints, l + [1] == [1])`,
	`cel.bind(device, 1, .device.driver == "gpu.example.com")`,
	`[1].all(device, device == 1)`, `[1].all(device, .device.driver == "gpu.example.com")`,
	`["gpu.example.com"].all(d, device.attributes[d].int == 1)`, `[device.attributes].all(a, a["gpu.example.com"].int == 1)`,
	`[].exists(x, device.attributes["gpu.example.com"].missing == 1)`, `[].all(x, true)`,
	`[[1, 2], [3]].all(x, x.all(y, y < 5))`, `device.attributes["gpu.example.com"].exists(k, device.attributes["gpu.example.com"][k] == 1)`,
	`device.attributes["gpu.example.com"].map(k, string(k)).exists(k, k == "int")`,
	`device.attributes["gpu.example.com"].all(k, v, type(v) != double)`, `device.capacity.all(d, m, m.size() >= 0)`,
	`device.capacity["gpu.example.com"].all(k, v, v.isGreaterThan(quantity("0")))`,
	`device.capacity["gpu.example.com"].memory == device.capacity["other.example.com"].memory`,
	`device.capacity["gpu.example.com"].memory.sub(device.capacity["gpu.example.com"].small).sign() == 1`,
	`device.capacity["gpu.example.com"].small.isInteger() && device.capacity["gpu.example.com"].small.isLessThan(quantity("1e30")) && device.capacity["gpu.example.com"].small.isInteger()`,
	`device.capacity["gpu.example.com"].small.isLessThan(quantity("1e30")) && !device.capacity["gpu.example.com"].small.isInteger()`,
	`optional.ofNonZeroValue(device.attributes).hasValue()`, `optional.ofNonZeroValue(device.attributes["nowhere"]).hasValue()`,
	`optional.ofNonZeroValue(device.capacity["gpu.example.com"]).hasValue()`, `optional.ofNonZeroValue(dyn(device)).hasValue()`,
	`"%s".format([device.attributes["other.example.com"]]) == ""`, `"%s".format([device.driver]) == "gpu.example.com"`,
	`device.attributes["gpu.example.com"].int / 0 == 1`, `device.attributes["gpu.example.com"].int + 9223372036854775807 > 0`,
	`device.attributes["gpu.example.com"].string.matches(device.attributes["gpu.example.com"].string)`,
	`url("https://" + device.driver).getHostname() == device.driver`, `ip("10.0.0.1").family() == 4`,
	`[1, 2, 3].exists(i, device.attributes["gpu.example.com"].missing == i)`,
	`device.attributes["a/b"].c == 1`, `device.attributes["a"]["b/c"] == 1`, `device.attributes[""].x == 1`,
	`device.attributes["gpu.example.com"]["other.example.com/int"] == 2`,
	bomb(7), bomb(5), `device.attributes["gpu.example.com"].string.matches("` + strings.Repeat("(a*)*", 200) + `b")`,
	`(` + strings.Repeat(`device.attributes["gpu.example.com"].int == 1 && `, 150) + `true)`,
	strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300), strings.Repeat("!", 101) + "true",
	`"` + strings.Repeat("x", 10000) + `" == device.driver`,
}

// bomb returns an expression whose cost is a power of ten.
func bomb(depth int) string {
	const digits = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
	open := ""
	for i := range depth {
		open += fmt.Sprintf("%s.all(x%d, ", digits, i)
	}
	return open + "x0 > 0" + strings.Repeat(")", depth)
}

// devices covers every type of attribute, each also missing, empty or wrong.
func devices() []*resourceapi.Device {
	full := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"int":                    {IntValue: new(int64(1))},
		"string":                 {StringValue: new("a100")},
		"bool":                   {BoolValue: new(true)},
		"version":                {VersionValue: new("1.2.3")},
		"ints":                   {IntValues: []int64{1, 2, 3}},
		"strings":                {StringValues: []string{"a", "b"}},
		"bools":                  {BoolValues: []bool{true, false}},
		"versions":               {VersionValues: []string{"1.2.3", "2.0.0-rc.1"}},
		"other.example.com/int":  {IntValue: new(int64(2))},
		"a/b/c":                  {IntValue: new(int64(1))},
		"/x":                     {IntValue: new(int64(1))},
		"other.example.com/bool": {BoolValue: new(false)},
	}
	capacity := map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
		"memory":                   {Value: resource.MustParse("40Gi")},
		"small":                    {Value: resource.MustParse("4")},
		"huge":                     {Value: resource.MustParse("123456789012345678901234567890")},
		"other.example.com/memory": {Value: resource.MustParse("40960Mi")},
		"1.2.3":                    {Value: resource.MustParse("1500m")},
		"40Gi":                     {Value: resource.MustParse("1e3")},
	}
	return []*resourceapi.Device{
		{},
		{Attributes: full, Capacity: capacity},
		{Attributes: full, AllowMultipleAllocations: new(true)},
		{Capacity: capacity, AllowMultipleAllocations: new(false)},
		{Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"int": {StringValue: new("a100")}, "string": {IntValue: new(int64(1))}, "bool": {BoolValue: new(false)},
			"version": {VersionValue: new("2.0.0")}, "ints": {IntValues: []int64{}}, "missing": {BoolValue: new(true)},
			"strings": {StringValue: new("a")}, "gpu.example.com/versions": {VersionValues: []string{"9.9.9"}},
		}, Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"gpu.example.com/memory": {Value: resource.MustParse("500m")}, "small": {Value: resource.MustParse("0")},
			"missing": {Value: resource.MustParse("-3")},
		}},
		{Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"int": {IntValue: new(int64(5)), StringValue: new("two values")}, "bools": {BoolValues: []bool{}, IntValue: new(int64(1))},
		}},
		{Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"int": {IntValue: new(int64(1))}, "version": {VersionValue: new("v1")}}},
		{Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"versions": {VersionValues: []string{"1.0.0", ""}}}},
		{Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"string": {}}},
	}
}
