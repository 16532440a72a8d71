// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fieldworld has a node with slices and claims of which each field that decides anything decides something. It is for tests of
// what answers depend on, which change one field at a time (package fieldchange).
package fieldworld

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"
)

// parse reads an object, and panics if it is none.
func parse[T any](text string) *T {
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(text, "\t", "  ")), object); err != nil {
		panic(err)
	}
	return object
}

// Class is the class that has all devices.
func Class() *resourceapi.DeviceClass {
	return classOf("gpu", `device.driver == "gpu.example.com"`)
}

// OtherClasses are one more with the same selectors as Class, and two that have no devices.
func OtherClasses() []*resourceapi.DeviceClass {
	return []*resourceapi.DeviceClass{classOf("card", `device.driver == "gpu.example.com"`), classOf("a", "false"), classOf("b", "false")}
}

func classOf(name, expression string) *resourceapi.DeviceClass {
	class := &resourceapi.DeviceClass{}
	class.Name = name
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
	return class
}

// Node is a node of a name.
func Node(name string) *corev1.Node {
	return parse[corev1.Node](strings.ReplaceAll(nodeText, "NODE", name))
}

// Slices are those of a node.
func Slices(node string) (list []*resourceapi.ResourceSlice) {
	for _, text := range sliceTexts {
		list = append(list, parse[resourceapi.ResourceSlice](strings.ReplaceAll(text, "NODE", node)))
	}
	return list
}

// Used are claims that have devices of a node.
func Used(node string) (list []*resourceapi.ResourceClaim) {
	for _, text := range useTexts {
		used := parse[resourceapi.ResourceClaim](strings.ReplaceAll(text, "NODE", node))
		used.Name += node
		used.UID += used.UID
		list = append(list, used)
	}
	return list
}

const nodeText = `
metadata: {name: NODE, labels: {host: NODE}}
status: {declaredFeatures: [a, DRAOptionalNodeOperations]}
`

// sliceTexts are slices of a node. Devices 0 to 3 differ in attributes, 4 to 6 in shares, 7 to 9 in counters, and others in
// what admits them.
var sliceTexts = []string{`
metadata: {name: NODE-counters}
spec:
	driver: gpu.example.com
	nodeName: NODE
	pool: {name: NODE, generation: 1, resourceSliceCount: 2}
	sharedCounters:
	- {name: card, counters: {memory: {value: 4}}}
	- {name: other, counters: {memory: {value: 2}}}
`, `
metadata: {name: NODE-devices}
spec:
	driver: gpu.example.com
	nodeName: NODE
	pool: {name: NODE, generation: 1, resourceSliceCount: 2}
	devices:
	- name: s2
		attributes: {kind: {string: whole}}
		capacity: {memory: {value: 4, requestPolicy: {default: 2}}}
	- name: a0
		attributes: {serial: {string: a0}, compared: {string: a}, kind: {string: attributes}, int: {int: 1}, bool: {bool: true}, string: {string: a}, version: {version: 1.0.0}, ints: {ints: [1, 2]}, bools: {bools: [true]}, strings: {strings: [a, b]}, versions: {versions: [1.0.0]}}
		nodeAllocatableResources: {cpu: {mapping: {deviceMultiplier: 1, capacityKey: memory, capacityMultiplier: 2}, overhead: {perPod: 1, perContainer: 1}}}
	- name: a1
		attributes: {serial: {string: a1}, compared: {string: a}, kind: {string: attributes}, int: {int: 1}, bool: {bool: true}, string: {string: a}, version: {version: 1.0.0}, ints: {ints: [2, 3]}, bools: {bools: [true]}, strings: {strings: [b, c]}, versions: {versions: [1.0.0]}}
	- name: s0
		attributes: {kind: {string: share}}
		allowMultipleAllocations: true
		capacity: {memory: {value: 4, requestPolicy: {default: 2, validRange: {min: 1, max: 3, step: 1}}}}
	- name: s1
		attributes: {kind: {string: share}}
		allowMultipleAllocations: true
		capacity: {memory: {value: 4, requestPolicy: {default: 2, validValues: [1, 2]}}}
	- name: c0
		attributes: {kind: {string: partition}}
		consumesCounters: [{counterSet: card, counters: {memory: {value: 2}}, compatibilityGroups: [a]}]
	- name: c1
		attributes: {kind: {string: partition}}
		consumesCounters: [{counterSet: card, counters: {memory: {value: 2}}, compatibilityGroups: [a, b]}]
	- name: c2
		attributes: {kind: {string: partition}}
		consumesCounters: [{counterSet: other, counters: {memory: {value: 1}}}]
	- name: t0
		attributes: {kind: {string: tainted}}
		taints: [{key: a, value: a, effect: NoSchedule, timeAdded: "2026-01-01T00:00:00Z"}]
	- name: b0
		attributes: {kind: {string: binding}}
		bindingConditions: [ready]
		bindingFailureConditions: [failed]
		bindsToNode: true
`, `
metadata: {name: NODE-skipping}
spec:
	driver: gpu.example.com
	nodeName: NODE
	pool: {name: NODE-skipping, generation: 1, resourceSliceCount: 1}
	skipNodeOperations: ["*"]
	partitionTypeAttribute: gpu.example.com/kind
	devices: [{name: k0, attributes: {kind: {string: skipping}}}]
`, `
metadata: {name: NODE-selected}
spec:
	driver: gpu.example.com
	pool: {name: NODE-selected, generation: 1, resourceSliceCount: 1}
	nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: host, operator: In, values: [NODE]}]}, {matchFields: [{key: metadata.name, operator: In, values: [NODE]}], matchExpressions: [{key: host, operator: In, values: [a, NODE]}]}]}
	devices:
	- {name: n0, attributes: {kind: {string: bound}}, bindsToNode: true}
	- {name: n1, attributes: {kind: {string: selected}}}
`, `
metadata: {name: NODE-one}
spec:
	driver: gpu.example.com
	pool: {name: NODE-one, generation: 1, resourceSliceCount: 1}
	nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [NODE]}], matchExpressions: [{key: host, operator: In, values: [NODE]}]}]}
	devices: [{name: o0, attributes: {kind: {string: one}}}]
`, `
metadata: {name: NODE-each}
spec:
	driver: gpu.example.com
	pool: {name: NODE-each, generation: 1, resourceSliceCount: 1}
	perDeviceNodeSelection: true
	devices:
	- {name: p0, attributes: {kind: {string: each}}, nodeName: NODE}
	- {name: p1, attributes: {kind: {string: each}}, nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [NODE]}], matchExpressions: [{key: host, operator: In, values: [NODE]}]}]}}
	- {name: p2, attributes: {kind: {string: each}}, allNodes: false}
`}

// useTexts is what is in use if something is.
var useTexts = []string{`
metadata: {name: used, uid: used}
status: {allocation: {devices: {results: [{request: r, driver: gpu.example.com, pool: NODE, device: a0}, {request: r, driver: gpu.example.com, pool: NODE, device: c0}]}}}
`, `
metadata: {name: share, uid: share}
status: {allocation: {devices: {results: [{request: r, driver: gpu.example.com, pool: NODE, device: s0, shareID: x, consumedCapacity: {memory: 1}}]}}}
`}
