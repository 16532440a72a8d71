// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	upstream "k8s.io/dynamic-resource-allocation/cel"
)

// compareTexts are comparisons that hold or not, of values that are missing or of another type for some devices.
var compareTexts = []string{
	`device.driver == "gpu.example.com"`,
	`"third.example.com" == device.driver`,
	`device["driver"] == "gpu.example.com"`,
	`device.attributes["gpu.example.com"].int == 1`,
	`2 == device.attributes["other.example.com"].int`,
	`device.attributes["gpu.example.com"]["string"] == "a100"`,
	`device["attributes"]["gpu.example.com"].string == "h100"`,
	`device.attributes["gpu.example.com"].bool == true`,
	`device.attributes["other.example.com"].bool == true`,
	`device.attributes["gpu.example.com"].version == "1.2.3"`,
	`device.attributes["gpu.example.com"].strings == "a"`,
	`device.attributes["gpu.example.com"].missing == 1`,
	`device.attributes["gpu.example.com"]["other.example.com/int"] == 2`,
	`device.attributes["a/b"].c == 1`,
	`device.attributes["a"]["b/c"] == 1`,
	`device.attributes[""].x == 1`,
}

// testTexts are tests other than for equality.
var testTexts = []string{
	`device.driver != "gpu.example.com"`,
	`!(device.driver == "gpu.example.com")`,
	`device.driver in ["third.example.com", "x"]`,
	`device.driver.endsWith("example.com")`,
	`matches(device.driver, "^gpu")`,
	`device.attributes["gpu.example.com"].string != "h100"`,
	`device.attributes["gpu.example.com"].string in ["h100", "a100"]`,
	`device.attributes["gpu.example.com"].string.startsWith("a")`,
	`device.attributes["gpu.example.com"].string.endsWith("7")`,
	`device.attributes["gpu.example.com"].string.contains("10")`,
	`device.attributes["gpu.example.com"].string.matches("^[ah]10+$")`,
	`device.attributes["gpu.example.com"].string < "a1000"`,
	`"a100" >= device.attributes["gpu.example.com"].string`,
	`device.attributes["gpu.example.com"].int != 1`,
	`device.attributes["gpu.example.com"].int in [3, -1]`,
	`device.attributes["gpu.example.com"].int > 0`,
	`device.attributes["gpu.example.com"].int >= 2`,
	`1 < device.attributes["other.example.com"].int`,
	`2 <= device.attributes["gpu.example.com"].int`,
	`device.attributes["gpu.example.com"].int <= -5`,
	`device.attributes["gpu.example.com"].bool`,
	`!device.attributes["other.example.com"].bool`,
	`device.attributes["gpu.example.com"].bool != true`,
	`device.attributes["gpu.example.com"].bool in [false]`,
	`device.attributes["gpu.example.com"].version.startsWith("1")`,
	`device.attributes["gpu.example.com"].strings.contains("a")`,
	`device.attributes["gpu.example.com"].missing.startsWith("a")`,
	`device.attributes["gpu.example.com"].missing != 1`,
	`device.attributes["gpu.example.com"].missing`,
	`has(device.attributes["gpu.example.com"].string)`,
	`has(device.attributes["gpu.example.com"].missing)`,
	`has(device.attributes.gpu.string)`,
	`device.attributes["gpu.example.com"].?string.orValue("") == "a100"`,
	`device.attributes["gpu.example.com"].?missing.orValue("none") in ["none"]`,
	`device.attributes["gpu.example.com"][?"missing"].orValue(7) > 5`,
	`device.attributes["gpu.example.com"].?int.orValue("") == "1"`,
	`device.attributes["other.example.com"].?bool.orValue(true)`,
	`device.attributes["gpu.example.com"].?string.orValue("").matches("h")`,
}

// Comparisons by themselves, and joined in twos and threes, are answered as by Kubernetes. What CEL does not have to answer is
// decided.
func TestComparisonsLikeUpstream(t *testing.T) {
	texts := append(append([]string(nil), compareTexts...), testTexts...)
	for i, a := range compareTexts {
		for j, b := range compareTexts {
			texts = append(texts, a+" && "+b)
			if i < 4 {
				texts = append(texts, fmt.Sprintf("%s && (%s && %s)", a, compareTexts[(i+j)%len(compareTexts)], b))
			}
		}
	}
	rand := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		texts = append(texts, joinedText(rand, 3))
	}
	decided, left := make(map[bool]int), 0
	for _, text := range texts {
		ours, theirs, difference := compareCompiled(text, upstream.Features{}, false)
		if difference != "" {
			t.Errorf("%s: %s", text, difference)
		}
		if ours == nil {
			continue // the checker knows that two types never agree
		}
		if ours.comparison == nil {
			t.Errorf("%s is not taken for a comparison", text)
		}
		for i, device := range append(devices(), similarDevices()...) {
			for _, driver := range []string{gpu, "third.example.com"} {
				if match, ok := ours.comparison.decide(NewDevice(driver, device)); ok {
					decided[match]++
				} else {
					left++
				}
				if difference := compareMatch(t, ours, theirs, driver, device); difference != "" {
					t.Errorf("%s: device %d of %s: %s", text, i, driver, difference)
				}
			}
		}
	}
	if decided[true] < 2000 || decided[false] < 2000 || left < 2000 {
		t.Errorf("%d were true, %d false and %d left to CEL: too few of some", decided[true], decided[false], left)
	}
}

// joinedText joins some of the texts by logical operators.
func joinedText(rand *rand.Rand, depth int) string {
	all := append(append([]string(nil), compareTexts...), testTexts...)
	switch n := rand.IntN(6); {
	case depth == 0 || n < 2:
		return all[rand.IntN(len(all))]
	case n == 2:
		return "!(" + joinedText(rand, depth-1) + ")"
	case n == 3:
		return "(" + joinedText(rand, depth-1) + " && " + joinedText(rand, depth-1) + ")"
	default:
		return "(" + joinedText(rand, depth-1) + " || " + joinedText(rand, depth-1) + ")"
	}
}

// similarDevices have other values under the names of [devices], and texts that are longer than the API admits.
func similarDevices() (all []*resourceapi.Device) {
	for i, text := range []string{"h100", "a1000", "b7", "", strings.Repeat("a100", maxCompared)} {
		all = append(all, &resourceapi.Device{Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"gpu.example.com/string": {StringValue: &text}, "gpu.example.com/int": {IntValue: new(int64(i - 1))},
			"gpu.example.com/bool": {BoolValue: new(i%2 == 0)}, "other.example.com/int": {IntValue: new(int64(i))},
		}})
	}
	return all
}

// A text for which CEL exceeds the cost limit is an error here, too.
func TestLongTextsAreLeftToCEL(t *testing.T) {
	text := strings.Repeat("a", 11<<20)
	device := &resourceapi.Device{Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"x": {StringValue: &text}}}
	ours, theirs, difference := compareCompiled(`device.attributes["gpu.example.com"].x.contains("b")`, upstream.Features{}, false)
	if difference == "" {
		difference = compareMatch(t, ours, theirs, gpu, device)
	}
	if _, err := ours.Matches(t.Context(), NewDevice(gpu, device)); err == nil || difference != "" {
		t.Errorf("%v, %s: want the error of the cost limit", err, difference)
	}
}

// All else is left to CEL.
func TestNoComparison(t *testing.T) {
	for _, text := range []string{
		`true`, `device.driver == device.driver`, `device.driver == "x" || true`,
		`device.attributes["d"].x == 1.0`, `device.attributes["d"].x == dyn(1)`, `device.attributes[device.driver].x == 1`,
		`has(device.attributes["d"].x) == true`, `device.attributes["d"].?x == optional.of(1)`, `device.allowMultipleAllocations == true`,
		`device.attributes["d"].x == 1 && device.attributes["d"].x + 1 > 0`, `device.capacity["d"].x == quantity("1")`,
		`cel.bind(device, {"driver": "x"}, device.driver == "x")`, `has(device.driver)`,
		`device.?driver.orValue("a") == "a"`, `device.attributes[?"d"].?x.orValue("a") == "b"`, `device.attributes["d"].x in []`,
		`device.attributes["d"].x in [dyn(1), dyn("1")]`, `has(device.capacity["d"].x)`, `"d" in device.attributes`,
		`device.attributes["d"].x.lowerAscii() == "x"`, `"ab".startsWith(device.attributes["d"].x)`, `device.attributes["d"].x > true`,
		`device.attributes["d"].x ? true : false`, `device.attributes["d"].x.orValue(1) == 1`,
	} {
		if p := selector(t, text); p.comparison != nil {
			t.Errorf("%s is taken for a comparison", text)
		}
	}
}
