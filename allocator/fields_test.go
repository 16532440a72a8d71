// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/internal/dev/fieldchange"
	"github.com/dray-project/dray/internal/keys"
	"github.com/dray-project/dray/internal/reads"
	"github.com/dray-project/dray/pools"
)

// omissions are all parts of the keys of an Allocator.
func omissions() []keys.Omission {
	return slices.Concat(
		keys.Omissions(&keys.Device), keys.Omissions(&keys.Taint), keys.Omissions(&keys.Pool), keys.Omissions(&keys.Node), keys.Omissions(&keys.Capacity),
		keys.Omissions(&keys.Attribute), keys.Omissions(&eligibility.Selected), keys.Omissions(&eligibility.Filtered), keys.Omissions(&eligibility.Tolerated),
		keys.Omissions(&claims.Asked), keys.Omissions(&claims.Constrained), keys.Omissions(&claims.Seen))
}

// notInKeys are rows that keys have to tell apart, and do otherwise.
var notInKeys = map[keys.Row]string{
	{Root: reads.Slice, Path: "Spec.Driver"}:                  "selectors read it: package cel",
	{Root: reads.Slice, Path: "Spec.Pool.ResourceSliceCount"}: "a pool that is not complete is unusable: package alike",
}

// The keys of an Allocator cover each row of the table that they have to, and no other.
func TestKeysCoverTheTable(t *testing.T) {
	covered := map[keys.Row]bool{}
	for _, omission := range omissions() {
		for _, row := range omission.Covers {
			if _, found := row.Root.Row(row.Path); !found {
				t.Errorf("%s: %s is covered and not in the table", row.Root.Name, row.Path)
			}
			covered[row] = true
		}
	}
	for _, root := range []*reads.Root{reads.Slice, reads.Device, reads.Claim, reads.Class, reads.Toleration, reads.Node} {
		for _, row := range root.Rows {
			at := keys.Row{Root: root, Path: row.Path}
			_, otherwise := notInKeys[at]
			want := row.Role.Keyed() && row.Only == "" && !otherwise
			if covered[at] != want {
				t.Errorf("%s: %s (%s) is covered: %v", root.Name, row.Path, row.Role, covered[at])
			}
		}
	}
}

// fieldWorld is a node with slices of which each field decides something, and what is in use there.
type fieldWorld struct {
	node   *corev1.Node
	slices []*resourceapi.ResourceSlice
	class  *resourceapi.DeviceClass
	named  string
	// inUse is set if something is in use. The node declares no feature then, and the allocator has not all.
	inUse    bool
	features allocator.Features
	// explains is set if it is told why there is nothing.
	explains bool
}

const fieldNode = `
metadata: {name: NODE, labels: {host: NODE}}
status: {declaredFeatures: [a, DRAOptionalNodeOperations]}
`

// fieldSlices are slices of a node. Devices 0 to 3 differ in attributes, 4 to 6 in shares, 7 to 9 in counters, and others in
// what admits them.
var fieldSlices = []string{`
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
		attributes: {serial: {string: a0}, kind: {string: attributes}, int: {int: 1}, bool: {bool: true}, string: {string: a}, version: {version: 1.0.0}, ints: {ints: [1, 2]}, bools: {bools: [true]}, strings: {strings: [a, b]}, versions: {versions: [1.0.0]}}
		nodeAllocatableResources: {cpu: {mapping: {deviceMultiplier: 1, capacityKey: memory, capacityMultiplier: 2}, overhead: {perPod: 1, perContainer: 1}}}
	- name: a1
		attributes: {serial: {string: a1}, kind: {string: attributes}, int: {int: 1}, bool: {bool: true}, string: {string: a}, version: {version: 1.0.0}, ints: {ints: [2, 3]}, bools: {bools: [true]}, strings: {strings: [b, c]}, versions: {versions: [1.0.0]}}
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

// fieldUse is what is in use if something is.
var fieldUse = []string{`
metadata: {name: used, uid: used}
status: {allocation: {devices: {results: [{request: r, driver: gpu.example.com, pool: NODE, device: a0}, {request: r, driver: gpu.example.com, pool: NODE, device: c0}]}}}
`, `
metadata: {name: share, uid: share}
status: {allocation: {devices: {results: [{request: r, driver: gpu.example.com, pool: NODE, device: s0, shareID: x, consumedCapacity: {memory: 1}}]}}}
`}

func fieldWorldOf(name string, inUse bool) *fieldWorld {
	on := strings.NewReplacer("NODE", name)
	w := &fieldWorld{node: mustParse[corev1.Node](on.Replace(fieldNode)), class: gpuClass, named: name, inUse: inUse, features: allocator.AllFeatures()}
	if inUse {
		w.node.Status.DeclaredFeatures = w.node.Status.DeclaredFeatures[:1]
		w.features.DeviceBindingAndStatus = false
	}
	for _, text := range fieldSlices {
		w.slices = append(w.slices, mustParse[resourceapi.ResourceSlice](on.Replace(text)))
	}
	return w
}

// stateOf is a cluster with the slices of all worlds.
func stateOf(t *testing.T, worlds ...*fieldWorld) *pools.State {
	t.Helper()
	var published []*resourceapi.ResourceSlice
	for _, w := range worlds {
		published = append(published, w.slices...)
	}
	ledger := clusterOf(published...)
	for _, w := range worlds {
		for _, text := range fieldUse {
			used := mustParse[resourceapi.ResourceClaim](strings.ReplaceAll(text, "NODE", w.node.Name))
			used.Name += w.node.Name
			used.UID += used.UID
			if err := ledger.Assume(used); w.inUse && err != nil {
				t.Fatal(err)
			} else if !w.inUse && err == nil {
				if err := ledger.Forget(used); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return ledger.State()
}

// kinds is a claim for devices of a kind, with all that is said of the request beside.
func kinds(kind string, more ...string) *resourceapi.ResourceClaim {
	return asking(fmt.Sprintf(`name: r, exactly: {deviceClassName: gpu, selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].kind == "%s"'}}]%s}`, kind, strings.Join(append([]string{""}, more...), ", ")))
}

// asking is a claim with requests.
func asking(requests ...string) *resourceapi.ResourceClaim {
	return mustParse[resourceapi.ResourceClaim]("metadata: {name: c, namespace: default}\nspec: {devices: {requests: [{" + strings.Join(requests, "}, {") + "}]}}")
}

// fieldQuestions are claims of which each reads something of fieldSlices.
func fieldQuestions() (list []*resourceapi.ResourceClaim) {
	add := func(c ...*resourceapi.ResourceClaim) { list = append(list, c...) }
	for _, expression := range []string{
		"int == 1", "bool", `string == "a"`, `version.compareTo(semver("1.0.0")) == 0`, "ints.includes(1)", "bools.includes(true)", `strings.includes("a")`, `versions.includes(semver("1.0.0"))`,
	} {
		name, _, _ := strings.Cut(strings.FieldsFunc(expression, func(r rune) bool { return r == ' ' || r == '.' })[0], " ")
		add(asking(fmt.Sprintf(`name: r, exactly: {deviceClassName: gpu, count: 1, selectors: [{cel: {expression: '"%s" in device.attributes["gpu.example.com"] && device.attributes["gpu.example.com"].%s'}}]}`, name, expression)))
		for _, how := range []string{"match", "distinct"} {
			c := kinds("attributes", "count: 2")
			c.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{mustParseConstraint(how, "gpu.example.com/"+name)}
			add(c)
		}
	}
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
	derived.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{mustParseConstraint("match", "gpu.example.com/own")}
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

func mustParseConstraint(how, attribute string) resourceapi.DeviceConstraint {
	return *mustParse[resourceapi.DeviceConstraint](how + "Attribute: " + attribute)
}

// fieldAnswer is what an allocator says: which devices, and what results say of them or why there are none.
type fieldAnswer struct{ devices, results string }

// programs are shared by all allocators of these tests: what is compiled depends on nothing else.
var programs = cel.NewCache(4096)

func newForFields(w *fieldWorld) *allocator.Allocator {
	return allocator.New(allocator.Options{Features: w.features, Memory: allocator.NewMemory(allocator.MemoryOptions{Programs: programs})})
}

// classesOf are the class of a world, one more with the same selectors, and two that have no devices.
func classesOf(w *fieldWorld) allocator.Classes {
	return allocator.ClassMap(w.class, fieldClass("card", gpuClass.Spec.Selectors[0].CEL.Expression), fieldClass("a", "false"), fieldClass("b", "false"))
}

func fieldClass(name, expression string) *resourceapi.DeviceClass {
	class := gpuClass.DeepCopy()
	class.Name, class.Spec.Selectors[0].CEL.Expression = name, expression
	return class
}

func fieldAsk(t *testing.T, a *allocator.Allocator, state *pools.State, w *fieldWorld, c *resourceapi.ResourceClaim) fieldAnswer {
	t.Helper()
	problem, err := a.Compile([]*resourceapi.ResourceClaim{c}, classesOf(w))
	if err != nil {
		return fieldAnswer{"error", err.Error()}
	}
	outcome, err := problem.Allocate(t.Context(), state, w.node)
	if err != nil {
		return fieldAnswer{"error: " + allocator.General(err), err.Error()}
	}
	switch found := outcome.(type) {
	case *allocator.Assignment:
		var answer fieldAnswer
		for _, choice := range found.Choices() {
			answer.devices += fmt.Sprintf("%s=%s ", choice.Request, choice.Device.Device)
		}
		results := found.Results()
		for _, r := range results {
			for _, d := range r.Devices.Results {
				for _, name := range slices.Sorted(maps.Keys(d.ConsumedCapacity)) {
					taken := d.ConsumedCapacity[name]
					answer.devices += taken.String()
				}
			}
			text, err := r.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			answer.results += string(text)
		}
		return answer
	case *allocator.Unsatisfiable:
		if w.explains {
			return fieldAnswer{"none", found.Explain().Text()}
		}
		return fieldAnswer{"none", ""}
	}
	return fieldAnswer{fmt.Sprintf("%T", outcome), ""}
}

// fieldCase is two worlds and claims that differ in a field, which the second one has changed.
type fieldCase struct {
	name string
	row  *reads.Row
	// make returns the second world, or nil, and what is asked about it. About the first one the same is asked, but for claims.
	changed func() (*fieldWorld, *resourceapi.ResourceClaim)
	// claim is what is asked about the first one if claims differ, else nil.
	claim *resourceapi.ResourceClaim
	base  *fieldWorld
}

var fieldValues = fieldchange.Values{
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

// fieldCases lists them. The second world is node b, but where classes or claims differ.
func fieldCases(base, other *fieldWorld) (list []fieldCase) {
	for i, slice := range other.slices {
		for _, c := range fieldchange.Of(slice, fieldValues) {
			list = append(list, fieldCase{name: slice.Name + ": " + c.Name, row: c.Row, base: base, changed: func() (*fieldWorld, *resourceapi.ResourceClaim) {
				changed := *other
				changed.slices = slices.Clone(other.slices)
				changed.slices[i] = c.Apply(slice, (*resourceapi.ResourceSlice).DeepCopy)
				return &changed, nil
			}})
		}
	}
	for _, c := range fieldchange.Of(other.node, fieldValues) {
		list = append(list, fieldCase{name: "node: " + c.Name, row: c.Row, base: base, changed: func() (*fieldWorld, *resourceapi.ResourceClaim) {
			changed := *other
			changed.node = c.Apply(other.node, (*corev1.Node).DeepCopy)
			return &changed, nil
		}})
	}
	for _, c := range fieldchange.Of(gpuClass, fieldValues) {
		list = append(list, fieldCase{name: "class: " + c.Name, row: c.Row, base: base, changed: func() (*fieldWorld, *resourceapi.ResourceClaim) {
			changed := *base
			changed.class = c.Apply(gpuClass, (*resourceapi.DeviceClass).DeepCopy)
			return &changed, nil
		}})
	}
	explaining := *base
	explaining.explains = true
	for _, claim := range fieldClaims() {
		for _, c := range fieldchange.Of(claim, fieldValues) {
			if strings.HasPrefix(c.Name, "Status") {
				continue // what is in use is given with the state
			}
			list = append(list, fieldCase{name: "claim: " + c.Name, row: c.Row, base: &explaining, claim: claim, changed: func() (*fieldWorld, *resourceapi.ResourceClaim) {
				return &explaining, c.Apply(claim, (*resourceapi.ResourceClaim).DeepCopy)
			}})
		}
	}
	return list
}

// fieldClaims are claims of which each field is changed.
func fieldClaims() []*resourceapi.ResourceClaim {
	const (
		tolerated = `tolerations: [{key: a, operator: Equal, value: a, effect: NoSchedule, tolerationSeconds: 1}]`
		own       = `derivedAttributes: [{name: gpu.example.com/own, expression: 'device.attributes["gpu.example.com"].string'}]`
		exactly   = `allocationMode: ExactCount`
	)
	two := kinds("attributes", exactly, "count: 1", "adminAccess: false", own)
	second := two.Spec.Devices.Requests[0].DeepCopy()
	second.Name = "q"
	two.Spec.Devices.Requests = append(two.Spec.Devices.Requests, *second)
	two.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{mustParseConstraint("match", "gpu.example.com/own"), mustParseConstraint("distinct", "gpu.example.com/serial"), mustParseConstraint("match", "gpu.example.com/serial")}
	two.Spec.Devices.Constraints[0].Requests, two.Spec.Devices.Constraints[1].Requests = []string{"r", "q"}, []string{"r", "q"}
	two.Spec.Devices.Constraints[2].Requests = []string{"r"}
	firstOf := func(kind string, more ...string) *resourceapi.ResourceClaim {
		return asking(fmt.Sprintf(`name: r, firstAvailable: [{name: s, deviceClassName: gpu, selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].kind == "%s"'}}], %s}]`, kind, strings.Join(more, ", ")))
	}
	derived := firstOf("attributes", exactly, "count: 2", own)
	derived.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{mustParseConstraint("match", "gpu.example.com/own")}
	nothing := kinds("attributes", exactly, "count: 1")
	nothing.Spec.Devices.Requests[0].Exactly.DeviceClassName = "a"
	return []*resourceapi.ResourceClaim{
		nothing, two, derived, kinds("attributes", exactly, "count: 1"), firstOf("attributes", exactly, "count: 1"), kinds("attributes", exactly, "count: 1", "adminAccess: true"),
		kinds("tainted", exactly, "count: 1", tolerated), firstOf("tainted", exactly, "count: 1", tolerated),
		kinds("share", exactly, "count: 1, capacity: {requests: {memory: 1}}"), firstOf("share", exactly, "count: 1, capacity: {requests: {memory: 1}}"),
	}
}
