// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"fmt"
	"testing"

	upstream "k8s.io/dynamic-resource-allocation/cel"
)

// compared are comparisons that hold or not, of values that are missing or of another type for some devices.
var compared = []string{
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

// Comparisons by themselves, and in twos and threes, are answered as by Kubernetes. What CEL does not have to answer is decided.
func TestComparisonsLikeUpstream(t *testing.T) {
	texts := append([]string(nil), compared...)
	for i, a := range compared {
		for j, b := range compared {
			texts = append(texts, a+" && "+b)
			if i < 4 {
				texts = append(texts, fmt.Sprintf("%s && (%s && %s)", a, compared[(i+j)%len(compared)], b))
			}
		}
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
		if ours.comparisons == nil {
			t.Errorf("%s is not taken for comparisons", text)
		}
		for i, device := range devices() {
			for _, driver := range []string{gpu, "third.example.com"} {
				if match, ok := ours.comparisons.decide(NewDevice(driver, device)); ok {
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
	if decided[true] < 100 || decided[false] < 500 || left < 1000 {
		t.Errorf("%d were true, %d false and %d left to CEL: too few of some", decided[true], decided[false], left)
	}
}

// All else is left to CEL.
func TestNoComparison(t *testing.T) {
	for _, text := range []string{
		`true`, `device.driver != "x"`, `device.driver == device.driver`, `device.driver == "x" || true`, `!(device.driver == "x")`,
		`device.attributes["d"].x == 1.0`, `device.attributes["d"].x == dyn(1)`, `device.attributes[device.driver].x == 1`,
		`has(device.attributes["d"].x) == true`, `device.attributes["d"].?x == optional.of(1)`, `device.allowMultipleAllocations == true`,
		`device.attributes["d"].x == 1 && device.attributes["d"].x > 0`, `device.capacity["d"].x == quantity("1")`,
		`cel.bind(device, {"driver": "x"}, device.driver == "x")`,
	} {
		if p := selector(t, text); p.comparisons != nil {
			t.Errorf("%s is taken for comparisons", text)
		}
	}
}
