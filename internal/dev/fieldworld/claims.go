// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package fieldworld

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/dev/fieldchange"
)

// kinds is a claim for devices of a kind, with all that is said of the request beside.
func kinds(kind string, more ...string) *resourceapi.ResourceClaim {
	return asking(fmt.Sprintf(`name: r, exactly: {deviceClassName: gpu, selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].kind == "%s"'}}]%s}`, kind, strings.Join(append([]string{""}, more...), ", ")))
}

// asking is a claim with requests.
func asking(requests ...string) *resourceapi.ResourceClaim {
	return parse[resourceapi.ResourceClaim]("metadata: {name: c, namespace: default}\nspec: {devices: {requests: [{" + strings.Join(requests, "}, {") + "}]}}")
}

// comparing are claims for two devices with and without one value of an attribute.
func comparing(attribute string) (list []*resourceapi.ResourceClaim) {
	for _, how := range []string{"match", "distinct"} {
		c := kinds("attributes", "count: 2")
		c.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{constraint(how, "gpu.example.com/"+attribute)}
		list = append(list, c)
	}
	return list
}

// Questions are claims of which each reads something of Slices.
func Questions() (list []*resourceapi.ResourceClaim) {
	add := func(c ...*resourceapi.ResourceClaim) { list = append(list, c...) }
	for _, expression := range []string{
		"int == 1", "bool", `string == "a"`, `version.compareTo(semver("1.0.0")) == 0`, "ints.includes(1)", "bools.includes(true)", `strings.includes("a")`, `versions.includes(semver("1.0.0"))`,
	} {
		name, _, _ := strings.Cut(strings.FieldsFunc(expression, func(r rune) bool { return r == ' ' || r == '.' })[0], " ")
		add(asking(fmt.Sprintf(`name: r, exactly: {deviceClassName: gpu, count: 1, selectors: [{cel: {expression: '"%s" in device.attributes["gpu.example.com"] && device.attributes["gpu.example.com"].%s'}}]}`, name, expression)))
		add(comparing(name)...)
	}
	add(comparing("compared")...) // which no expression reads
	for _, memory := range []string{"1", "2", "3", "4", "5"} {
		for _, kind := range []string{"share", "whole"} {
			add(kinds(kind, "count: 1, capacity: {requests: {memory: "+memory+"}}"), kinds(kind, "count: 2, capacity: {requests: {memory: "+memory+"}}"))
		}
	}
	for _, kind := range []string{"attributes", "share", "whole", "partition", "tainted", "binding", "skipping", "bound", "selected", "one", "each"} {
		add(kinds(kind, "count: 1"), kinds(kind, "count: 2"), kinds(kind, "count: 3"), kinds(kind, "allocationMode: All"))
	}
	for _, toleration := range []string{"key: a, operator: Exists", "key: a, operator: Equal, value: a", "key: b, operator: Exists", "operator: Exists, effect: NoExecute"} {
		add(kinds("tainted", "count: 1, tolerations: [{"+toleration+"}]"))
	}
	add(kinds("partition", "count: 1, adminAccess: true"), kinds("attributes", "count: 2, adminAccess: true"),
		asking(`name: r, exactly: {deviceClassName: gpu, count: 1, selectors: [{cel: {expression: 'device.allowMultipleAllocations == true'}}]}`),
		asking(`name: r, exactly: {deviceClassName: gpu, count: 1, selectors: [{cel: {expression: '"memory" in device.capacity["gpu.example.com"] && device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("3"))'}}]}`),
		asking(`name: r, firstAvailable: [{name: a, deviceClassName: gpu, allocationMode: ExactCount, count: 9}, {name: b, deviceClassName: gpu, allocationMode: ExactCount, count: 1, tolerations: [{key: a, operator: Exists}]}]`))
	derived := kinds("attributes", `count: 2, derivedAttributes: [{name: gpu.example.com/own, expression: 'device.attributes["gpu.example.com"].string'}]`)
	derived.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{constraint("match", "gpu.example.com/own")}
	twice := kinds("whole", "count: 1")
	twice.Spec.Devices.Requests = append(twice.Spec.Devices.Requests, *twice.Spec.Devices.Requests[0].DeepCopy())
	twice.Spec.Devices.Requests[1].Name = "q"
	add(derived, twice)
	for _, c := range list {
		for i := range c.Spec.Devices.Requests {
			if e := c.Spec.Devices.Requests[i].Exactly; e != nil && e.AllocationMode == "" {
				e.AllocationMode = resourceapi.DeviceAllocationModeExactCount
			}
		}
	}
	return list
}

func constraint(how, attribute string) resourceapi.DeviceConstraint {
	return *parse[resourceapi.DeviceConstraint](how + "Attribute: " + attribute)
}

// Values are what fields get.
var Values = fieldchange.Values{
	Texts: func(path string) []string {
		switch {
		case strings.HasSuffix(path, "Effect"):
			return []string{"NoExecute", "NoSchedule", "None", ""}
		case strings.HasSuffix(path, "Operator"):
			return []string{"Exists", "NotIn", "Equal", ""}
		case strings.HasSuffix(path, "AllocationMode"):
			return []string{"All", "ExactCount"}
		case strings.HasSuffix(path, "VersionValue"), strings.HasSuffix(path, "VersionValues[]"):
			return []string{"1.0.0", "2.0.0"}
		case strings.HasSuffix(path, "Expression"):
			return []string{`device.driver == "x"`, "true", `device.attributes["gpu.example.com"].serial`}
		case strings.HasSuffix(path, "Attribute"), strings.HasSuffix(path, "DerivedAttributes[].Name"):
			return []string{"gpu.example.com/serial", "gpu.example.com/kind"}
		case path == "Status.DeclaredFeatures[]":
			return []string{"DRAOptionalNodeOperations", "b"}
		}
		return []string{"a", "b", "card", "gpu", "q"}
	},
	Keys: []string{"memory", "kind", "cpu"}, Quantities: []string{"8", "0", "1", "2", "3"}, Numbers: []int64{0, 2},
}

// Claims are claims of which each field is changed.
func Claims() []*resourceapi.ResourceClaim {
	const (
		tolerated = `tolerations: [{key: a, operator: Equal, value: a, effect: NoSchedule, tolerationSeconds: 1}]`
		own       = `derivedAttributes: [{name: gpu.example.com/own, expression: 'device.attributes["gpu.example.com"].string'}]`
		exactly   = `allocationMode: ExactCount`
	)
	two := kinds("attributes", exactly, "count: 1", "adminAccess: false", own)
	second := two.Spec.Devices.Requests[0].DeepCopy()
	second.Name = "q"
	two.Spec.Devices.Requests = append(two.Spec.Devices.Requests, *second)
	two.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{constraint("match", "gpu.example.com/own"), constraint("distinct", "gpu.example.com/serial"), constraint("match", "gpu.example.com/serial")}
	two.Spec.Devices.Constraints[0].Requests, two.Spec.Devices.Constraints[1].Requests = []string{"r", "q"}, []string{"r", "q"}
	two.Spec.Devices.Constraints[2].Requests = []string{"r"}
	firstOf := func(kind string, more ...string) *resourceapi.ResourceClaim {
		return asking(fmt.Sprintf(`name: r, firstAvailable: [{name: s, deviceClassName: gpu, selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].kind == "%s"'}}], %s}]`, kind, strings.Join(more, ", ")))
	}
	derived := firstOf("attributes", exactly, "count: 2", own)
	derived.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{constraint("match", "gpu.example.com/own")}
	nothing := kinds("attributes", exactly, "count: 1")
	nothing.Spec.Devices.Requests[0].Exactly.DeviceClassName = "a"
	return []*resourceapi.ResourceClaim{
		nothing, two, derived, kinds("attributes", exactly, "count: 1"), firstOf("attributes", exactly, "count: 1"), kinds("attributes", exactly, "count: 1", "adminAccess: true"),
		kinds("tainted", exactly, "count: 1", tolerated), firstOf("tainted", exactly, "count: 1", tolerated),
		kinds("share", exactly, "count: 1, capacity: {requests: {memory: 1}}"), firstOf("share", exactly, "count: 1, capacity: {requests: {memory: 1}}"),
	}
}
