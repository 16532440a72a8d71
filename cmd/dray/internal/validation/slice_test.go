// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/cmd/dray/internal/validation"
)

func TestSlices(t *testing.T) {
	checkRules(t, []rule{
		{"fine", sliceOf("nodeName: n, devices: [{name: d}]"), ""},
		{"reach", sliceOf("devices: [{name: d}]"),
			"spec: Invalid value: 0: must set exactly one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection"},
		{"not all nodes", sliceOf("allNodes: false"), "spec.allNodes: Invalid value: false: must be true or left out"},
		{"two terms", sliceOf("nodeSelector: {nodeSelectorTerms: [{}, {}]}"),
			"spec.nodeSelector.nodeSelectorTerms: Invalid value: 2: must have exactly one term"},
		{"reach per device", sliceOf("perDeviceNodeSelection: true, devices: [{name: a, nodeName: n}, {name: b}]"),
			"spec.devices[1]: Invalid value: 0: with perDeviceNodeSelection, must set exactly one of nodeName, nodeSelector and allNodes"},
		{"reach of a device", sliceOf("nodeName: n, devices: [{name: a, nodeName: n}]"),
			"spec.devices[0]: Forbidden: nodeName, nodeSelector and allNodes need perDeviceNodeSelection"},
		{"most devices", sliceOf("nodeName: n, devices: [" + listOf(128, "{name: d%d}") + "]"), ""},
		{"too many devices", sliceOf("nodeName: n, devices: [" + listOf(129, "{name: d%d}") + "]"),
			"spec.devices: Too many: 129: must have at most 128 items"},
		{"most devices, with counters", sliceOf("nodeName: n, devices: [" + listOf(64, "{name: d%d, consumesCounters: [{counterSet: s, counters: {c: {value: 1}}}]}") + "]"), ""},
		{"too many devices, with counters", sliceOf("nodeName: n, devices: [{name: e, consumesCounters: [{counterSet: s, counters: {c: {value: 1}}}]}, " + listOf(64, "{name: d%d}") + "]"),
			"spec.devices: Too many: 65: must have at most 64 items"},
		{"too many devices, with taints", sliceOf("nodeName: n, devices: [{name: e, taints: [{key: k, effect: None}]}, " + listOf(64, "{name: d%d}") + "]"),
			"spec.devices: Too many: 65: must have at most 64 items"},
		{"too many devices, with lists", sliceOf("nodeName: n, devices: [{name: e, attributes: {a: {ints: [1]}}}, " + listOf(64, "{name: d%d}") + "]"),
			"spec.devices: Too many: 65: must have at most 64 items"},
		{"too many devices, with lists of booleans", sliceOf("nodeName: n, devices: [{name: e, attributes: {a: {bools: [true]}}}, " + listOf(64, "{name: d%d}") + "]"),
			"spec.devices: Too many: 65: must have at most 64 items"},
		{"too many devices, with lists of texts", sliceOf("nodeName: n, devices: [{name: e, attributes: {a: {strings: [x]}}}, " + listOf(64, "{name: d%d}") + "]"),
			"spec.devices: Too many: 65: must have at most 64 items"},
		{"too many devices, with lists of versions", sliceOf("nodeName: n, devices: [{name: e, attributes: {a: {versions: [1.0.0]}}}, " + listOf(64, "{name: d%d}") + "]"),
			"spec.devices: Too many: 65: must have at most 64 items"},
		{"counter sets", sliceOf("nodeName: n, sharedCounters: [{name: a, counters: {c: {value: 1}}}, {name: a, counters: {C: {value: 1}}}, {name: b}]"),
			`spec.sharedCounters[1].name: Duplicate value: "a"
spec.sharedCounters[1].counters: Invalid value: "C": ` + labelRule + `
spec.sharedCounters[2].counters: Required value`},
		{"too many counter sets", sliceOf("nodeName: n, sharedCounters: [" + listOf(9, "{name: s%d, counters: {c: {value: 1}}}") + "]"),
			"spec.sharedCounters: Too many: 9: must have at most 8 items"},
		{"too many counters", sliceOf("nodeName: n, sharedCounters: [{name: s, counters: {" + listOf(33, "c%d: {value: 1}") + "}}]"),
			"spec.sharedCounters[0].counters: Too many: 33: must have at most 32 items"},
		{"generation", parse[resourceapi.ResourceSlice]("{metadata: {name: s}, spec: {driver: d, nodeName: n, pool: {name: p, generation: -1, resourceSliceCount: 0}}}"),
			"spec.pool.generation: Invalid value: -1: must not be negative\nspec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero"},
		{"partition type", sliceOf("nodeName: n, partitionTypeAttribute: profile"),
			`spec.partitionTypeAttribute: Invalid value: "profile": must include a domain, as in dra.example.com/name`},
		{"partition type of whole devices", sliceOf("nodeName: n, partitionTypeAttribute: gpu.example.com/kind, devices: [{name: d, attributes: {kind: {string: a}}}]"),
			`spec.partitionTypeAttribute: Invalid value: "gpu.example.com/kind": needs devices that consume counters`},
		{"partition types", sliceOf("nodeName: n, partitionTypeAttribute: gpu.example.com/kind, devices: [{name: w}, {name: a, attributes: {kind: {string: k}}, " + counting + "}, " +
			"{name: b, attributes: {gpu.example.com/kind: {int: 1}}, " + counting + "}, {name: c, " + counting + "}]"),
			`spec.devices[2].attributes[gpu.example.com/kind]: Invalid value: "": must be a string: it is the partitionTypeAttribute
spec.devices[3].attributes[gpu.example.com/kind]: Required value: is the partitionTypeAttribute of a device that consumes counters`},
		{"counters below zero, which the API server takes", sliceOf("nodeName: n, sharedCounters: [{name: a, counters: {c: {value: -1}}}]"), ""},
		{"no device has nodes of its own", sliceOf("perDeviceNodeSelection: false"), "spec.perDeviceNodeSelection: Invalid value: false: must be true or left out"},
		{"skipped", sliceOf("nodeName: n, skipNodeOperations: [NodePrepareResources, NodeUnprepareResources]"), ""},
		{"all skipped", sliceOf("nodeName: n, skipNodeOperations: [NodePrepareResources, '*']"), ""},
		{"only prepare skipped", sliceOf("nodeName: n, skipNodeOperations: [NodePrepareResources]"),
			`spec.skipNodeOperations: Invalid value: "NodePrepareResources": needs NodeUnprepareResources or *, too`},
		{"unknown skipped", sliceOf("nodeName: n, skipNodeOperations: [Reboot, '*', '*']"),
			`spec.skipNodeOperations[0]: Unsupported value: "Reboot": supported values: "NodePrepareResources", "NodeUnprepareResources", "*"
spec.skipNodeOperations[2]: Duplicate value: "*"`},
	})
}

func TestDevices(t *testing.T) {
	checkRules(t, []rule{
		{"fine", deviceOf("attributes: {a: {ints: [1, 2]}, gpu.example.com/b: {version: 1.2.3}, a/b/c: {int: 1}}, capacity: {c: {value: -1}}, bindingConditions: [a.example.com/Ready], bindingFailureConditions: [Failed]"), ""},
		{"empty list", deviceOf("attributes: {a: {strings: []}}"),
			"spec.devices[0].attributes[a]: Invalid value: 0: must have exactly one value: int, bool, string, version, or a list of them that is not empty"},
		{"too many attributes and capacities", deviceOf("attributes: {" + listOf(16, "a%d: {int: 1}") + "}, capacity: {" + listOf(17, "c%d: {value: 1}") + "}"),
			"spec.devices[0]: Too many: 33: must have at most 32 items"},
		{"too many values", deviceOf("attributes: {a: {ints: [" + listOf(24, "%d") + "]}, b: {ints: [" + listOf(24, "%d") + "]}, c: {int: 1}}"),
			"spec.devices[0].attributes: Too many: 49: must have at most 48 items"},
		{"too many values of several types", deviceOf("attributes: {a: {ints: [" + listOf(12, "%d") + "]}, b: {strings: [" + listOf(12, "s%d") + "]}, c: {bools: [" + listOf(12, "true") + "]}, d: {versions: [" + listOf(13, "1.0.%d") + "]}}"),
			"spec.devices[0].attributes: Too many: 49: must have at most 48 items"},
		{"too long values", deviceOf("attributes: {a: {string: " + strings.Repeat("x", 65) + "}, b: {strings: [x, " + strings.Repeat("x", 65) + "]}}"),
			`spec.devices[0].attributes[a].string: Too long: may not be more than 64 bytes
spec.devices[0].attributes[b].strings[1]: Too long: may not be more than 64 bytes`},
		{"too many taints", deviceOf("taints: [" + listOf(17, "{key: k%d, effect: None}") + "]"),
			"spec.devices[0].taints: Too many: 17: must have at most 16 items"},
		{"taint value", deviceOf("taints: [{key: k, value: '-', effect: None}]"),
			`spec.devices[0].taints[0].value: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`},
		{"too many conditions", deviceOf("bindingConditions: [" + listOf(5, "s%d") + "], bindingFailureConditions: [" + listOf(5, "f%d") + "]"),
			`spec.devices[0].bindingConditions: Too many: 5: must have at most 4 items
spec.devices[0].bindingFailureConditions: Too many: 5: must have at most 4 items`},
		{"condition names", deviceOf("bindingConditions: ['', a b]"),
			"spec.devices[0].bindingConditions[0]: Required value\n" + `spec.devices[0].bindingConditions[1]: Invalid value: "a b": ` + keyRule + `
spec.devices[0].bindingFailureConditions: Required value: must be set together with bindingConditions`},
		{"only conditions of failure", deviceOf("bindingFailureConditions: [Failed]"),
			"spec.devices[0].bindingConditions: Required value: must be set together with bindingFailureConditions"},
		{"a condition twice", deviceOf("bindingConditions: [Ready, Ready], bindingFailureConditions: [Failed, Failed, Ready]"),
			`spec.devices[0].bindingConditions[1]: Duplicate value: "Ready"
spec.devices[0].bindingFailureConditions[1]: Duplicate value: "Failed"
spec.devices[0].bindingFailureConditions[2]: Invalid value: "Ready": must not be one of bindingConditions`},
		{"too many counter sets", deviceOf("consumesCounters: [" + listOf(3, "{counterSet: s%d, counters: {c: {value: 1}}}") + "]"),
			"spec.devices[0].consumesCounters: Too many: 3: must have at most 2 items"},
		{"too many counters", deviceOf("consumesCounters: [{counterSet: s, counters: {" + listOf(33, "c%d: {value: 1}") + "}}]"),
			"spec.devices[0].consumesCounters[0].counters: Too many: 33: must have at most 32 items"},
		{"groups", deviceOf("consumesCounters: [{counterSet: s, counters: {c: {value: 1}}, compatibilityGroups: [a, a, B]}]"),
			`spec.devices[0].consumesCounters[0].compatibilityGroups: Too many: 3: must have at most 2 items
spec.devices[0].consumesCounters[0].compatibilityGroups[1]: Duplicate value: "a"
spec.devices[0].consumesCounters[0].compatibilityGroups[2]: Invalid value: "B": ` + labelRule},
	})
}

func TestRequestPolicies(t *testing.T) {
	checkRules(t, []rule{
		{"default alone", policyOf("default: 2"), ""},
		{"values", policyOf("default: 2, validValues: [1, 2, 10]"), ""},
		{"range", policyOf("default: 2, validRange: {min: 0}"), ""},
		{"steps", policyOf("default: 5, validRange: {min: 1, max: 9, step: 2}"), ""},
		{"room for one step", policyOf("default: 2, validRange: {min: 2, step: 8}"), ""},
		{"steps that are fractions", policyOf("default: 1300m, validRange: {min: 100m, max: 1900m, step: 300m}"), ""},
		{"an exclusive device", deviceOf("capacity: {c: {value: 1, requestPolicy: {default: 1}}}"),
			"spec.devices[0].capacity[c].requestPolicy: Forbidden: needs allowMultipleAllocations: true on the device"},
		{"values and range", policyOf("default: 1, validValues: [1], validRange: {min: 1}"),
			"spec.devices[0].capacity[c].requestPolicy.validRange: Forbidden: only one of validValues and validRange can be set"},
		{"no default for values", policyOf("validValues: [1]"),
			"spec.devices[0].capacity[c].requestPolicy.default: Required value: needed with validValues and validRange"},
		{"no default for a range", policyOf("validRange: {min: 1}"),
			"spec.devices[0].capacity[c].requestPolicy.default: Required value: needed with validValues and validRange"},
		{"default not among values", policyOf("default: 3, validValues: [1, 2]"),
			`spec.devices[0].capacity[c].requestPolicy.default: Invalid value: "3": must be one of validValues`},
		{"values out of order, twice and above the capacity", policyOf("default: 2, validValues: [2, 1, 1, 11]"),
			`spec.devices[0].capacity[c].requestPolicy.validValues[1]: Invalid value: "1": values must be in ascending order
spec.devices[0].capacity[c].requestPolicy.validValues[2]: Invalid value: "1": values must be in ascending order
spec.devices[0].capacity[c].requestPolicy.validValues[3]: Invalid value: "11": must not be above the capacity, 10`},
		{"too many values", policyOf("default: 0, validValues: [" + listOf(11, "%d") + "]"),
			"spec.devices[0].capacity[c].requestPolicy.validValues: Too many: 11: must have at most 10 items"},
		{"no min", policyOf("default: 1, validRange: {max: 2}"),
			"spec.devices[0].capacity[c].requestPolicy.validRange.min: Required value"},
		{"min below zero", policyOf("default: 1, validRange: {min: -1}"), ""},
		{"min below zero, with a step", policyOf("default: 1, validRange: {min: -1, step: 1}"),
			`spec.devices[0].capacity[c].requestPolicy.validRange.min: Invalid value: "-1": with a step, must not be negative, and 63 bits must hold it`},
		{"too small fractions", policyOf("default: 1, validRange: {min: 100u}"),
			`spec.devices[0].capacity[c].requestPolicy.validRange.min: Invalid value: "100u": with fractions, must be a number of thousandths that 63 bits can hold`},
		{"default below min", policyOf("default: 1, validRange: {min: 2}"),
			`spec.devices[0].capacity[c].requestPolicy.validRange.min: Invalid value: "2": must not be above the default, 1`},
		{"default above max", policyOf("default: 3, validRange: {min: 1, max: 2}"),
			`spec.devices[0].capacity[c].requestPolicy.default: Invalid value: "3": must not be above max, 2`},
		{"min above max", policyOf("default: 4, validRange: {min: 4, max: 3}"),
			`spec.devices[0].capacity[c].requestPolicy.validRange.min: Invalid value: "4": must not be above max, 3
spec.devices[0].capacity[c].requestPolicy.default: Invalid value: "4": must not be above max, 3`},
		{"range above the capacity", policyOf("default: 11, validRange: {min: 11, max: 12}"),
			`spec.devices[0].capacity[c].requestPolicy.validRange.min: Invalid value: "11": must not be above the capacity, 10
spec.devices[0].capacity[c].requestPolicy.validRange.max: Invalid value: "12": must not be above the capacity, 10`},
		{"step of zero", policyOf("default: 1, validRange: {min: 1, step: 0}"),
			`spec.devices[0].capacity[c].requestPolicy.validRange.step: Invalid value: "0": must be greater than zero`},
		{"no room for a step", policyOf("default: 2, validRange: {min: 2, step: 9}"),
			`spec.devices[0].capacity[c].requestPolicy.validRange.step: Invalid value: "9": one step above min must not be above the capacity, 10`},
		{"default and max between steps", policyOf("default: 4, validRange: {min: 1, max: 6, step: 2}"),
			`spec.devices[0].capacity[c].requestPolicy.default: Invalid value: "4": must be a whole number of steps of 2 above min, 1
spec.devices[0].capacity[c].requestPolicy.validRange.max: Invalid value: "6": must be a whole number of steps of 2 above min, 1`},
		{"default between steps that are fractions", policyOf("default: 1250m, validRange: {min: 1, step: 100m}"),
			`spec.devices[0].capacity[c].requestPolicy.default: Invalid value: "1250m": must be a whole number of steps of 100m above min, 1`},
	})
}

func TestTaintRules(t *testing.T) {
	checkRules(t, []rule{
		{"fine", taintRuleOf("deviceSelector: {driver: gpu.example.com, pool: a/b, device: d}, taint: {key: k, effect: NoExecute}"), ""},
		{"a long driver", taintRuleOf("deviceSelector: {driver: " + strings.Repeat("a", 64) + "}, taint: {key: k, effect: NoExecute}"),
			"spec.deviceSelector.driver: Too long: may not be more than 63 bytes"},
		{"the longest driver", taintRuleOf("deviceSelector: {driver: " + strings.Repeat("a", 63) + "}, taint: {key: k, effect: NoExecute}"), ""},
		{"names", taintRuleOf("deviceSelector: {driver: a_b, pool: '', device: D}, taint: {key: k, effect: NoExecute}"),
			`spec.deviceSelector.driver: Invalid value: "a_b": ` + subdomainRule + `
spec.deviceSelector.pool: Required value
spec.deviceSelector.device: Invalid value: "D": ` + labelRule},
		{"taint", taintRuleOf("taint: {key: '', effect: ''}"),
			`spec.taint.key: Required value
spec.taint.effect: Required value`},
	})
}

// Without DRAFractionalCapacityRange, fractions are rounded up to whole numbers before they are compared.
func TestFractionsThatAreNotCounted(t *testing.T) {
	checker := validation.New(validation.Programs{Cache: cel.NewCache(1)}, false)
	for policy, want := range map[string]int{
		"default: 2, validRange: {min: 2, max: 9, step: 1}": 0, "default: 2, validRange: {min: 2, max: 10, step: 1500m}": 0, "default: 2, validRange: {min: 2, max: 5, step: 1500m}": 1,
		"default: 500m, validValues: [500m, 1]": 1, "default: 500m, validValues: [500m, 2]": 0, "default: 1, validRange: {min: 100u}": 0,
	} {
		if got := checker.Object(policyOf(policy)); len(got) != want {
			t.Errorf("%s: %v, want %d errors", policy, got, want)
		}
	}
}

func TestNodeSelectors(t *testing.T) {
	const at = "spec.nodeSelector.nodeSelectorTerms"
	checkRules(t, []rule{
		{"fine", selectedBy("{matchExpressions: [{key: k, operator: In, values: [a]}, {key: k, operator: Gt, values: [x]}, {key: k, operator: Exists}], matchFields: [{key: metadata.name, operator: NotIn, values: [n]}]}"), ""},
		{"no term", selectedBy(""), at + ": Required value: must have at least one term"},
		{"two terms", selectedBy("{}, {}"), at + ": Invalid value: 2: must have exactly one term"},
		{"two terms of a device", sliceOf("perDeviceNodeSelection: true, devices: [{name: d, nodeSelector: {nodeSelectorTerms: [{}, {}]}}]"), ""},
		{"labels", selectedBy("{matchExpressions: [{key: '', operator: In, values: ['-']}, {key: k, operator: In}, {key: k, operator: Exists, values: [a]}, {key: k, operator: Lt, values: ['1', '2']}, {key: k, operator: Near}]}"),
			at + "[0].matchExpressions[0].key: Required value\n" + at + `[0].matchExpressions[0].values[0]: Invalid value: "-": ` + valueRule + "\n" +
				at + "[0].matchExpressions[1].values: Required value: operator In needs a value\n" + at + "[0].matchExpressions[2].values: Forbidden: operator Exists has no values\n" +
				at + "[0].matchExpressions[3].values: Invalid value: 2: must be one value\n" + at + `[0].matchExpressions[4].operator: Invalid value: "Near": must be In, NotIn, Exists, DoesNotExist, Gt or Lt`},
		{"fields", selectedBy("{matchFields: [{key: metadata.name, operator: Exists}, {key: spec.x, operator: In}, {key: metadata.name, operator: In, values: ['N']}, {key: metadata.name, operator: In, values: [a, b]}]}"),
			at + `[0].matchFields[0].operator: Invalid value: "Exists": must be In or NotIn` + "\n" + at + `[0].matchFields[1].key: Invalid value: "spec.x": must be metadata.name` + "\n" +
				at + `[0].matchFields[2].values[0]: Invalid value: "N": ` + subdomainRule + "\n" + at + "[0].matchFields[3].values: Invalid value: 2: must be one value"},
	})
}
